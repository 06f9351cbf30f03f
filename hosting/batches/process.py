"""One runner at a time."""

from __future__ import annotations

import threading
from pathlib import Path

from django.conf import settings

from hosting.actions.process_locks import locked
from hosting.batches.runner import Runner
from hosting.models import Batch


def run_all(stop: threading.Event) -> None:
    """Until no batch is open, or `stop` is set. Somebody else may be at it: then nothing is done.

    What was made while the last batch ended is seen: whoever wanted to begin it met our lock.
    """
    while not stop.is_set() and Batch.objects.open().exists():
        with locked(lock_file()) as lock:
            if lock is None:
                return
            Runner().run(stop)


def lock_file() -> Path:
    return Path(settings.DATA_DIR) / "run" / "batches.lock"
