"""The file of a batch is looked through in a bounded time, whatever is in it."""

from __future__ import annotations

from pathlib import Path

import pytest

from accounts.models import User
from hosting.batches import input_lines
from hosting.batches.input_lines import lines_from, look_through
from hosting.models import Batch

pytestmark = pytest.mark.django_db


def test_empty_lines_without_end_are_refused_and_not_read(person: User, tmp_path: Path) -> None:
    path = tmp_path / "in.jsonl"
    path.write_bytes(b"\n" * (input_lines.MAX_NUMBER + 5))
    assert [one.number for one in lines_from(path)] == [input_lines.MAX_NUMBER + 1]
    batch = Batch(user=person, endpoint="/v1/chat/completions")
    assert [one["code"] for one in look_through(batch, path).errors] == ["too_many_lines"]


def test_some_empty_lines_are_passed_by(tmp_path: Path) -> None:
    path = tmp_path / "in.jsonl"
    path.write_bytes(b"\n" * 1000 + b"{}\n\n")
    assert [one.number for one in lines_from(path)] == [1001]
