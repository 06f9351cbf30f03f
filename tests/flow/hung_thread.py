"""Stops one thread of a running process, as a device that never answers would. Linux only."""

from __future__ import annotations

import ctypes
import os
import sys
import threading
from pathlib import Path

import psutil
import pytest

_SEIZE, _INTERRUPT = 0x4206, 0x4207
_WAIT_FOR_THREADS = 0x40000000


def hang_computing_thread(pid: int) -> None:
    """The one beside the main thread that computes most, until the process is killed; the others
    go on. Skips where this is not allowed."""
    if sys.platform != "linux":
        pytest.skip("only Linux stops one thread of another process")
    if Path("/dev/nvidiactl").exists():
        pytest.skip("a GPU computes, and no thread beside the main one")
    threads = [one for one in psutil.Process(pid).threads() if one.id != pid]
    busiest = max(threads, key=lambda one: one.user_time).id
    stopped = threading.Event()
    is_refused = threading.Event()

    def trace() -> None:  # a tracer is one thread for ever
        libc = ctypes.CDLL(None, use_errno=True)
        ptrace = getattr(libc, "ptrace", lambda *_: -1)
        if ptrace(_SEIZE, busiest, None, None) or ptrace(_INTERRUPT, busiest, None, None):
            is_refused.set()
            stopped.set()
            return
        os.waitpid(busiest, _WAIT_FOR_THREADS)
        stopped.set()
        while os.WIFSTOPPED(os.waitpid(busiest, _WAIT_FOR_THREADS)[1]):
            pass  # other reasons to stop; its death ends the tracing

    threading.Thread(target=trace, daemon=True).start()
    assert stopped.wait(10)
    if is_refused.is_set():
        pytest.skip("threads of other processes may not be stopped here")
