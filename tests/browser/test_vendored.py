"""The libraries in the repository are the ones that were looked at."""

from __future__ import annotations

import hashlib
from pathlib import Path

VENDOR = Path(__file__).resolve().parents[2] / "hosting/static/hosting/vendor"


def test_vendored_files_are_those_of_the_hash_list() -> None:
    lines = (VENDOR / "SHA256SUMS").read_text().splitlines()
    listed = {name.removeprefix("./"): digest for digest, name in (line.split() for line in lines)}
    present = {
        path.relative_to(VENDOR).as_posix(): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in VENDOR.rglob("*")
        if path.is_file() and path.name not in ("SHA256SUMS", "README.md")
    }
    assert present == listed


def test_every_library_comes_with_its_licence() -> None:
    folders = [path for path in VENDOR.iterdir() if path.is_dir()]
    assert all((folder / "LICENSE").is_file() for folder in folders)
