"""A database that cannot be used is named where somebody starts, with what to do."""

from __future__ import annotations

import contextlib
import os
import sqlite3
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
    said = refusal(tmp_path, command, database_url="")
    assert f"{database} cannot be read" in said and "Put its last backup there" in said


@pytest.mark.parametrize("command", [("up", "--only", "redis"), ("prepare",)])
def test_one_that_is_away_is_named_by_its_setting(tmp_path: Path, command: tuple[str, ...]) -> None:
    said = refusal(tmp_path, command, database_url="postgres://hearth:geheim@127.0.0.1:1/hearth")
    assert "DATABASE_URL" in said and "refused" in said and "geheim" not in said


@pytest.mark.parametrize("command", [("up", "--only", "redis"), ("prepare",)])
def test_one_of_a_newer_hearth_is_left_as_it_is(tmp_path: Path, command: tuple[str, ...]) -> None:
    database = tmp_path / "db.sqlite3"
    with contextlib.closing(sqlite3.connect(database)) as newer, newer:
        newer.execute("CREATE TABLE django_migrations (id INTEGER, app, name, applied)")
        applied = (1, "hosting", "9999_tomorrow", "2030-01-01")
        newer.execute("INSERT INTO django_migrations VALUES (?, ?, ?, ?)", applied)
    said = refusal(tmp_path, command, database_url="")
    assert "a newer Hearth's" in said and "hosting.9999_tomorrow" in said
    with contextlib.closing(sqlite3.connect(database)) as newer:
        assert newer.execute("SELECT name FROM sqlite_master").fetchall() == [
            ("django_migrations",)
        ]


def refusal(data_dir: Path, command: tuple[str, ...], *, database_url: str) -> str:
    """What the terminal says in place of a start."""
    started = subprocess.run(
        [sys.executable, "manage.py", *command],
        cwd=ROOT,
        env=clear_settings(dict(os.environ))
        | {"HEARTH_DATA_DIR": str(data_dir), "DATABASE_URL": database_url},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert started.returncode == 1
    said = started.stdout + started.stderr
    assert "Traceback" not in said
    return said
