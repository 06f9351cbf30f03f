"""What rows of one model are promised while prompts of others are read, on fakes."""

from __future__ import annotations

from engine import wire
from tests.engine.worker_rig import Engine, spec

STALL_MS = 50
TOLERANCE = 1.3
LONG = 800  # tokens; 0.4 s
READERS = ("other", "third")


def make_engine() -> Engine:
    """One model that promises short pauses, two that would read as fast as they can."""
    engine = Engine(
        spec("fake", stall_ms=STALL_MS, decode_share=0.2),
        *(spec(name, stall_ms=60_000, decode_share=0.0) for name in READERS),
    )
    for name in READERS:  # loaded, and what their slices cost is known
        for number in range(4):
            engine.ask(f"{name} {number}", model=name, prompt=[5] * 200, max_tokens=1)
            engine.run(f"{name} {number}")
    return engine


def test_rows_wait_for_prompts_of_other_models_no_longer_than_their_own_model_says() -> None:
    engine = make_engine()
    engine.ask("running", max_tokens=500)
    engine.turn(20)
    for name in READERS:
        engine.ask(name, model=name, prompt=[5] * LONG, max_tokens=1)
    gaps, drawn_at, num_tokens = [], engine.clock.now, 0
    while not set(READERS) <= engine.transport.ends.keys():
        engine.turn()
        if (now_drawn := len(engine.transport.tokens("running"))) > num_tokens:
            gaps.append(engine.clock.now - drawn_at)
            drawn_at, num_tokens = engine.clock.now, now_drawn
    assert "running" not in engine.transport.ends, "it ran all the while"
    assert max(gaps) <= TOLERANCE * STALL_MS / 1000
    assert len(gaps) > 100, "and had its share"


def test_prompts_of_several_models_are_read_in_turns() -> None:
    engine = make_engine()
    engine.ask("running", max_tokens=500)
    engine.turn(20)
    for name in READERS:
        engine.ask(name, model=name, prompt=[5] * LONG, max_tokens=1)
    while not all(map(engine.kinds, READERS)) or "Prefilled" not in engine.kinds(READERS[1]):
        engine.turn()
    read = engine.transport.events[READERS[0]]
    assert sum(isinstance(one, wire.Prefilled) for one in read) <= 2
