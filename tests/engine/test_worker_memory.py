"""The loop on fakes when memory is short: who waits, who gives way, who fails with numbers."""

from __future__ import annotations

import pytest

from engine import wire
from engine.handle import Events, ModelHandle
from engine.live_request import LiveRequest
from engine.row_memory import RowMemory
from engine.sizing.estimate import Estimate, Numbers
from engine.sizing.shape import shape_of
from tests.engine.sizing.configs import QWEN3_8B
from tests.engine.worker_rig import GIB, Engine, spec
from tests.fakes import FakeRunner


def test_a_model_whose_config_cannot_be_read_has_failed_before_anybody_asks() -> None:
    engine = Engine(spec("fake", path="unreadable"))
    engine.turn()
    (status,) = engine.pool.statuses()
    assert status.state == "failed" and "config.json" in status.detail
    engine.ask("a")
    engine.run("a")
    assert engine.failure("a") is wire.Code.MODEL_LOAD_FAILED


def test_the_heartbeat_says_what_each_model_may_have() -> None:
    engine = Engine(
        spec("pinned", path=str(20 * GIB), is_pinned=True), spec("other", path=str(10 * GIB))
    )
    engine.turn()
    memory = engine.vitals.status().memory
    assert memory is not None and memory.limit_bytes == 100 * GIB
    assert {one.name: one.room_bytes // GIB for one in memory.models} == {"pinned": 80, "other": 70}


def test_the_limit_can_be_changed_while_it_runs() -> None:
    engine = Engine()
    engine.turn()
    engine.transport.send(
        wire.Configure(models=(spec("fake"),), memory_limits={"e": 7 * GIB, "else": 1})
    )
    engine.turn()
    assert engine.pool.guard.limit_bytes == 7 * GIB
    engine.transport.send(wire.Configure(models=(spec("fake"),)))
    engine.turn()
    assert engine.pool.guard.limit_bytes == 100 * GIB


def test_the_newest_row_gives_way_and_goes_on_later() -> None:
    engine = Engine()
    start_one_by_one(engine, "old", "new")
    engine.memory.active_bytes = 96 * GIB
    engine.turn(1)
    engine.memory.active_bytes = 70 * GIB
    assert engine.kinds("new")[-1] == "Paused" and engine.kinds("old")[-1] != "Paused"
    engine.run("old", "new")
    kinds = engine.kinds("new")
    assert "Resumed" in kinds[kinds.index("Paused") :] and kinds[-1] == "Finished"
    assert engine.transport.tokens("old") == engine.transport.tokens("new")
    engine.clock.now += 1
    engine.turn()
    memory = engine.vitals.status().memory
    assert memory is not None and memory.num_preempted == 1
    assert [mark.kind for mark in memory.marks] == ["load", "preempt"]


def test_the_newest_row_gives_way_before_buffers_grow_past_the_limit() -> None:
    engine = Engine()
    start_one_by_one(engine, "old", "new")
    growing, runner = growing_handle(engine)
    room_bytes = growing.memory.growth_bytes
    assert 6 * GIB < room_bytes < 30 * GIB
    engine.memory.active_bytes = 100 * GIB - room_bytes
    engine.turn()
    assert "Paused" not in engine.kinds("new")
    engine.memory.active_bytes += 1
    engine.turn()
    assert engine.kinds("new")[-1] == "Paused" and engine.kinds("old")[-1] != "Paused"
    assert engine.pool.guard.counts["preempt"] == 1
    runner.growing = ()
    engine.run("old", "new")


def test_a_row_that_holds_nothing_does_not_stand_for_one_that_does() -> None:
    engine = Engine()
    start_one_by_one(engine, "old", "new")
    engine.ask("newest", prompt=range(20_000), max_tokens=5)
    engine.turn()
    growing, runner = growing_handle(engine)
    (newest,) = (one for one in growing.scheduler.rows if one.request_id == "newest")
    newest.computed_tokens = 0
    engine.memory.active_bytes = 100 * GIB - growing.memory.growth_bytes + 1
    engine.turn()
    assert growing.newest_row is not None and growing.newest_row.request_id == "old"
    assert engine.kinds("new")[-1] == "Paused" and engine.kinds("old")[-1] != "Paused"
    runner.growing = ()
    engine.memory.active_bytes = 0
    engine.run("old", "new", "newest")


def test_copies_of_a_row_that_gives_way_leave_room_for_laying_out_the_others(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    engine = Engine()
    start_one_by_one(engine, "old", "new")
    growing, runner = growing_handle(engine)
    monkeypatch.setattr(FakeRunner, "num_bytes", 8 * GIB)
    assert GIB / 10 < growing.memory.leaving_bytes < 8 * GIB
    rooms, preempt = [], growing.preempt

    def noting(live: LiveRequest) -> Events:
        rooms.append(engine.prefixes.memory.room_bytes)
        return preempt(live)

    monkeypatch.setattr(growing, "preempt", noting)
    engine.prefixes.memory.budget_bytes = 100 * GIB
    engine.memory.active_bytes = 100 * GIB - growing.memory.growth_bytes + 1
    engine.turn()
    room_bytes = 100 * GIB - engine.memory.active_bytes
    assert rooms == [room_bytes - growing.memory.leaving_bytes]
    runner.growing = ()
    engine.run("old", "new")


def start_one_by_one(engine: Engine, *names: str) -> None:
    for name in names:
        engine.ask(name, max_tokens=60)
        engine.turn(8)
        engine.clock.now += 1


def growing_handle(engine: Engine) -> tuple[ModelHandle, FakeRunner]:
    """The next step makes the buffers of two rows larger."""
    (handle,) = engine.pool.handles
    assert isinstance(handle, ModelHandle)
    runner = FakeRunner(engine.clock)
    runner.growing = ((2, 900_000),)
    estimate = Estimate(shape_of(QWEN3_8B), Numbers(compute_bytes=2, may_fuse=True))
    handle.memory = RowMemory(estimate, handle.scheduler, runner)
    return handle, runner


def test_nothing_is_admitted_beside_others_while_memory_is_tight() -> None:
    engine = Engine()
    engine.ask("a", max_tokens=60)
    engine.turn(10)
    engine.memory.active_bytes = 90 * GIB
    engine.ask("b", max_tokens=5)
    engine.turn(5)
    assert "Started" in engine.kinds("a") and not engine.kinds("b")
    assert engine.transport.wanted == {"fake": 0}
    engine.memory.active_bytes = 10 * GIB
    engine.run("a", "b")


def test_heavy_weights_leave_the_rest_to_several_rows() -> None:
    engine = Engine(spec("fake", path=str(88 * GIB)))
    engine.memory.active_bytes = 88 * GIB
    for name in ("a", "b"):
        engine.ask(name, max_tokens=60)
        engine.turn(5)
    assert "Started" in engine.kinds("a") and "Started" in engine.kinds("b")
    engine.run("a", "b")


def test_a_quiet_engine_admits_whatever_the_level() -> None:
    engine = Engine()
    engine.memory.active_bytes = 90 * GIB
    engine.ask("a", max_tokens=5)
    engine.run("a")
    assert isinstance(engine.transport.ends["a"], wire.Finished)


def test_the_last_row_fails_with_numbers_when_it_exceeds_the_limit() -> None:
    engine = Engine()
    engine.ask("a", max_tokens=60)
    engine.turn(10)
    engine.memory.active_bytes = 97 * GIB
    engine.turn(5)
    assert "a" not in engine.transport.ends
    engine.memory.active_bytes = 101 * GIB
    engine.turn(5)
    assert engine.failure("a") is wire.Code.DOES_NOT_FIT
    end = engine.transport.ends["a"]
    assert isinstance(end, wire.Failed)
    assert "101.00 GiB" in end.detail and "100.00 GiB" in end.detail


def test_an_idle_model_leaves_when_memory_gets_tight() -> None:
    engine = Engine(spec("fake"), spec("idle"))
    engine.ask("i", model="idle", max_tokens=2)
    engine.run("i")
    engine.ask("a", max_tokens=60)
    engine.turn(10)
    engine.memory.active_bytes = 90 * GIB
    engine.turn(3)
    assert [one.name for one in engine.pool.statuses()] == ["fake"]


def test_a_limit_below_the_weights_is_not_blamed_on_the_request() -> None:
    engine = Engine(spec("fake", path=str(10 * GIB)))
    engine.ask("a", max_tokens=60)
    engine.turn(10)
    engine.memory.active_bytes = 11 * GIB
    engine.transport.send(
        wire.Configure(models=(spec("fake", path=str(10 * GIB)),), memory_limits={"e": 9 * GIB})
    )
    engine.turn(5)
    end = engine.transport.ends["a"]
    assert isinstance(end, wire.Failed) and end.code is wire.Code.DOES_NOT_FIT
    assert "raise the limit" in end.detail and "shorter" not in end.detail


def test_a_row_that_nothing_was_computed_of_leaves_without_a_word() -> None:
    """Its client waits as before: it has not heard that anything has started."""
    engine = Engine()
    for name in ("old", "new"):
        engine.ask(name, prompt=range(20_000), max_tokens=5)
        engine.clock.now += 1
    engine.turn(6)
    assert "Started" in engine.kinds("old") and "Started" not in engine.kinds("new")
    assert engine.pool.handles[0].scheduler.find_request_id(1) == "new"
    engine.memory.active_bytes = 96 * GIB
    engine.turn()
    engine.memory.active_bytes = 0
    assert engine.pool.guard.counts["preempt"] == 1
    engine.run("old", "new")
    assert {"Paused", "Resumed"}.isdisjoint(engine.kinds("new"))
    assert isinstance(engine.transport.ends["new"], wire.Finished)


def test_models_that_do_not_fit_together_are_loaded_one_after_the_other() -> None:
    """Neither is idle when the limit falls. No request fails for it, and nothing is said twice."""
    specs = spec("one", path=str(40 * GIB)), spec("other", path=str(30 * GIB))
    engine = Engine(*specs)
    for name in ("one", "other"):
        engine.ask(name, model=name, max_tokens=40)
        engine.turn(10)
        engine.clock.now += 1
    engine.transport.send(wire.Configure(models=specs, memory_limits={"e": 60 * GIB}))
    engine.memory.active_bytes = 70 * GIB
    while len(engine.pool.statuses()) > 1:
        engine.turn()
    engine.memory.active_bytes = 40 * GIB
    engine.run("one", "other")
    assert engine.kinds("other").count("Started") == 1
    assert engine.kinds("other").index("Paused") < engine.kinds("other").index("Resumed")
    assert engine.transport.tokens("one") == engine.transport.tokens("other")
    assert engine.pool.guard.counts["failure"] == 0
