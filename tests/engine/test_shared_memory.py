"""Real models that share what a limit leaves: who goes, who waits, and that all are answered."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from pathlib import Path

import mlx.core as mx
import pytest

from engine import wire
from engine.core.turnstile import MOST_PASSES
from engine.guard import CRITICAL_FRACTION
from engine.model.loader import stored_weight_bytes
from engine.sizing.words import allowed_size
from tests.engine.device_rig import MODEL, Engine
from tests.engine.devices import needs_exact_memory
from tests.engine.model.rig import reference_tokens
from tests.fakes import make_delivery, make_work
from tests.tiny_models import tiny_model_path
from tests.waiting import wait_until

pytestmark = needs_exact_memory

MIB = 1024**2
SLICE_TOKENS = 64
FIRST, SECOND, THIRD = MODELS = "tiny-qwen3", "tiny-gemma3", "tiny-mamba"
WEIGHTS = {name: stored_weight_bytes(tiny_model_path(name)) for name in MODELS}


@pytest.fixture
def engine(tmp_path: Path) -> Iterator[Engine]:
    gc.collect()  # what is left of other tests' engines counts as memory until it goes
    before_bytes = mx.set_memory_limit(1 << 60)
    engine = Engine(tmp_path)
    yield engine
    engine.prefixes.close()
    mx.set_memory_limit(before_bytes)


def spec(name: str, **changes: object) -> wire.ModelSpec:
    return wire.ModelSpec(name=name, path=str(tiny_model_path(name)), **changes)  # type: ignore[arg-type]


def works(model: str, count: int, *, prompt_tokens: int = 150) -> list[wire.Work]:
    return [
        make_work(
            f"{model} {number}",
            model=model,
            prompt=range(10 + number, 10 + number + prompt_tokens),
            max_tokens=30,
        )
        for number in range(count)
    ]


def test_models_that_no_longer_fit_together_take_turns(engine: Engine) -> None:
    """Both have requests, so that neither is idle when the limit falls."""
    engine.serve(spec(FIRST), spec(SECOND))
    asked = [*works(FIRST, 4), *works(SECOND, 4)]
    engine.transport.send(*map(make_delivery, asked))
    engine.turn_until(lambda: engine.num_rows == len(asked))
    limit_bytes = max(WEIGHTS[FIRST], WEIGHTS[SECOND]) + 4 * MIB
    assert limit_bytes < WEIGHTS[FIRST] + WEIGHTS[SECOND]
    engine.set_limit(limit_bytes)
    engine.turn(20)
    engine.finish(*(one.request_id for one in asked))
    assert engine.most_used_bytes <= 1.02 * limit_bytes
    for work in (asked[3], asked[7]):  # the newest gave way
        assert engine.transport.tokens(work.request_id) == reference_tokens(work.model, work)


def start_rows(engine: Engine, **most_tokens: int) -> None:
    """One after the other, until each has a token. Prompts go first: on a machine that is busy with
    other things the first rows would else have ended before the last one is read. In short slices:
    one more is under way when the first has been told."""
    engine.configure(decode_share=0.0, most_slice_tokens=SLICE_TOKENS)
    for number, (name, max_tokens) in enumerate(most_tokens.items()):
        first_token = 10 + 1000 * number
        engine.ask(name, prompt_tokens=900, first_token=first_token, max_tokens=max_tokens)
        engine.turn_until(lambda name=name: bool(engine.transport.tokens(name)))  # type: ignore[misc]


def kinds(engine: Engine, name: str) -> list[str]:
    return [type(one).__name__ for one in engine.transport.events[name]]


def test_who_gave_way_comes_back_by_its_prefix_and_writes_on(tmp_path: Path) -> None:
    engine = Engine(tmp_path, cache_memory_bytes=8 * MIB, cache_disk_bytes=0)
    start_rows(engine, old=300, new=20)
    row_bytes = engine.worker._pool.row_bytes // 2
    engine.configure(memory_ceiling_bytes=engine.weight_bytes + row_bytes * 3 // 2)
    engine.turn_until(lambda: "Paused" in kinds(engine, "new"))
    num_computed = len(engine.pieces("new"))
    engine.finish("old", "new")
    assert "Resumed" in kinds(engine, "new")
    assert sum(engine.pieces("new")[num_computed + 1 :]) < 256  # the rest were whole blocks
    assert len(engine.transport.tokens("new")) == 20
    engine.ask("undisturbed", prompt_tokens=900, first_token=1010, max_tokens=20)
    engine.finish("undisturbed")
    assert engine.transport.tokens("new") == engine.transport.tokens("undisturbed")
    engine.prefixes.close()


def test_rows_that_are_too_much_go_in_one_turn(engine: Engine) -> None:
    names = ["a", "b", "c", "d"]
    start_rows(engine, **dict.fromkeys(names, 200))
    row_bytes = engine.worker._pool.row_bytes / len(names)
    active_bytes = engine.memory.read_device().active_bytes
    engine.set_limit(int((active_bytes - 1.5 * row_bytes) / CRITICAL_FRACTION))
    engine.turn()
    num_paused = sum("Paused" in kinds(engine, name) for name in names)
    assert 2 <= num_paused < len(names)
    engine.set_limit(100 * MIB)
    engine.finish(*names)


def test_short_rows_that_go_do_not_spare_a_long_one(engine: Engine) -> None:
    """They are the newest, and hold too little."""
    start_rows(engine, old=250, long=250)
    names = [f"short {number}" for number in range(6)]
    for name in names:
        engine.ask(name, prompt_tokens=30, max_tokens=150)
        engine.turn_until(lambda name=name: bool(engine.transport.tokens(name)))  # type: ignore[misc]
    held_bytes = engine.worker._pool.row_bytes
    active_bytes = engine.memory.read_device().active_bytes
    engine.set_limit(int((active_bytes - 0.6 * held_bytes) / CRITICAL_FRACTION))
    engine.turn()
    assert all("Paused" in kinds(engine, name) for name in [*names, "long"])
    assert "Paused" not in kinds(engine, "old")
    engine.set_limit(100 * MIB)
    engine.finish("old", "long", *names)


def test_a_row_fails_for_memory_only_when_nobody_else_has_one(engine: Engine) -> None:
    start_rows(engine, old=900, new=900)
    limit_bytes = engine.weight_bytes + engine.worker._pool.row_bytes // 4
    engine.set_limit(limit_bytes)
    engine.turn_until(lambda: "old" in engine.transport.ends)
    assert "Paused" in kinds(engine, "new") and "Paused" not in kinds(engine, "old")
    engine.finish("new")
    for name in ("old", "new"):
        end = engine.transport.ends[name]
        assert isinstance(end, wire.Failed) and end.code is wire.Code.DOES_NOT_FIT
        assert f"the limit is {allowed_size(limit_bytes)}. A shorter prompt" in end.detail
    engine.set_limit(100 * MIB)
    engine.ask("later")
    engine.finish("later")
    assert isinstance(engine.transport.ends["later"], wire.Finished)


def test_vectors_get_their_turn_beside_rows_that_fill_the_limit(engine: Engine) -> None:
    """Chat goes on all the time: somebody new comes as soon as somebody has ended. The model of
    vectors is pinned, or rows that wait would have it unloaded before anybody asks it."""
    vectors = spec(FIRST, kind=wire.ModelKind.EMBED, is_pinned=True)
    engine.serve(vectors, spec(SECOND, max_rows=8))
    texts = tuple(tuple(range(start, start + 200)) for start in (10, 500, 1000, 2000))
    engine.embed("undisturbed", *texts, model=FIRST)
    chat = iter(works(SECOND, 2000, prompt_tokens=400))
    engine.transport.send(make_delivery(next(chat)))
    engine.turn_until(lambda: len(engine.transport.ends) == 2)
    limit_bytes = engine.weight_bytes + 4 * MIB
    engine.set_limit(limit_bytes)

    def turn() -> None:
        while engine.worker._pool.num_taken(SECOND) + len(engine.transport.inbox) < 8:
            engine.transport.send(make_delivery(next(chat)))
        engine.turn()

    for _ in range(30):
        turn()
    assert engine.num_rows
    engine.most_used_bytes = 0
    engine.embed("vectors", *texts, model=FIRST)
    num_before, max_rows = len(engine.transport.ends), 8
    # Each text lets so many pass, then waits for the rows that decode.
    most_ends = num_before + len(texts) * (MOST_PASSES + max_rows)
    while "vectors" not in engine.transport.ends or len(engine.transport.ends) <= num_before + 1:
        turn()
        assert len(engine.transport.ends) < most_ends
    assert engine.most_used_bytes <= 1.02 * limit_bytes
    assert engine.vectors("vectors") == pytest.approx(engine.vectors("undisturbed"), abs=1e-3)


def test_a_text_that_fits_in_pieces_only_stays_below_the_limit(engine: Engine) -> None:
    engine.configure(kind=wire.ModelKind.EMBED)
    text = tuple(range(10, 1010))
    engine.embed("undisturbed", text, model=MODEL)
    engine.finish("undisturbed")
    needed_bytes = engine.most_used_bytes
    (memory,) = engine.worker._pool.memories()
    assert memory.needs is not None
    limit_bytes = memory.weight_bytes + memory.needs.bytes_for(len(text))
    assert limit_bytes < 0.8 * needed_bytes
    engine.set_limit(limit_bytes)
    engine.embed("tight", text, model=MODEL)
    engine.finish("tight")
    assert engine.most_used_bytes <= 1.02 * limit_bytes
    assert engine.vectors("tight") == pytest.approx(engine.vectors("undisturbed"), abs=1e-3)


def test_an_unused_model_makes_way_for_rows_that_wait(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One of them would run beside it, the others wait; nobody has used it for a while."""
    monkeypatch.setattr("engine.relief.UNUSED_SECONDS", 0.0)
    engine.serve(spec(FIRST), spec(SECOND))
    engine.transport.send(*map(make_delivery, [*works(SECOND, 1), *works(FIRST, 1)]))
    engine.finish(f"{FIRST} 0", f"{SECOND} 0")
    engine.turn()
    assert engine.weight_bytes == WEIGHTS[FIRST] + WEIGHTS[SECOND]
    engine.set_limit(int(1.3 * engine.weight_bytes))
    engine.turn()
    asked = works(FIRST, 6, prompt_tokens=900)[1:]
    engine.transport.send(*map(make_delivery, asked))
    engine.finish(*(one.request_id for one in asked))
    assert engine.weight_bytes == WEIGHTS[FIRST]
    assert engine.most_rows > 1


