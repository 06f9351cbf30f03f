"""One benchmark at a time: they would measure each other."""

from __future__ import annotations

import threading
from pathlib import Path

from django.conf import settings
from django.db import close_old_connections

from hosting.actions.benchmarks import end_benchmark
from hosting.actions.process_locks import locked
from hosting.benchmarks.asking import leave_requests
from hosting.benchmarks.runner import run
from hosting.models import Benchmark

_State = Benchmark.State
DIED = "The background worker that ran it died. What it had measured is kept."


def run_all(stop: threading.Event) -> None:
    """Until none is open, or `stop` is set. Somebody else may be at it: then nothing is done."""
    while not stop.is_set() and Benchmark.objects.open().exists():
        with locked(lock_file()) as lock:
            if lock is None:
                return
            _end_abandoned(stop)
            _run_waiting(stop)


def lock_file() -> Path:
    return Path(settings.DATA_DIR) / "run" / "benchmarks.lock"


def _end_abandoned(stop: threading.Event) -> None:
    """Who has the lock runs none yet: what runs by its row was left by somebody who died."""
    for benchmark in Benchmark.objects.filter(state=_State.RUNNING):
        is_cancelled = benchmark.is_cancel_requested
        state = _State.CANCELLED if is_cancelled else _State.INTERRUPTED
        leave_requests(benchmark.generations, stop)
        end_benchmark(benchmark, state, "" if is_cancelled else DIED)


def _run_waiting(stop: threading.Event) -> None:
    waiting = Benchmark.objects.filter(state=_State.WAITING).order_by("created_at", "pk")
    while not stop.is_set():
        close_old_connections()
        benchmark = waiting.select_related("user", "question_set").first()
        if benchmark is None:
            return
        run(benchmark, stop)
