"""The prefix cache's memory is given back before anything that somebody waits for."""

from __future__ import annotations

from tests.engine.cache.toys import compute, query
from tests.engine.worker_rig import Engine

LIMIT_BYTES = 40_000
PROMPT_BYTES = 16_000


def test_when_memory_gets_tight_the_cache_gives_back_what_is_too_much() -> None:
    engine = Engine(ceiling_bytes=LIMIT_BYTES)
    compute(engine.prefixes, query(range(PROMPT_BYTES // 4)))
    engine.turn()
    assert engine.prefixes.memory.used_bytes == PROMPT_BYTES
    engine.memory.active_bytes = int(0.86 * LIMIT_BYTES)
    excess_bytes = engine.memory.active_bytes - engine.pool.guard.calm_bytes
    engine.turn()
    assert 0 < engine.prefixes.memory.used_bytes <= PROMPT_BYTES - excess_bytes
    assert engine.memory.num_clears > 0