def test_a_model_that_is_at_its_own_ceiling_sends_nobody_away(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("engine.relief.UNUSED_SECONDS", 0.0)
    narrow = spec(FIRST, memory_ceiling_bytes=WEIGHTS[FIRST] + MIB)
    engine.serve(narrow, spec(SECOND))
    engine.transport.send(*map(make_delivery, works(SECOND, 1)))
    engine.finish(f"{SECOND} 0")
    asked = works(FIRST, 4, prompt_tokens=300)
    engine.transport.send(*map(make_delivery, asked))
    engine.finish(*(one.request_id for one in asked))
    assert engine.weight_bytes == WEIGHTS[FIRST] + WEIGHTS[SECOND]
    assert engine.most_rows == 1


def test_what_memory_has_lost_of_a_row_that_gave_way_comes_from_disk(tmp_path: Path) -> None:
    engine = Engine(tmp_path, cache_memory_bytes=8 * MIB, cache_disk_bytes=64 * MIB)
    start_rows(engine, old=300, new=20)
    tier = engine.prefixes.cache.memory
    engine.set_limit(engine.memory.read().active_bytes - tier.used_bytes)
    engine.turn_until(lambda: "Paused" in kinds(engine, "new"))
    engine.turn_until(lambda: not tier.used_bytes)
    wait_until(lambda: engine.prefixes._io.is_idle)  # type: ignore[union-attr]
    num_computed = len(engine.pieces("new"))
    engine.set_limit(100 * MIB)
    engine.turn_until(lambda: len(engine.pieces("new")) > num_computed)
    wait_until(lambda: engine.prefixes._io.is_idle)  # type: ignore[union-attr]
    num_told = len(engine.pieces("new"))
    engine.finish("new")
    most_pieces = 1 + 256 // SLICE_TOKENS  # one was under way, and the rest is no whole block
    assert len(engine.pieces("new")) - num_told <= most_pieces < 900 // SLICE_TOKENS
    assert not engine.usage("new").cached_tokens  # it had computed that itself
    engine.prefixes.close()
