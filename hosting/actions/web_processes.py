"""Which web process tells an answer that nobody else can tell, and its end when the process dies.

A web process holds a lock on a file of its own, which the kernel frees at its end, however it ends.
One that is stopped or busy keeps it, and Redis has no part in it: nobody alive is taken for dead.
"""

from __future__ import annotations

import fcntl
import functools
import logging
import os
import time
import uuid
from pathlib import Path

from django.conf import settings

from hosting.actions.generations import cancel_generation
from hosting.models import Generation

_LOCKS_KEPT_SECONDS = 24 * 3600.0

logger = logging.getLogger(__name__)


def this_web_process() -> uuid.UUID | None:
    """Its name, which is locked from the first call on. None where no file can be locked: then its
    end is not seen, and what it tells is computed to the end."""
    try:
        return _locked_name()
    except OSError as error:
        logger.warning("the end of this web process will not be seen: %s", error)
        return None


def has_ended(name: uuid.UUID) -> bool:
    """Whether it surely has. Of a name without a file here nothing is known."""
    try:
        descriptor = os.open(_lock_of(name), os.O_RDONLY)
    except OSError:
        return False
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except OSError:
        return False
    finally:
        os.close(descriptor)
    return True


def cancel_what_ended_processes_told() -> None:
    """Who listened has lost the connection and cannot come back."""
    told = Generation.objects.open().filter(is_cancel_requested=False).only("web_process")
    for generation in told:
        if generation.web_process is not None and has_ended(generation.web_process):
            logger.warning("its web process has ended", extra={"request_id": generation.pk})
            cancel_generation(generation)


def delete_old_locks() -> None:
    """Of processes that began a day ago and have ended; what they told is cancelled long since."""
    for path in _folder().glob("*.lock"):
        is_old = time.time() - path.stat().st_mtime > _LOCKS_KEPT_SECONDS
        if is_old and has_ended(uuid.UUID(path.stem)):
            path.unlink()


@functools.cache
def _locked_name() -> uuid.UUID:
    """The file stays open, and thereby locked, until the process ends. Two threads that come first
    may have a name each. Raises OSError."""
    name = uuid.uuid4()
    _folder().mkdir(mode=0o700, parents=True, exist_ok=True)
    descriptor = os.open(_lock_of(name), os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600)
    fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    return name


def _lock_of(name: uuid.UUID) -> Path:
    return _folder() / f"{name}.lock"


def _folder() -> Path:
    return Path(settings.DATA_DIR) / "run" / "web"
