"""A model's cache settings as a real engine follows them, changed while it runs."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from engine import wire
from tests.engine.device_rig import MODEL, Engine
from tests.waiting import wait_until

WINDOWED = "tiny-gemma3"
BUDGET_BYTES = 16 * 1024**2
SHARE = 1 / 32
PROMPT_TOKENS = 300


@pytest.fixture(scope="module")
def engine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Engine]:
    made = Engine(tmp_path_factory.mktemp("engine"), cache_memory_bytes=BUDGET_BYTES)
    yield made
    made.prefixes.close()


def answer(engine: Engine, name: str, **asked: object) -> wire.Usage:
    engine.ask(name, max_tokens=2, **{"prompt_tokens": PROMPT_TOKENS, **asked})  # type: ignore[arg-type]
    engine.finish(name)
    engine.worker.turn()  # its row leaves, and is kept
    return engine.usage(name)


def settle(engine: Engine) -> None:
    """Turn until the disk has done all that it was told: copies are computed, then the writer
    hears of them."""
    cache = engine.prefixes.cache
    for _ in range(2):
        engine.worker.turn()

    def is_settled() -> bool:
        engine.worker.turn()
        counted = cache.statistics
        return (
            cache.io is not None
            and cache.io.is_idle
            and (counted.num_saved == counted.num_persisted + counted.num_dropped)
        )

    wait_until(is_settled)


def num_on_disk(engine: Engine) -> int:
    settle(engine)
    return engine.prefixes.cache.nodes.disk_records[MODEL]


def bytes_on_disk(engine: Engine) -> int:
    settle(engine)
    return engine.prefixes.cache.nodes.disk_bytes[MODEL]


def record_files(folder: Path) -> list[Path]:
    return [one for one in (folder / "cache" / "e").glob("*/*") if one.is_file()]


def test_a_model_fills_its_share_of_the_memory_tier_and_no_more(engine: Engine) -> None:
    tier = engine.prefixes.cache.memory
    engine.configure()
    for number in range(3):
        answer(engine, f"fills {number}", first_token=100 * number + 10)
    assert tier.model_bytes[MODEL] > SHARE * BUDGET_BYTES
    engine.configure(cache_memory_share=SHARE)
    engine.worker.turn()
    assert 0 < tier.model_bytes[MODEL] <= SHARE * BUDGET_BYTES
    answer(engine, "within", first_token=1000)
    assert tier.model_bytes[MODEL] <= SHARE * BUDGET_BYTES
    engine.configure(cache_memory_share=0.0)
    answer(engine, "nothing kept", first_token=1100)
    assert tier.model_bytes[MODEL] == 0


def test_a_prefix_is_everybodys_after_three_only_where_the_model_shares(engine: Engine) -> None:
    engine.configure(share_after=3)
    asked = {"first_token": 2000}
    for person in ("ada", "ben", "cy"):
        assert answer(engine, f"{person} computes", tenant=person, **asked).cached_tokens == 0
    engine.configure(share_after=None)
    assert answer(engine, "strict", tenant="di", **asked).cached_tokens == 0
    assert answer(engine, "her own", tenant="di", **asked).cached_tokens == PROMPT_TOKENS - 1
    engine.configure(share_after=3)
    assert answer(engine, "shared", tenant="eve", **asked).cached_tokens == PROMPT_TOKENS - 1


def test_a_model_is_kept_on_disk_from_when_it_may_until_it_may_not(tmp_path: Path) -> None:
    engine = Engine(tmp_path, cache_memory_bytes=BUDGET_BYTES)
    engine.configure(is_cached_on_disk=False)
    answer(engine, "not written")
    assert num_on_disk(engine) == 0
    engine.configure(is_cached_on_disk=True)
    answer(engine, "written", first_token=1000)
    assert num_on_disk(engine) == len(record_files(tmp_path)) > 0
    engine.configure(is_cached_on_disk=False)
    assert num_on_disk(engine) == 0
    assert record_files(tmp_path) == []
    engine.prefixes.close()


def test_a_model_fills_its_share_of_the_disk_tier_and_no_more(tmp_path: Path) -> None:
    engine = Engine(tmp_path, cache_memory_bytes=BUDGET_BYTES, cache_disk_bytes=BUDGET_BYTES)
    engine.configure(cache_disk_share=SHARE)
    for number in range(4):
        answer(engine, f"fills {number}", first_token=300 * number + 10)
        assert 0 < bytes_on_disk(engine) <= SHARE * BUDGET_BYTES
    engine.configure(cache_disk_share=1.0)
    answer(engine, "more", first_token=2000)
    answer(engine, "still more", first_token=2500)
    assert bytes_on_disk(engine) > SHARE * BUDGET_BYTES
    engine.prefixes.close()


def test_a_shorter_interval_of_boundaries_reuses_more_of_a_windowed_model(engine: Engine) -> None:
    """Of a prompt that leaves another in its middle, where nothing said it would."""
    for interval, first_token, reused in ((1024, 10, 0), (256, 1500, 512)):
        engine.configure(model=WINDOWED, boundary_interval_tokens=interval)
        asked = {"model": WINDOWED, "first_token": first_token}
        answer(engine, f"whole {interval}", prompt_tokens=800, **asked)
        half = answer(engine, f"half {interval}", prompt_tokens=600, **asked)
        assert half.cached_tokens == reused
