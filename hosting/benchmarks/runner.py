"""Runs one benchmark from its beginning to its end, whatever that is."""

from __future__ import annotations

import logging
import threading

from hosting.actions.benchmarks import (
    BenchmarkChanged,
    begin_benchmark,
    end_benchmark,
    write_conditions,
)
from hosting.benchmarks import accuracy, speed
from hosting.benchmarks.asking import Asking, Cancelled, Failed, Stopped
from hosting.benchmarks.conditions import conditions_of
from hosting.models import Benchmark, HostedModel

_State = Benchmark.State
STOPPED = "The background worker was stopped. What it had measured is kept."
_GONE = "The model was removed or switched off before its turn came."
_BROKEN = "Something went wrong on our side; the log of the background worker says more."

logger = logging.getLogger(__name__)


def run(benchmark: Benchmark, stop: threading.Event) -> None:
    """Ends it in any case, but where it is deleted meanwhile."""
    try:
        _run(benchmark, stop)
    except BenchmarkChanged:
        logger.info("changed meanwhile: %s", benchmark)


def _run(benchmark: Benchmark, stop: threading.Event) -> None:
    model = HostedModel.objects.answering().filter(name=benchmark.model_name).first()
    num_steps = speed.num_steps(benchmark) + accuracy.num_steps(benchmark)
    begin_benchmark(benchmark, num_steps=num_steps)
    if model is None:
        return end_benchmark(benchmark, _State.FAILED, _GONE)
    asking = Asking(benchmark, model, stop)
    state, detail = _measure(asking)
    asking.leave()
    end_benchmark(benchmark, state, detail)


def _measure(asking: Asking) -> tuple[Benchmark.State, str]:
    """How it ends."""
    try:
        write_conditions(asking.benchmark, conditions_of(asking.model))
        speed.measure(asking)
        accuracy.measure(asking)
    except (Cancelled, BenchmarkChanged) as cancelled:
        return _State.CANCELLED, str(cancelled)
    except Stopped:
        return _State.INTERRUPTED, STOPPED
    except Failed as failure:
        return _State.FAILED, str(failure)
    except Exception:
        logger.exception("failed: %s", asking.benchmark)
        return _State.FAILED, _BROKEN
    return _State.DONE, ""
