"""The installation's secret key: made once, kept in a file that only its owner can read."""

from __future__ import annotations

import os
import secrets
import tempfile
from pathlib import Path


def load_or_create(path: Path) -> str:
    """The key in `path`. Several processes may start at once: the first file linked there wins."""
    if not path.exists():
        _create(path)
    return path.read_text().strip()


def _create(path: Path) -> None:
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    descriptor, draft = tempfile.mkstemp(dir=path.parent)  # mkstemp makes it 0600
    try:
        with os.fdopen(descriptor, "w") as file:
            file.write(secrets.token_urlsafe(64))
        os.link(draft, path)
    except FileExistsError:
        pass
    finally:
        os.unlink(draft)
