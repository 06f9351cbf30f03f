"""One runner at a time: who has the lock, which the kernel frees when a process ends."""

from __future__ import annotations

import fcntl
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from django.conf import settings

from hosting.batches.runner import Runner
from hosting.models import Batch


def run_all(stop: threading.Event) -> None:
    """Until no batch is open, or `stop` is set. Somebody else may be at it: then nothing is done.

    What was made while the last batch ended is seen: whoever wanted to begin it met our lock.
    """
    while not stop.is_set() and Batch.objects.open().exists():
        with locked() as is_ours:
            if not is_ours:
                return
            Runner().run(stop)


@contextmanager
def locked() -> Iterator[bool]:
    """Whether nobody else has it."""
    folder = Path(settings.DATA_DIR) / "run"
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    with (folder / "batches.lock").open("w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            yield False
        else:
            yield True
