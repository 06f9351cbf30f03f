"""One request breaks something; seven beside it, on the real engine, say what they say alone."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import Any

import mlx.core as mx
import pytest

from engine import wire
from engine.cache.memory_tier import MemoryTier
from engine.cache.prefix import PrefixCache
from engine.core.answer import Piece, TextStream
from engine.core.constraint import PendingGrammar
from engine.core.step import Drawn, Outcome, PassingRunner, Step, StepRunner
from engine.handle import ModelHandle
from engine.live_request import LiveRequest
from engine.model import snapshots
from engine.model.loader import load
from engine.model.runner import Runner
from engine.safe_reuse import SafeReuse
from engine.shelf import ModelVoice
from tests.engine.model.rig import (
    Run,
    loaded,
    make_handle,
    random_works,
    reference_tokens,
)
from tests.fakes import make_work
from tests.tiny_models import tiny_model_path

MODEL = "tiny-qwen3"
CULPRIT = "culprit"
MARK = 4001  # the first token of its prompt
NUM_COMPANIONS = 7


class Broken(Exception):
    """What the culprit provokes."""


def culprit(**changes: Any) -> wire.Work:
    return make_work(CULPRIT, prompt=[MARK, *range(10, 40)], max_tokens=20, **changes)


def run_beside(handle: ModelHandle, work: wire.Work, *, cancel: bool = False) -> Run:
    """The culprit among seven others; those must say what each says alone."""
    companions = random_works(21, NUM_COMPANIONS)
    run = Run(handle)
    for one in (*companions[:3], work, *companions[3:]):
        run.add(one)
    if cancel:
        while not any(isinstance(one, wire.Delta) for one in run.events.get(CULPRIT, ())):
            run.turn()
        run.cancel(CULPRIT)
    run.finish()
    for one in companions:
        assert run.tokens(one.request_id) == reference_tokens(MODEL, one), one.request_id
        assert isinstance(run.ends[one.request_id], wire.Finished)
    return run


def failure(run: Run) -> wire.Code:
    end = run.ends[CULPRIT]
    assert isinstance(end, wire.Failed), end
    return end.code


class BreakingRunner(PassingRunner):
    """The real one, whose steps fail while they slice or decode the culprit's row."""

    def __init__(self, runner: StepRunner, *, in_slices: bool):
        super().__init__(runner)
        self._in_slices = in_slices
        self._rows: set[int] = set()

    def run(self, step: Step) -> tuple[Outcome, ...]:
        for one in step.slices:
            for row_id, token_ids in zip(one.row_ids, one.token_ids, strict=True):
                if one.start_tokens == 0 and token_ids[0] == MARK:
                    self._rows.add(row_id)
        if self._rows & set(step.computed_row_ids if self._in_slices else step.decodes):
            raise Broken
        return self._runner.run(step)


@pytest.mark.parametrize("in_slices", [True, False], ids=["its prompt", "its tokens"])
def test_a_step_that_cannot_be_computed(in_slices: bool) -> None:
    handle = make_handle(MODEL, wrap=lambda one: BreakingRunner(one, in_slices=in_slices))
    assert failure(run_beside(handle, culprit())) is wire.Code.ENGINE_ERROR


GREEDY_AND_DRAWN = pytest.mark.parametrize(
    "sampling",
    [
        wire.Sampling(seed=1, temperature=0.0),
        wire.Sampling(seed=1, temperature=0.8, top_k=20, top_p=0.9, repetition_penalty=1.2),
    ],
    ids=["greedy", "drawn"],
)


def make_broken_handle(weight_of: Callable[[Any], mx.array], token_id: int) -> ModelHandle:
    """Of a model in which one token's line of these weights is NaN, as after an overflow."""
    *_, last = load(tiny_model_path(MODEL), casts_to_float32=True)
    assert last.loaded is not None
    weight_of(last.loaded.model)[token_id] = mx.array(float("nan"))
    voice = ModelVoice(last.loaded.tokenizer)
    runner = Runner(last.loaded.model, token_bytes=voice.token_bytes)
    return make_handle(MODEL, wrap=lambda _: runner)


@GREEDY_AND_DRAWN
def test_numbers_that_are_none(sampling: wire.Sampling) -> None:
    """All that follows the token is NaN too."""
    handle = make_broken_handle(lambda model: model.model.embed_tokens.weight, MARK)
    run = run_beside(handle, culprit(sampling=sampling))
    assert failure(run) is wire.Code.ENGINE_ERROR
    assert not run.tokens(CULPRIT)


