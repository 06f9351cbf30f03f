"""Prefix reuse on real models: a cache changes how much is computed, never what is answered."""

from __future__ import annotations

import gc
import itertools
import weakref
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from engine import wire
from engine.cache.disk_tier import DiskLimits, DiskTier
from engine.cache.files import Files
from engine.cache.io_thread import CacheIO
from engine.cache.memory_tier import MemoryTier
from engine.cache.prefix import PrefixCache
from engine.core.delivery import Delivery
from engine.core.pacing import TimeLedger
from engine.estimates import Estimates
from engine.handle import Events, ModelHandle
from engine.metrics import Vitals
from engine.model import snapshots
from engine.model.memory import DeviceMemory
from engine.model.runner import Runner
from engine.shelf import DeviceShelf
from tests.tiny_models import tiny_model_path
from tests.waiting import wait_until

Asks = Callable[[str, list[int]], list[int]]
KINDS = ["tiny-qwen3", "tiny-gemma3", "tiny-qwen3-next", "tiny-mamba", "tiny-llama4"]
KINDS += ["tiny-gpt-oss"]
GREEDY = wire.Sampling(seed=1, temperature=0.0)
LIMITS = DiskLimits(budget_bytes=1 << 34, free_floor_bytes=0, daily_write_bytes=1 << 34)


class Engine:
    """One loaded model with a prefix cache of its own, driven turn by turn."""

    def __init__(
        self,
        folder: str,
        *,
        name: str | None = None,
        directory: Path | None = None,
        files: Files | None = None,
    ) -> None:
        self._ids = itertools.count()
        self._folder, self._name = folder, name or folder
        self.io = None
        rows = []
        if directory is not None:
            disk = DiskTier(directory, LIMITS, now=lambda: 0.0, today=lambda: "today", files=files)
            rows = disk.index.take_rows()
            self.io = CacheIO(disk, max_queued_bytes=1 << 30)
        self.cache = PrefixCache(
            MemoryTier(budget_bytes=1 << 30),
            self.io,
            contents=snapshots.CONTENTS,
            rows=rows,
        )
        self.handle = self._load()

    def _load(self) -> ModelHandle:
        memory = DeviceMemory()
        shelf = DeviceShelf(
            memory,
            ledger=TimeLedger(),
            vitals=Vitals(engine_name="test", memory=memory),
            prefixes=self.cache,
            estimates=Estimates(None, device="cpu"),
            casts_to_float32=True,
        )
        spec = wire.ModelSpec(name=self._name, path=str(tiny_model_path(self._folder)))
        *_, handle = shelf.load(spec)
        assert isinstance(handle, ModelHandle)
        return handle

    def start(
        self,
        prompt: list[int],
        *,
        tenant: str = "ann",
        boundaries: tuple[int, ...] = (),
        sampling: wire.Sampling = GREEDY,
        max_tokens: int = 8,
        grammar: wire.Grammar | None = None,
        **fields: Any,
    ) -> str:
        request_id = f"r{next(self._ids)}"
        work = wire.Work(
            request_id=request_id,
            model=self._name,
            tenant=tenant,
            priority=wire.Priority.API,
            submitted_at=0.0,
            accepted_at=0.0,
            sampling=sampling,
            prompt_token_ids=tuple(prompt),
            max_tokens=max_tokens,
            boundaries=boundaries,
            grammar=grammar,
            **fields,
        )
        self.handle.add(Delivery(work=work, fence=1, attempt=1, next_seq=0))
        return request_id

    def run(self, *, awaits_disk: bool = True) -> dict[str, tuple[list[int], wire.Usage]]:
        """Turn until idle: tokens and usage of what finished."""
        tokens: dict[str, list[int]] = {}
        answers = {}
        while not self.handle.is_idle:
            if awaits_disk:
                self._await_disk()
            events = [
                event
                for request_id in self.cache.take_fetched()
                for event in self.handle.fetched(request_id)
            ]
            for request_id, event in [*events, *self.handle.turn()]:
                match event:
                    case wire.Delta(token_ids=token_ids):
                        tokens.setdefault(request_id, []).extend(token_ids)
                    case wire.Finished(usage=usage):
                        answers[request_id] = (tokens.get(request_id, []), usage)
                    case wire.Failed(detail=detail):
                        raise AssertionError(detail)
            self.handle.persist()
        return answers

    def _await_disk(self) -> None:
        """However slow this machine is: a request that waits for the disk gets what is there."""
        if self.io is not None and self.handle.only_waits:
            wait_until(lambda: self.io.is_idle)

    def answer(self, prompt: list[int], **wishes: Any) -> tuple[list[int], wire.Usage]:
        """`wishes` as start() takes them."""
        request_id = self.start(prompt, **wishes)
        return self.run()[request_id]

    def close(self) -> None:
        for _ in range(2):
            self.handle.persist()
        if self.io is not None:
            assert self.io.close(wait_seconds=30)


