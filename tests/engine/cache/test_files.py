"""A record's pieces come to disk whole, however few bytes the system takes at a time."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

import pytest

from engine.cache.files import RealFiles

WRITE = os.writev


@pytest.mark.parametrize("most_bytes", [1, 7, 1 << 20])
@pytest.mark.parametrize("num_pieces", [1, 3, 1500])
def test_what_is_written_in_parts_is_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, most_bytes: int, num_pieces: int
) -> None:
    def write_some(file: int, pieces: Sequence[bytes | memoryview]) -> int:
        assert len(pieces) <= 1024, "or the system refuses"
        return WRITE(file, [b"".join(pieces)[:most_bytes]])

    monkeypatch.setattr(os, "writev", write_some)
    pieces = [bytes([number % 251] * (number % 5)) for number in range(1, num_pieces + 1)]
    RealFiles().write_new(tmp_path / "record", [b"", *pieces, memoryview(b"end")])
    assert (tmp_path / "record").read_bytes() == b"".join(pieces) + b"end"


def test_a_file_of_nothing_is_written_too(tmp_path: Path) -> None:
    RealFiles().write_new(tmp_path / "record", [b"", b""])
    assert (tmp_path / "record").read_bytes() == b""
