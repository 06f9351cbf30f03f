"""A real tiny model behind the real loop, driven turn by turn; and single runs to compare with."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import importlib
import io
import random
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import mlx.core as mx
from mlx_lm.generate import generate_step

from engine import wire
from engine.core.pacing import TimeLedger
from engine.core.step import StepRunner
from engine.handle import ModelHandle
from engine.live_request import Voice
from engine.metrics import Vitals
from engine.model import caches as row_caches
from engine.model import direct_step, kernels
from engine.model.batch import NewRow, RowBatch
from engine.model.caches import Caches
from engine.model.capability import check_batching
from engine.model.direct_step import Forward
from engine.model.loader import LoadedModel, load
from engine.model.runner import Runner
from engine.model.verifying import Drafter
from engine.safe_reuse import Reuse
from engine.shelf import ModelVoice
from tests.engine.sizing.tiny_configs import TINY, with_vocabulary
from tests.fakes import FakeMemory, make_delivery, make_work
from tests.tiny_models import RECIPES, SPECIAL_TOKENS, spread_weights, tiny_model_path

_configs: dict[str, dict[str, Any]] = dict(TINY)


@functools.cache
def loaded(name: str) -> LoadedModel:
    """Of tests/tiny_models.py, or of a family whose config is known."""
    if name in _configs:
        return _built(_configs[name])
    *_, last = load(tiny_model_path(name), casts_to_float32=True)
    assert last.loaded is not None
    return last.loaded


def register(family: str, config: dict[str, Any]) -> None:
    """From now on there is a model of this name."""
    _configs[family] = config


def _built(config: dict[str, Any]) -> LoadedModel:
    """With random weights, and the tokenizer of another."""
    architecture = importlib.import_module(f"mlx_lm.models.{config['model_type']}")
    mx.random.seed(1)
    other = loaded("tiny-qwen3")
    sizes = with_vocabulary(config, RECIPES["tiny-qwen3"].vocab_size)
    model = architecture.Model(architecture.ModelArgs.from_dict(sizes))
    model.load_weights(list(spread_weights(model, num_special=len(SPECIAL_TOKENS)).items()))
    mx.eval(model.parameters())
    *_, is_batchable = check_batching(model)
    return dataclasses.replace(other, model=model, is_batchable=bool(is_batchable))


@functools.cache
def decoding(name: str) -> Forward:
    return direct_step.found(loaded(name).model, has_batches=loaded(name).is_batchable)


def num_operations(arrays: Sequence[mx.array], kind: str = "") -> int:
    """Of a kind, as they are to be done."""
    written = io.StringIO()
    mx.export_to_dot(written, *arrays)
    lines = [line for line in written.getvalue().splitlines() if "rectangle" in line]
    return sum(kind in line for line in lines)


def prefilled(name: str, row_id: int, length: int) -> NewRow:
    return prefilled_row(loaded(name).model, row_id, length)


def prefilled_row(model: Any, row_id: int, length: int, *, caches: Caches | None = None) -> NewRow:
    """With a prompt of its own, ready to join a batch. `caches`: empty ones; None: as computed."""
    caches = caches or row_caches.new_caches(model)
    prompt = [(7 * row_id + 3 * place) % 500 + 10 for place in range(length)]
    model(mx.array([prompt], mx.uint32), cache=caches)
    row_caches.evaluate(caches)
    return NewRow(row_id=row_id, token_id=9, length=length, caches=caches)


def drawn(batch: RowBatch) -> dict[int, int]:
    """The next token of each row, which is fed to it."""
    tokens = mx.argmax(batch.forward(), axis=-1)
    batch.feed(tokens)
    lines: list[int] = tokens.tolist()  # type: ignore[assignment]
    by_row = zip(batch.places, lines, strict=True)
    return {row_id: token for row_id, token in by_row if row_id is not None}


def make_handle(
    name: str,
    *,
    max_rows: int = 8,
    wrap: Callable[[StepRunner], StepRunner] = lambda runner: runner,
    runs_ahead: bool | None = None,
    voice: Voice | None = None,
    reuse: Reuse | None = None,
    drafter: Drafter | None = None,
    **changes: Any,
) -> ModelHandle:
    model = loaded(name)
    real = ModelVoice(model.tokenizer)
    runner = Runner(
        model.model,
        decode=decoding(name),
        sight=model.sight,
        token_bytes=real.token_bytes,
        runs_ahead=runs_ahead,
        drafter=drafter,
    )
    return ModelHandle(
        wire.ModelSpec(name=name, path="", max_rows=max_rows, **changes),
        runner=wrap(runner),
        voice=voice or real,
        reuse=reuse,
        ledger=TimeLedger(),
        vitals=Vitals(engine_name="e", memory=FakeMemory()),
        is_batchable=model.is_batchable,
    )


class Run:
    """Requests through one handle; `tokens` and `ends` by request id."""

    def __init__(self, handle: ModelHandle):
        self.handle = handle
        self.events: dict[str, list[wire.Event]] = {}
        self.ends: dict[str, wire.Event] = {}

    def add(self, work: wire.Work, *, delivered: Sequence[int] = ()) -> None:
        attempt = 2 if delivered else 1
        self.take(self.handle.add(make_delivery(work, delivered=delivered, attempt=attempt)))

    def cancel(self, request_id: str) -> None:
        self.take(self.handle.cancel(request_id))

    def turn(self) -> None:
        self.take(self.handle.turn())

    def finish(self) -> None:
        for _ in range(5000):
            if self.handle.is_idle:
                return
            self.turn()
        raise AssertionError("the run does not come to an end")

    def tokens(self, request_id: str) -> list[int]:
        deltas = (one for one in self.events[request_id] if isinstance(one, wire.Delta))
        return [token_id for delta in deltas for token_id in delta.token_ids]

    def take(self, events: list[tuple[str, wire.Event]]) -> None:
        for request_id, event in events:
            self.events.setdefault(request_id, []).append(event)
            if isinstance(event, wire.TERMINAL_EVENTS):
                self.ends[request_id] = event


def run_alone(name: str, work: wire.Work) -> list[int]:
    run = Run(make_handle(name))
    run.add(work)
    run.finish()
    return run.tokens(work.request_id)


def reference_tokens(name: str, work: wire.Work) -> list[int]:
    """The greedy answer by mlx_lm's own single-sequence loop."""
    with as_mlx_lm_has_it(name) as model:
        steps = generate_step(
            mx.array(work.prompt_token_ids),
            model,
            max_tokens=work.max_tokens,
            sampler=lambda logprobs: mx.argmax(logprobs, axis=-1),
        )
        return [int(token_id) for token_id, _ in steps][: work.max_tokens]


@contextlib.contextmanager
def as_mlx_lm_has_it(name: str) -> Iterator[Any]:
    """The model without our kernels, for a while."""
    model = loaded(name).model
    was_bound = kernels.unbind(model)
    try:
        yield model
    finally:
        if was_bound:
            kernels.bind(model, kernels.wanted())


def random_works(seed: int, count: int, *, longest: int = 100, **changes: Any) -> list[wire.Work]:
    chooser = random.Random(seed)
    lengths = [1, 2, 7, 7, 20, 20, 33, longest]
    return [
        make_work(
            f"r{number}",
            prompt=[
                chooser.randrange(10, 4000) for _ in range(lengths[(number + seed) % len(lengths)])
            ],
            max_tokens=chooser.randrange(1, 24),
            **changes,
        )
        for number in range(count)
    ]
