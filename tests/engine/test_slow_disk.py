"""A disk that does not answer: prompts are computed meanwhile, and what it brings late is used."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from engine.cache.files import RealFiles
from tests.engine.test_prefix_reuse import KINDS, Engine, prompt_of
from tests.waiting import wait_until

NAME = "tiny-qwen3"


class StuckFiles(RealFiles):
    """Reads wait until they are let go, each from `stuck_after` on."""

    def __init__(self) -> None:
        self.go = threading.Event()
        self.stuck_after = 0
        self.num_reads = 0

    def read(self, path: Path) -> bytes:
        self.num_reads += 1
        if self.num_reads > self.stuck_after:
            assert self.go.wait(60)
        return super().read(path)


def reopened_after(
    prompt: list[int], directory: Path, files: StuckFiles, *, name: str = NAME
) -> tuple[Engine, list]:
    first = Engine(name, directory=directory)
    tokens, _ = first.answer(prompt)
    first.close()
    return Engine(name, directory=directory, files=files), tokens


def turn_until_computed(engine: Engine, request_id: str, num_tokens: int) -> None:
    """Without what the disk brings, which nobody asks for here."""

    def has_come_far() -> bool:
        engine.handle.turn()
        live = engine.handle.get_live(request_id)
        return live is None or live.sequence.computed_tokens >= num_tokens

    wait_until(has_come_far, seconds=60)


def test_a_disk_that_never_answers_costs_a_little_patience_only(tmp_path: Path) -> None:
    files = StuckFiles()
    prompt = prompt_of(700)
    engine, expected = reopened_after(prompt, tmp_path, files)
    request_id = engine.start(prompt)
    assert engine.handle.only_waits
    tokens, usage = engine.run(awaits_disk=False)[request_id]
    assert tokens == expected
    assert usage.cached_tokens == 0
    counters = engine.cache.statistics.models[NAME]
    assert counters.misses == {"late": 1}
    assert counters.missed_tokens == {"late": len(prompt)}
    files.go.set()
    engine.close()


def test_what_was_read_before_the_disk_got_stuck_is_used(tmp_path: Path) -> None:
    files = StuckFiles()
    files.stuck_after = 1
    prompt = prompt_of(700)
    engine, expected = reopened_after(prompt, tmp_path, files)
    request_id = engine.start(prompt)
    wait_until(lambda: files.num_reads == 2)
    tokens, usage = engine.run(awaits_disk=False)[request_id]
    assert tokens == expected
    assert usage.cached_tokens == 256
    files.go.set()
    engine.close()


@pytest.mark.parametrize("name", KINDS)
def test_a_late_disk_lets_the_prompt_leap_ahead(name: str, tmp_path: Path) -> None:
    files = StuckFiles()
    prompt = prompt_of(2500)
    engine, expected = reopened_after(prompt, tmp_path, files, name=name)
    request_id = engine.start(prompt)
    turn_until_computed(engine, request_id, 1)
    counters = engine.cache.statistics.models[name]
    assert not counters.missed_tokens, "the disk may still bring them, and no counter goes back"
    files.go.set()
    wait_until(lambda: engine.io is not None and engine.io.is_idle)
    tokens, usage = engine.run(awaits_disk=False)[request_id]
    assert tokens == expected
    assert 1000 < usage.cached_tokens < len(prompt)
    assert counters.hit_disk_tokens == usage.cached_tokens
    assert counters.missed_tokens == {"late": len(prompt) - usage.cached_tokens}
    engine.close()
