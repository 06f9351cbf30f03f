"""What the loop puts in order, and that nobody who waits for a first token waits for that."""

from __future__ import annotations

import pytest

from engine import wire
from engine.cache.clearing import SLICE_NODES
from engine.core.blocks import BLOCK_TOKENS
from tests.engine.cache.toys import compute, query
from tests.engine.worker_rig import Engine, spec


def test_buffers_are_given_back_after_a_request() -> None:
    engine = Engine()
    engine.ask("a")
    engine.run("a")
    engine.turn(10)
    assert engine.memory.num_clears == 1


@pytest.mark.parametrize(("prompt", "least_turns"), [([5] * 2000, 10), ([5], 1)])
def test_buffers_are_not_given_back_until_a_first_token_is_told(
    prompt: list[int], least_turns: int
) -> None:
    engine = Engine(spec("fake", most_slice_tokens=16))
    engine.ask("a")
    engine.run("a")
    engine.clock.now += 1
    engine.ask("b", prompt=prompt, max_tokens=90)
    num_clears = []
    while not engine.transport.tokens("b"):
        engine.turn()
        num_clears.append(engine.memory.num_clears)
    engine.turn()
    assert num_clears == [0] * len(num_clears) and len(num_clears) >= least_turns
    assert engine.memory.num_clears == 1


def test_the_heartbeat_is_not_made_in_the_turn_that_tells_a_first_token() -> None:
    engine = Engine()
    engine.ask("a")
    engine.run("a")
    engine.turn(10)
    engine.clock.now += 0.5
    engine.ask("b", prompt=[5], max_tokens=500)
    rows = []
    while len(engine.transport.tokens("b")) < 2:
        engine.turn()
        rows.append(len(engine.vitals.status().rows))
    assert rows[0] == 0 and rows[-1] == 1


def test_the_heartbeat_is_made_however_many_wait_for_first_tokens() -> None:
    engine = Engine(spec("fake", most_slice_tokens=16))
    engine.ask("a")
    engine.run("a")
    engine.turn(10)
    engine.ask("b", prompt=[5] * 2000, max_tokens=500)
    engine.clock.now += 1
    engine.turn(2)
    assert not engine.transport.tokens("b")
    assert len(engine.vitals.status().rows) == 1


def test_a_large_cache_is_cleared_over_many_turns_without_a_pause() -> None:
    engine = Engine()
    num_blocks = 5 * SLICE_NODES
    compute(engine.prefixes, query(range(num_blocks * BLOCK_TOKENS), model="fake"))
    engine.transport.send(wire.ClearCache(model="fake"))
    engine.turn()
    assert 0 < len(engine.prefixes.memory) < num_blocks
    cleared_at = engine.clock.now
    engine.turn(3)
    assert len(engine.prefixes.memory) == 0
    assert engine.clock.now == cleared_at
    engine.turn()
    assert engine.clock.now > cleared_at