def tokens_of(events: Events) -> list[int]:
    deltas = (event for _, event in events if isinstance(event, wire.Delta))
    return [token_id for delta in deltas for token_id in delta.token_ids]


def prompt_of(length: int, *, salt: int = 0) -> list[int]:
    return [10 + (at * 7919 + salt * 104729 + at * at) % 3900 for at in range(length)]


@pytest.fixture(scope="module")
def fresh_answers() -> Asks:
    """What a model answers without any cache, asked once."""
    known: dict[tuple[str, tuple[int, ...]], list[int]] = {}

    def ask(name: str, prompt: list[int]) -> list[int]:
        key = (name, tuple(prompt))
        if key not in known:
            known[key] = Engine(name).answer(prompt)[0]
        return known[key]

    return ask


@pytest.mark.parametrize("name", KINDS)
def test_a_repeat_and_a_second_turn_answer_as_if_computed(name: str, fresh_answers: Asks) -> None:
    engine = Engine(name)
    prompt = prompt_of(700)
    first, usage = engine.answer(prompt)
    assert usage.cached_tokens == 0
    again, usage = engine.answer(prompt)
    assert again == first == fresh_answers(name, prompt)
    assert usage.cached_tokens == len(prompt) - 1
    second_turn = [*prompt, *first, *prompt_of(60, salt=1)]
    answer, usage = engine.answer(second_turn)
    assert answer == fresh_answers(name, second_turn)
    assert usage.cached_tokens >= len(prompt) + len(first) - 1


def num_slices(engine: Engine) -> int:
    """Until all requests are answered."""
    found = 0
    while not engine.handle.is_idle:
        found += sum(isinstance(event, wire.Prefilled) for _, event in engine.handle.turn())
    return found


@pytest.mark.parametrize("system", [(), (150,)])
@pytest.mark.parametrize(
    ("ends", "expected"),
    [((), 1), ((2, 58), 1), ((2, 28, 58), 1), ((40, 58), 2), ((2, 10, 12, 40, 60), 2)],
)
def test_a_short_second_turn_is_not_cut_into_pieces(
    ends: tuple[int, ...], expected: int, system: tuple[int, ...]
) -> None:
    """Where turns end near its beginning or its end, which are kept anyway."""
    engine = Engine("tiny-gemma3")
    prompt = prompt_of(300)
    first, _ = engine.answer(prompt)
    begins = len(prompt) + len(first)
    second = [*prompt, *first, *prompt_of(80, salt=1)]
    engine.start(second, boundaries=(*system, *(begins + one for one in ends)))
    assert num_slices(engine) == expected


def test_a_block_that_ends_where_a_row_begins_is_no_reason_to_cut() -> None:
    engine = Engine("tiny-gemma3")
    prompt = prompt_of(500)
    first, _ = engine.answer(prompt)
    assert len(prompt) + len(first) < 512
    engine.start([*prompt, *first, *prompt_of(80, salt=1)])
    assert num_slices(engine) == 1


def test_a_question_without_a_system_prompt_is_not_cut_at_its_end() -> None:
    engine = Engine("tiny-gemma3")
    engine.start(prompt_of(60), boundaries=(55,))
    assert num_slices(engine) == 1


def test_the_end_of_the_system_prompt_is_kept_however_short_the_question() -> None:
    engine = Engine("tiny-gemma3")
    system = prompt_of(290)
    engine.start([*system, *prompt_of(10, salt=1)], boundaries=(290, 295))
    engine.run()
    _, usage = engine.answer([*system, *prompt_of(12, salt=2)])
    assert usage.cached_tokens == 290


@pytest.mark.parametrize("name", KINDS)
def test_an_edit_in_the_middle_answers_as_if_computed(name: str, fresh_answers: Asks) -> None:
    engine = Engine(name)
    prompt = prompt_of(700)
    engine.answer(prompt)
    edited = [*prompt[:600], 7, *prompt[601:]]
    answer, _ = engine.answer(edited)
    assert answer == fresh_answers(name, edited)
    other = [*prompt[:600], 9, *prompt[601:]]
    answer, usage = engine.answer(other)
    assert answer == fresh_answers(name, other)
    assert usage.cached_tokens >= 512


@pytest.mark.parametrize("name", KINDS)
def test_after_a_restart_the_disk_serves_it(name: str, tmp_path: Path, fresh_answers: Asks) -> None:
    prompt = prompt_of(700)
    engine = Engine(name, directory=tmp_path)
    first, _ = engine.answer(prompt)
    engine.close()
    engine.cache.take_fetched()
    assert engine.cache.statistics.num_persisted == engine.cache.statistics.num_saved > 0
    reopened = Engine(name, directory=tmp_path)
    again, usage = reopened.answer(prompt)
    assert again == first
    assert usage.cached_tokens == len(prompt) - 1
    assert reopened.cache.statistics.models[name].hit_disk_tokens > 0
    reopened.close()


