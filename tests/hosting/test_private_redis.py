"""The private Redis of `manage.py up` starts whatever a crash has left of its files."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from tests.environment import clear_settings
from tests.waiting import wait_until

ROOT = Path(__file__).resolve().parent.parent.parent
TORN = b"*3\r\n$3\r\nSET\r\n$1\r\na\r\n$1\r\n1\r\n" + bytes(4096)  # a power cut leaves zeros
STARTED = "preparing the database"


def test_files_that_cannot_be_read_are_put_aside(tmp_path: Path) -> None:
    (tmp_path / "redis").mkdir()
    (tmp_path / "redis" / "appendonly.aof").write_bytes(TORN)
    output = tmp_path / "up.txt"
    with output.open("wb") as file:
        up = subprocess.Popen(
            [sys.executable, "manage.py", "up", "--only", "redis"],
            cwd=ROOT,
            env=clear_settings(dict(os.environ)) | {"HEARTH_DATA_DIR": str(tmp_path)},
            stdout=file,
            stderr=file,
        )
    try:
        wait_until(lambda: STARTED in output.read_text() or up.poll() is not None, seconds=60)
    finally:
        up.terminate()
        up.wait(timeout=20)
    assert STARTED in output.read_text()
    assert (tmp_path / "redis-unreadable" / "appendonly.aof").read_bytes() == TORN
    assert f"{tmp_path}/redis-unreadable" in output.read_text()
