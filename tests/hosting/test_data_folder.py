"""The data folder is nobody else's, and the terminal says in a sentence why it cannot be used."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest
from django.core.exceptions import ImproperlyConfigured

from hosting.data_folder import prepare_data_folder
from tests.environment import clear_settings

ROOT = Path(__file__).resolve().parent.parent.parent


def manage(data_dir: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    own = {"HEARTH_DATA_DIR": str(data_dir), "DATABASE_URL": ""}
    environ = clear_settings(dict(os.environ)) | own
    return subprocess.run(
        [sys.executable, "manage.py", *arguments],
        cwd=ROOT,
        env=environ,
        umask=0o022,
        capture_output=True,
        text=True,
    )


def mode_of(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_files_in_a_folder_that_is_open_to_all_are_not(tmp_path: Path) -> None:
    tmp_path.chmod(0o755)
    database = tmp_path / "db.sqlite3"
    database.touch(0o644)
    assert manage(tmp_path, "migrate", "--verbosity", "0", "contenttypes").returncode == 0
    assert {mode_of(path) & 0o077 for path in tmp_path.iterdir()} == {0}


def test_a_folder_that_cannot_be_made_is_told_in_a_sentence(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    told = manage(tmp_path / "file" / "data", "up")
    assert told.returncode == 1
    assert told.stderr.count("\n") == 1
    assert "HEARTH_DATA_DIR" in told.stderr


@pytest.mark.skipif(sys.platform == "darwin", reason="its file names are UTF-8")
def test_a_path_that_is_not_utf8_is_told_in_a_sentence(tmp_path: Path) -> None:
    told = manage(Path(os.fsdecode(bytes(tmp_path / "data-") + b"\xe9")), "up")
    assert told.returncode == 1
    assert told.stderr.count("\n") == 1
    assert "HEARTH_DATA_DIR" in told.stderr
    assert not list(tmp_path.iterdir())


def test_what_is_closed_to_this_user_is_told_in_a_sentence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    key = tmp_path / "secret_key"
    key.touch(0o600)
    prepare_data_folder(tmp_path)
    monkeypatch.setattr(os, "access", lambda path, mode: path == tmp_path)  # root may read all
    with pytest.raises(ImproperlyConfigured, match="secret_key in it is another user's"):
        prepare_data_folder(tmp_path)
