"""`manage.py doctor`: what it says of a machine on which something is amiss."""

from __future__ import annotations

from pathlib import Path

import pytest

from hosting.doctor import Finding, examine
from hosting.supervisor import openblas


def finding(subject: str) -> Finding:
    return next(one for one in examine() if one.subject == subject)


@pytest.mark.skipif(not openblas.is_wanted(), reason="not needed on this machine")
def test_an_openblas_that_is_not_there_is_told(
    db: None, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    library = tmp_path / "libopenblas.so.0"
    monkeypatch.setenv("HEARTH_OPENBLAS", str(library))
    told = finding("OpenBLAS")
    assert not told.is_ok and "HEARTH_OPENBLAS" in told.text
    library.touch()
    assert finding("OpenBLAS").is_ok
