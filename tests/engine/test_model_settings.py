"""A model's settings as a real engine follows them, changed while it runs."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from engine import wire
from tests.engine.device_rig import MODEL, Engine
from tests.engine.devices import needs_quantised_caches

KIB = 1024


@pytest.fixture(scope="module")
def engine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Engine]:
    made = Engine(tmp_path_factory.mktemp("engine"))
    made.configure()
    made.ask("warm")
    made.finish("warm")
    yield made
    made.prefixes.close()


def test_no_slice_is_longer_than_the_model_allows(engine: Engine) -> None:
    for most in (64, 96):
        engine.configure(most_slice_tokens=most, stall_ms=10_000)
        engine.ask(f"slices {most}", prompt_tokens=301)
        engine.finish(f"slices {most}")
        assert max(engine.pieces(f"slices {most}")) == most


@pytest.mark.parametrize("clears", [True, False])
def test_buffers_are_given_back_after_every_slice_or_kept(engine: Engine, clears: bool) -> None:
    name = f"clears {clears}"
    engine.configure(most_slice_tokens=64, stall_ms=1, clears_buffers=clears)
    engine.ask(name, prompt_tokens=301, max_tokens=1)
    kept_bytes, num_pieces = [], 0
    while name not in engine.transport.ends:
        engine.turn()
        if len(engine.pieces(name)) > num_pieces:
            num_pieces = len(engine.pieces(name))
            kept_bytes.append(engine.memory.read_device().pool_bytes)
    assert len(kept_bytes) > 1
    assert not any(kept_bytes) if clears else all(kept_bytes)


def test_rows_wait_and_give_way_under_the_model_s_own_ceiling(engine: Engine) -> None:
    names = [f"ceiling {number}" for number in range(6)]
    engine.configure()
    engine.ask("alone", prompt_tokens=200, max_tokens=120)
    engine.finish("alone")
    row_bytes = engine.most_bytes - engine.weight_bytes
    ceiling = engine.weight_bytes + 4 * row_bytes
    engine.configure(memory_ceiling_bytes=ceiling)
    engine.ask(*names, prompt_tokens=200, max_tokens=120)
    engine.finish(*names)
    assert 1 <= engine.most_rows < 6
    assert engine.most_bytes <= ceiling
    engine.configure()
    again = [f"free {number}" for number in range(6)]
    engine.ask(*again, prompt_tokens=200, max_tokens=20)
    engine.finish(*again)
    assert engine.most_rows == 6


@pytest.mark.parametrize("settings", [{"memory_ceiling_bytes": 64 * KIB}, {"memory_share": 1e-6}])
def test_the_room_that_intake_refuses_by_follows_the_ceiling(
    engine: Engine, settings: dict[str, float]
) -> None:
    engine.configure(**settings)
    engine.worker.turn()
    (memory,) = engine.worker._pool.memories()
    assert memory.room_bytes < 0
    engine.configure()
    engine.worker.turn()
    (memory,) = engine.worker._pool.memories()
    assert memory.room_bytes > 0


def test_weights_above_the_model_s_ceiling_are_not_loaded(tmp_path: Path) -> None:
    engine = Engine(tmp_path)
    engine.configure(memory_ceiling_bytes=64 * KIB)
    engine.ask("never")
    engine.finish("never")
    engine.prefixes.close()
    end = engine.transport.ends["never"]
    assert isinstance(end, wire.Failed) and end.code is wire.Code.DOES_NOT_FIT


@pytest.fixture(scope="module")
def quantised(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Engine]:
    made = Engine(tmp_path_factory.mktemp("quantised"), cache_memory_bytes=None)
    made.configure(kv_bits=8)
    yield made
    made.prefixes.close()


@needs_quantised_caches
def test_quantised_rows_are_smaller_and_decode_together(engine: Engine, quantised: Engine) -> None:
    names = [f"row {number}" for number in range(3)]
    quantised.ask(*names, prompt_tokens=600, max_tokens=20)
    quantised.finish(*names)
    assert quantised.most_rows == 3
    engine.configure()
    engine.ask(*names, prompt_tokens=600, max_tokens=20)
    engine.finish(*names)
    quantised_bytes = quantised.most_bytes - quantised.weight_bytes
    assert quantised_bytes < 0.45 * (engine.most_bytes - engine.weight_bytes)
    assert len({tuple(quantised.transport.tokens(name)) for name in names}) == 1


@needs_quantised_caches
def test_a_quantised_row_goes_on_from_a_kept_prefix_with_the_same_tokens(quantised: Engine) -> None:
    quantised.ask("cold", prompt_tokens=700, max_tokens=12)
    quantised.finish("cold")
    quantised.ask("warm", prompt_tokens=700, max_tokens=12)
    quantised.finish("warm")
    end = quantised.transport.ends["warm"]
    assert isinstance(end, wire.Finished) and end.usage.cached_tokens >= 512
    assert quantised.transport.tokens("warm") == quantised.transport.tokens("cold")


@needs_quantised_caches
def test_a_precision_counts_from_the_next_load_on(quantised: Engine) -> None:
    before = quantised.token_bytes
    quantised.configure()
    quantised.worker.turn()
    assert quantised.token_bytes == before
    quantised.worker._pool.unload(MODEL)
    quantised.ask("reloaded")
    quantised.finish("reloaded")
    assert quantised.token_bytes > before
    assert quantised.token_bytes > before


def test_a_model_that_cannot_be_quantised_says_so(tmp_path: Path) -> None:
    engine = Engine(tmp_path)
    engine.configure(model="tiny-mamba", kv_bits=4)
    engine.ask("never", model="tiny-mamba")
    engine.finish("never")
    engine.prefixes.close()
    end = engine.transport.ends["never"]
    assert isinstance(end, wire.Failed) and "cannot be quantised" in end.detail
