"""What usage tells as cached: what a request found when it began, not what it computed itself."""

from __future__ import annotations

from pathlib import Path

from engine import wire
from engine.core.delivery import Delivery
from tests.engine.test_prefix_reuse import Engine, prompt_of, tokens_of
from tests.engine.test_slow_disk import StuckFiles, turn_until_computed
from tests.fakes import make_work
from tests.waiting import wait_until

NAME = "tiny-qwen3"
PROMPT = prompt_of(3000)


def begin(engine: Engine, prompt: list[int] = PROMPT) -> str:
    """As far as its third token."""
    request_id = engine.start(prompt, max_tokens=30)
    told: list[int] = []
    while len(told) < 3:
        told += tokens_of(engine.handle.turn())
        engine.handle.persist()
    return request_id


def usage_after_giving_back(engine: Engine, request_id: str) -> wire.Usage:
    """Twice: the second time before it has begun again."""
    for _ in range(2):
        (again,) = engine.handle.give_back()
        engine.handle.turn()
        engine.handle.add(again)
    _, usage = engine.run()[request_id]
    return usage


def test_what_it_computed_before_its_model_went_does_not_count(tmp_path: Path) -> None:
    engine = Engine(NAME, directory=tmp_path)
    request_id = begin(engine)
    assert usage_after_giving_back(engine, request_id).cached_tokens == 0
    engine.close()


def test_what_it_found_at_its_beginning_still_counts_when_its_model_went() -> None:
    engine = Engine(NAME)
    engine.answer(PROMPT[:1024])
    request_id = begin(engine)
    assert usage_after_giving_back(engine, request_id).cached_tokens == 1024
    engine.close()


def test_what_an_earlier_engine_told_stands() -> None:
    engine = Engine(NAME)
    engine.answer(PROMPT)
    work = make_work("a", prompt=tuple(PROMPT), max_tokens=5, model=NAME, tenant="ann")
    known = {"work": work, "fence": 1, "attempt": 2, "next_seq": 1}
    engine.handle.add(Delivery(**known, cached_tokens=256))
    assert engine.run()["a"][1].cached_tokens == 256
    engine.handle.add(Delivery(**known))
    assert engine.run()["a"][1].cached_tokens == len(PROMPT) - 1, "it has never begun"
    engine.close()


def test_what_comes_from_disk_for_its_second_row_does_not_count(tmp_path: Path) -> None:
    """Its first row gave way to others, and memory has lost what was kept of it."""
    files = StuckFiles()
    files.stuck_after = 1_000_000
    engine = Engine(NAME, directory=tmp_path, files=files)
    request_id = begin(engine)
    engine.handle.preempt(engine.handle.newest_row)
    wait_until(lambda: engine.io.is_idle)
    engine.cache.take_fetched()  # hears what is written
    engine.cache.shrink(0)
    engine.cache.costs.bytes_per_second, engine.cache.costs.record_seconds = 1e15, 1e-9
    files.stuck_after = 0
    turn_until_computed(engine, request_id, 1)
    assert engine.cache.is_fetching(request_id)
    files.go.set()
    wait_until(lambda: engine.io.is_idle)
    assert engine.run(awaits_disk=False)[request_id][1].cached_tokens == 0
    engine.close()


def test_what_came_from_disk_is_counted_from_there_once(tmp_path: Path) -> None:
    """A row that was taken away finds it in memory."""
    engine = Engine(NAME, directory=tmp_path)
    engine.answer(PROMPT)
    engine.close()
    engine = Engine(NAME, directory=tmp_path)
    request_id = engine.start(PROMPT, max_tokens=30)
    wait_until(lambda: engine.io.is_idle)
    assert engine.cache.take_fetched() == [request_id]
    engine.handle.fetched(request_id)
    turn_until_computed(engine, request_id, len(PROMPT) + 1)
    counters = engine.cache.statistics.models[NAME]
    from_disk = counters.hit_disk_tokens
    assert from_disk > 2000
    engine.handle.preempt(engine.handle.newest_row)
    engine.run()
    assert counters.num_lookups == 2
    assert counters.hit_disk_tokens == from_disk
    assert counters.hit_memory_tokens >= from_disk
    engine.close()