@GREEDY_AND_DRAWN
def test_one_logit_that_is_no_number(sampling: wire.Sampling) -> None:
    run = Run(make_broken_handle(lambda model: model.lm_head.weight, 77))
    run.add(culprit(sampling=sampling))
    run.finish()
    assert failure(run) is wire.Code.ENGINE_ERROR
    assert not run.tokens(CULPRIT)


class BreakingStream:
    """Text that cannot be made: of its third token, or of what is held back at the end."""

    channel = wire.Channel.CONTENT
    has_tool_calls = False
    has_finished_call = False

    def __init__(self, *, in_tokens: bool):
        self._in_tokens = in_tokens
        self._num_tokens = 0

    def add(self, token_id: int) -> list[Piece]:
        self._num_tokens += 1
        if self._in_tokens and self._num_tokens == 3:
            raise Broken
        return []

    def finish(self, *, is_cut: bool) -> list[Piece]:
        raise Broken


class BreakingGrammar:
    """A grammar that is ready and throws when its row begins, follows a token or fills a mask."""

    is_ready = True
    rejection = None
    fault = None

    def __init__(self, place: str):
        self._place = place

    def start(self, output_token_ids: Sequence[int]) -> BreakingGrammar:
        self._check("start")
        return self

    def advance(self, token_id: int) -> None:
        self._check("advance")

    def fill(self, words: Any) -> None:
        self._check("fill")
        words[:] = -1

    def _check(self, place: str) -> None:
        if place == self._place:
            raise Broken


class BreakingVoice:
    """The real one but for the culprit."""

    def __init__(self, *, text: BreakingStream | None = None, grammar: Any = None):
        self._voice = ModelVoice(loaded(MODEL).tokenizer)
        self._text = text
        self._grammar = grammar

    @property
    def end_token_ids(self) -> Collection[int]:
        return self._voice.end_token_ids

    def stream(self, work: wire.Work) -> TextStream:
        is_culprit = work.request_id == CULPRIT and self._text is not None
        return self._text if is_culprit else self._voice.stream(work)  # type: ignore[return-value]

    def grammar(self, work: wire.Work) -> PendingGrammar | None:
        return self._grammar if work.request_id == CULPRIT else None


@pytest.mark.parametrize("place", ["start", "advance", "fill"])
def test_a_grammar_that_throws(place: str) -> None:
    handle = make_handle(MODEL, voice=BreakingVoice(grammar=BreakingGrammar(place)))
    assert failure(run_beside(handle, culprit())) is wire.Code.ENGINE_ERROR


def test_tokens_that_make_no_text() -> None:
    handle = make_handle(MODEL, voice=BreakingVoice(text=BreakingStream(in_tokens=True)))
    assert failure(run_beside(handle, culprit())) is wire.Code.ENGINE_ERROR


def test_held_back_text_that_cannot_be_made_when_it_is_cancelled() -> None:
    handle = make_handle(MODEL, voice=BreakingVoice(text=BreakingStream(in_tokens=False)))
    assert failure(run_beside(handle, culprit(), cancel=True)) is wire.Code.ENGINE_ERROR


def test_delivered_tokens_that_make_no_text_any_more() -> None:
    handle = make_handle(MODEL, voice=BreakingVoice(text=BreakingStream(in_tokens=True)))
    run = Run(handle)
    companions = random_works(21, NUM_COMPANIONS)
    for one in companions:
        run.add(one)
    run.turn()
    run.add(culprit(), delivered=[5, 6, 7])
    run.finish()
    assert failure(run) is wire.Code.ENGINE_ERROR
    for one in companions:
        assert run.tokens(one.request_id) == reference_tokens(MODEL, one)


class BreakingReuse:
    """A prefix cache that raises whatever it is asked."""

    def __init__(self) -> None:
        self.spec = wire.ModelSpec(name=MODEL, path="")

    def begin(self, live: LiveRequest, *, prefill_seconds: Callable[[int], float]) -> None:
        raise Broken

    def restore(self, live: LiveRequest) -> None:
        raise Broken

    def open(self, live: LiveRequest) -> Drawn | None:
        raise Broken

    go_on = keep_boundary = keep_prompt = keep_opening = keep_row = distrust = forget = restore

    def persist(self) -> None:
        raise Broken


def test_a_prefix_cache_that_raises_is_a_counted_miss() -> None:
    cache = PrefixCache(
        MemoryTier(budget_bytes=1 << 20),
        None,
        contents=snapshots.CONTENTS,
    )
    reuse = SafeReuse(BreakingReuse(), note_fault=lambda: cache.count_fault(MODEL))
    run = run_beside(make_handle(MODEL, reuse=reuse), culprit())
    run.handle.persist()
    assert isinstance(run.ends[CULPRIT], wire.Finished)
    assert cache.statistics.models[MODEL].misses["fault"] > NUM_COMPANIONS
