"""A database file that SQLite cannot read is named where somebody starts, with what to do."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.environment import clear_settings
from tests.hosting.redis_alone import ROOT


@pytest.mark.parametrize("command", [("up", "--only", "redis"), ("prepare",)])
@pytest.mark.parametrize("content", [b"no database " * 1000, b"SQLite format 3\0" + b"\xff" * 9000])
def test_it_is_named_with_what_to_do(
    tmp_path: Path, command: tuple[str, ...], content: bytes
) -> None:
    database = tmp_path / "db.sqlite3"
    database.write_bytes(content)
    started = subprocess.run(
        [sys.executable, "manage.py", *command],
        cwd=ROOT,
        env=clear_settings(dict(os.environ))
        | {"HEARTH_DATA_DIR": str(tmp_path), "DATABASE_URL": ""},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert started.returncode == 1
    said = started.stdout + started.stderr
    assert f"{database} cannot be read" in said and "Put its last backup there" in said
    assert "Traceback" not in said
