"""A benchmark waits for an engine, but not for ever."""

from __future__ import annotations

from typing import Any

import pytest

from accounts.models import User
from hosting.benchmarks import asking
from hosting.models import Benchmark
from tests.hosting.benchmark_rig import Worker, begun
from tests.hosting.benchmark_rig import _files as _files
from tests.hosting.benchmark_rig import _quick as _quick
from tests.hosting.benchmark_rig import data_folder as data_folder
from tests.hosting.benchmark_rig import root as root
from tests.hosting.scripted_engine import ENDLESS, ScriptedEngine
from tests.waiting import wait_until


def test_it_runs_without_an_engine_when_one_comes(
    root: User, redis_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(asking, "_AGAIN_SECONDS", 0.01)
    benchmark = begun(root)
    other = Worker()
    wait_until(lambda: Benchmark.objects.filter(state="running").exists())
    scripted = ScriptedEngine(redis_url)
    scripted.start()
    other.finish()
    scripted.close()
    benchmark.refresh_from_db()
    assert (benchmark.state, benchmark.num_asked) == ("done", 3)


def test_it_ends_where_its_engine_has_gone_for_good(
    root: User, engine: ScriptedEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine.script = ENDLESS
    benchmark = begun(root)
    other = Worker()
    wait_until(lambda: len(engine.begun) > 0)
    monkeypatch.setattr(asking, "PATIENCE_SECONDS", 0.2)
    monkeypatch.setattr(asking, "heartbeats", list[Any])
    other.finish()
    benchmark.refresh_from_db()
    assert (benchmark.state, benchmark.detail) == ("failed", asking.NO_ENGINE)
