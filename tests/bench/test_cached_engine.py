"""The engine that the cache's benchmarks ask."""

from __future__ import annotations

from engine.cache.clearing import SLICE_NODES
from tests.bench.cache_jobs import cache_jobs, tokens
from tests.bench.models import model_path

TOGETHER = 32


def test_what_memory_has_forgotten_is_on_disk_however_much_it_is() -> None:
    others = [tokens(str(number), 40) for number in range(SLICE_NODES)]
    prompt = tokens("long", 3_000)  # worth reading
    with cache_jobs(model_path("tiny")) as engine:
        engine.start()
        for at in range(0, len(others), TOGETHER):
            engine.ask_together(others[at : at + TOGETHER], max_tokens=1)
        engine.ask(prompt, max_tokens=1)
        engine.start()
        engine.forget_memory()
        assert engine.ask(prompt, max_tokens=1).cached_tokens == len(prompt) - 1
