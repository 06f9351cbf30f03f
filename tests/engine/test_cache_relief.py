"""The prefix cache's memory is given back before anything that somebody waits for."""

from __future__ import annotations

import pytest

from engine.core.limits import Limits
from engine.relief import Relief
from engine.wire import Level
from tests.engine.cache.toys import compute, query
from tests.engine.worker_rig import Engine

LIMIT_BYTES = 40_000
PROMPT_BYTES = 16_000


def limits_of(engine: Engine) -> Limits:
    clear_buffers = engine.memory.clear_buffers
    relief = Relief(engine.pool, engine.memory, engine.prefixes, clear_buffers=clear_buffers)
    return relief.limits(engine.pool.handles)


def test_a_full_cache_keeps_nobody_waiting() -> None:
    engine = Engine(ceiling_bytes=LIMIT_BYTES)
    compute(engine.prefixes, query(range(PROMPT_BYTES // 4)))
    engine.ask("a", max_tokens=60)
    engine.turn(10)
    engine.memory.active_bytes = int(0.94 * LIMIT_BYTES)
    engine.ask("b", max_tokens=60)
    engine.turn()
    assert "Started" in engine.kinds("b")
    assert engine.pool.guard.level is Level.CALM
    assert engine.prefixes.memory.used_bytes == PROMPT_BYTES


def test_above_critical_the_cache_gives_back_what_is_too_much_and_no_more() -> None:
    engine = Engine(ceiling_bytes=LIMIT_BYTES)
    compute(engine.prefixes, query(range(PROMPT_BYTES // 4)))
    engine.turn()
    assert engine.prefixes.memory.used_bytes == PROMPT_BYTES
    engine.memory.active_bytes = int(0.98 * LIMIT_BYTES)
    excess_bytes = engine.memory.active_bytes - engine.pool.guard.critical_bytes
    engine.turn()
    assert 0 < engine.prefixes.memory.used_bytes <= PROMPT_BYTES - excess_bytes
    assert engine.prefixes.memory.used_bytes > PROMPT_BYTES / 2
    assert engine.memory.num_clears > 0


def test_the_cache_gives_way_to_what_is_computed_next_and_no_further() -> None:
    engine = Engine(ceiling_bytes=LIMIT_BYTES)
    compute(engine.prefixes, query(range(PROMPT_BYTES // 4)))
    engine.turn()
    engine.memory.active_bytes = LIMIT_BYTES // 2
    limits = limits_of(engine)
    assert limits.tier_bytes == PROMPT_BYTES
    limits.make_room(limits.free_bytes, 0)
    assert engine.prefixes.memory.used_bytes == PROMPT_BYTES
    assert engine.memory.most_pool_bytes == 0
    limits.make_room(limits.free_bytes + 1, 0)
    assert 0 < engine.prefixes.memory.used_bytes < PROMPT_BYTES


def test_what_the_disks_writer_still_holds_is_no_room_for_copies() -> None:
    """It is in memory although the cache has let go of it; here nothing is freed at all."""
    engine = Engine(ceiling_bytes=LIMIT_BYTES)
    compute(engine.prefixes, query(range(PROMPT_BYTES // 4)))
    engine.turn()
    engine.memory.active_bytes = LIMIT_BYTES // 2
    limits = limits_of(engine)
    limits.make_room(limits.free_bytes + 3000, 0)
    left_bytes = engine.prefixes.memory.used_bytes
    assert PROMPT_BYTES - 6000 < left_bytes <= PROMPT_BYTES - 3000
    assert engine.prefixes.memory.room_bytes == -3000


@pytest.mark.parametrize(("left_bytes", "room_bytes"), [(3000, 2000), (700, 0), (0, 0)])
def test_what_copies_are_cut_out_of_needs_room_too(left_bytes: int, room_bytes: int) -> None:
    engine = Engine(ceiling_bytes=LIMIT_BYTES)
    compute(engine.prefixes, query(range(PROMPT_BYTES // 4)))
    engine.turn()
    engine.memory.active_bytes = LIMIT_BYTES // 2
    engine.memory.together_bytes = 1000
    limits = limits_of(engine)
    limits.make_room(limits.free_bytes - left_bytes, 0)
    assert engine.prefixes.memory.room_bytes == room_bytes
    assert engine.prefixes.memory.used_bytes == PROMPT_BYTES


def test_what_the_cache_copies_and_unused_buffers_share_what_a_step_leaves() -> None:
    engine = Engine(ceiling_bytes=LIMIT_BYTES)
    compute(engine.prefixes, query(range(1000)))
    engine.turn()
    engine.memory.active_bytes = LIMIT_BYTES // 2
    limits = limits_of(engine)
    limits.make_room(limits.free_bytes - 3000, 1000)
    assert engine.prefixes.memory.room_bytes == 3000
    assert engine.memory.most_pool_bytes == 2000
    limits.make_room(limits.free_bytes, 5000)
    compute(engine.prefixes, query(range(5000, 5600)))
    assert engine.prefixes.memory.used_bytes <= 4000
    engine.memory.active_bytes = 4000
    engine.turn()
    assert engine.prefixes.memory.room_bytes == LIMIT_BYTES - 4000