def test_a_batch_of_mixed_prompts_is_answered_as_if_alone(fresh_answers: Asks) -> None:
    engine = Engine("tiny-qwen3-next")
    shared = prompt_of(520)
    prompts = [[*shared, *prompt_of(length, salt=length)] for length in (5, 40, 300)]
    engine.answer(prompts[0])
    ids = [engine.start(prompt) for prompt in prompts]
    answers = engine.run()
    for request_id, prompt in zip(ids, prompts, strict=True):
        assert answers[request_id][0] == fresh_answers("tiny-qwen3-next", prompt)
    # The second prompt left the known chain where the third did: from then on it is a boundary.
    _, usage = engine.answer([*shared, *prompt_of(30, salt=3)])
    assert usage.cached_tokens >= 512


def test_what_was_computed_survives_a_cancel_in_the_middle_of_the_prompt() -> None:
    engine = Engine("tiny-qwen3")
    prompt = prompt_of(6000)
    request_id = engine.start(prompt)
    while not engine.handle.get_live(request_id).sequence.computed_tokens > 1000:
        engine.handle.turn()
    engine.handle.cancel(request_id)
    engine.run()
    _, usage = engine.answer(prompt)
    assert usage.cached_tokens >= 1000


@pytest.mark.parametrize("name", KINDS)
def test_a_row_that_was_taken_away_comes_back_by_its_prefix(name: str, fresh_answers: Asks) -> None:
    engine = Engine(name)
    prompt = prompt_of(700)
    request_id = engine.start(prompt)
    begun = []
    while len(begun) < 3:
        begun += tokens_of(engine.handle.turn())
    live = engine.handle.get_live(request_id)
    assert live is not None
    engine.handle.preempt(live)
    rest, _ = engine.run()[request_id]
    assert begun + rest == fresh_answers(name, prompt)
    assert engine.cache.statistics.models[name].hit_memory_tokens >= len(prompt) - 1


def test_another_tenant_computes_for_itself() -> None:
    engine = Engine("tiny-qwen3")
    prompt = prompt_of(700)
    engine.answer(prompt, tenant="ann")
    _, usage = engine.answer(prompt, tenant="bob")
    assert usage.cached_tokens == 0
    _, usage = engine.answer(prompt, tenant="bob")
    assert usage.cached_tokens == len(prompt) - 1


def test_two_names_of_one_model_keep_their_prefixes_apart(tmp_path: Path) -> None:
    """Whom they are shared with, and what of them is cleared, is said for each name."""
    prompt = prompt_of(700)
    engine = Engine("tiny-qwen3", name="one", directory=tmp_path)
    engine.answer(prompt)
    engine.close()
    other = Engine("tiny-qwen3", name="other", directory=tmp_path)
    _, usage = other.answer(prompt)
    assert usage.cached_tokens == 0
    other.close()


def test_spoiled_files_change_speed_only(tmp_path: Path, fresh_answers: Asks) -> None:
    prompt = prompt_of(700)
    engine = Engine("tiny-qwen3", directory=tmp_path)
    engine.answer(prompt)
    engine.close()
    for number, path in enumerate(sorted(tmp_path.rglob("*.slice"))):
        content = bytearray(path.read_bytes())
        content[len(content) // 2 + number] ^= 1
        path.write_bytes(content)
    reopened = Engine("tiny-qwen3", directory=tmp_path)
    answer, usage = reopened.answer(prompt)
    assert answer == fresh_answers("tiny-qwen3", prompt)
    assert usage.cached_tokens == 0
    reopened.close()


def test_a_request_whose_row_has_computed_nothing_is_not_remembered() -> None:
    engine = Engine("tiny-qwen3")
    for length in (3000, 4000):
        request_id = engine.start(prompt_of(length, salt=length))
    engine.handle.turn()
    live = engine.handle.get_live(request_id)
    assert live is not None
    assert live.sequence.row_id is not None and not live.sequence.computed_tokens
    seen = weakref.ref(live)
    del live
    engine.handle.cancel(request_id)
    engine.run()
    gc.collect()
    assert seen() is None


def test_a_prompt_without_a_whole_block_is_not_copied_before_its_answer(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Where a restore can begin inside a block the answer's tail holds it too."""
    engine = Engine("tiny-qwen3")
    copied: list[int] = []
    copy_slices = Runner.copy_slices

    def noting(runner: Runner, row: Any, spans: Any) -> Any:
        copied.append(len(spans))
        return copy_slices(runner, row, spans)

    monkeypatch.setattr(Runner, "copy_slices", noting)
    for length in (200, 300):
        engine.answer(prompt_of(length, salt=length), max_tokens=4)
    assert copied == [1, 1, 1]  # the first's answer; the second's block, and its answer
