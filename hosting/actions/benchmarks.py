"""Benchmarks: begun by an administrator, gone on with by one runner, ended once.

begin       generations and their ids in the row, in one transaction
settling    the end of a generation and its events, in one transaction
write       the result into the row, and no ids, in one transaction
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
from collections.abc import Sequence
from functools import partial
from typing import Any

from django.db import transaction
from django.utils import timezone

from accounts import audit
from accounts.models import User
from hosting.actions.background import enqueue
from hosting.actions.forgetting import forget
from hosting.actions.generations import BENCHMARKS, cancel_open
from hosting.actions.orders import Order
from hosting.actions.refusals import Refusal
from hosting.actions.served import start_served
from hosting.models import (
    BatchAnswer,
    Benchmark,
    BenchmarkAnswer,
    Generation,
    HostedModel,
    QuestionSet,
)
from hosting.models.benchmark import BenchmarkQuerySet

MOST_TOKENS = 131_072  # of a prompt
MOST_STREAMS = 64  # as many as one may have waiting
MOST_ANSWER_TOKENS = 8192
_MOST_SIZES = 8
_MOST_OPEN = 20
_State = Benchmark.State


class BenchmarkChanged(Exception):
    """It was cancelled or deleted in this moment."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Questions:
    """Checked ones, in the form in which they are stored."""

    name: str
    items: Sequence[dict[str, Any]]


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class NewBenchmark:
    """Without lengths and streams speed is not measured, without questions accuracy."""

    model_name: str
    prompt_lengths: Sequence[int] = ()
    streams: Sequence[int] = ()
    questions: Questions | None = None
    answer_tokens: int = 64
    note: str = ""


def start_benchmark(new: NewBenchmark, *, user: User, address: str = "") -> Benchmark:
    """It waits for its turn. Raises Refusal."""
    _check(new)
    with transaction.atomic():
        benchmark = Benchmark.objects.create(
            model_name=new.model_name,
            user=user,
            note=new.note,
            prompt_lengths=sorted(set(new.prompt_lengths)),
            streams=sorted(set(new.streams)),
            question_set=_stored(new.questions) if new.questions else None,
            answer_tokens=new.answer_tokens,
        )
        audit.record("benchmark.start", actor=user, address=address, target=benchmark)
        transaction.on_commit(partial(enqueue, "run_benchmarks"))
    return benchmark


def cancel_benchmark(benchmark: Benchmark, *, actor: User, address: str = "") -> None:
    """What is measured stays. Raises Refusal where it has ended."""
    now = timezone.now()
    rows = Benchmark.objects.filter(pk=benchmark.pk)
    with transaction.atomic():
        is_waiting = rows.filter(state=_State.WAITING).update(
            state=_State.CANCELLED, is_cancel_requested=True, ended_at=now
        )
        if not is_waiting:
            if not rows.filter(state=_State.RUNNING).update(is_cancel_requested=True):
                raise Refusal("benchmark_ended", "This benchmark has ended already.")
            stop_requests(_under_way(rows))
        audit.record("benchmark.cancel", actor=actor, address=address, target=benchmark)
        transaction.on_commit(partial(enqueue, "run_benchmarks"))


def delete_benchmark(benchmark: Benchmark, *, actor: User, address: str = "") -> None:
    """With its answers, and its questions where no other benchmark has asked them."""
    rows = Benchmark.objects.filter(pk=benchmark.pk)
    with transaction.atomic():
        rows.update(is_cancel_requested=True)  # and nothing more is begun
        stop_requests(_under_way(rows))
        audit.record("benchmark.delete", actor=actor, address=address, target=benchmark)
        rows.delete()
        if benchmark.question_set is not None:
            QuestionSet.objects.filter(pk=benchmark.question_set.pk, benchmarks=None).delete()


def enqueue_open_benchmarks() -> None:
    """Somebody goes on with them, if nobody does."""
    if Benchmark.objects.open().exists():
        enqueue("run_benchmarks")


def begin_benchmark(benchmark: Benchmark, *, num_steps: int) -> None:
    now = timezone.now()
    _change(benchmark, _State.WAITING, state=_State.RUNNING, started_at=now, num_steps=num_steps)


def write_conditions(benchmark: Benchmark, conditions: dict[str, str]) -> None:
    _change(benchmark, _State.RUNNING, conditions=conditions)


def begin_requests(benchmark: Benchmark, orders: Sequence[Order], *, doing: str) -> list[str]:
    """Their ids. Raises EngineUnavailable, BenchmarkChanged."""
    with transaction.atomic():
        ids = [str(one.pk) for one in start_served(orders)]
        wanted = Benchmark.objects.filter(
            pk=benchmark.pk, state=_State.RUNNING, is_cancel_requested=False
        )
        if not wanted.update(generations=ids, doing=doing):
            raise BenchmarkChanged
    return ids


def write_result(
    benchmark: Benchmark,
    ids: Sequence[str],
    *,
    answer: BenchmarkAnswer | None = None,
    **fields: Any,
) -> None:
    """What came of these requests, once."""
    with transaction.atomic():
        _change(benchmark, _State.RUNNING, generations=[], **fields)
        drop_requests(ids)
        if answer is not None:
            answer.save(force_insert=True)


def stop_requests(ids: Sequence[str]) -> None:
    cancel_open(Generation.objects.filter(pk__in=ids))


def drop_requests(ids: Sequence[str]) -> None:
    """Nobody wants to know what came of them."""
    BatchAnswer.objects.filter(generation_id__in=ids).delete()


def end_benchmark(benchmark: Benchmark, state: Benchmark.State, detail: str = "") -> None:
    """What still runs of it is stopped; the engines forget what was computed for it, though it was
    deleted meanwhile. Raises BenchmarkChanged then."""
    with transaction.atomic():
        forget(tenant=BENCHMARKS)
    with transaction.atomic():
        stop_requests(benchmark.generations)
        _change(
            benchmark,
            _State.RUNNING,
            state=state,
            detail=detail,
            doing="",
            generations=[],
            ended_at=timezone.now(),
        )


def _check(new: NewBenchmark) -> None:
    if not HostedModel.objects.answering().filter(name=new.model_name).exists():
        message = f"There is no model {new.model_name!r} that can answer now."
        raise Refusal("model_not_found", message, field="model", status=404)
    if not (new.prompt_lengths or new.streams or new.questions):
        raise Refusal("invalid_value", "Choose speed, accuracy or both.")
    _check_sizes(new.prompt_lengths, MOST_TOKENS, "prompt_lengths", "Prompt lengths")
    _check_sizes(new.streams, MOST_STREAMS, "streams", "Numbers of streams")
    if not 1 <= new.answer_tokens <= MOST_ANSWER_TOKENS:
        message = f"Answers may have 1 to {MOST_ANSWER_TOKENS:,} tokens."
        raise Refusal("invalid_value", message, field="answer_tokens")
    if Benchmark.objects.open().count() >= _MOST_OPEN:
        message = f"{_MOST_OPEN} benchmarks are waiting. Cancel some, or wait until one has ended."
        raise Refusal("benchmark_limit_exceeded", message)


def _check_sizes(sizes: Sequence[int], most: int, field: str, name: str) -> None:
    if len(sizes) > _MOST_SIZES or not all(1 <= size <= most for size in sizes):
        message = f"{name} are at most {_MOST_SIZES} numbers from 1 to {most:,}."
        raise Refusal("invalid_value", message, field=field)


def _stored(questions: Questions) -> QuestionSet:
    items = list(questions.items)
    text = json.dumps(items, sort_keys=True, ensure_ascii=False)
    digest = hashlib.sha256(text.encode()).hexdigest()
    kept = {"name": questions.name[:200], "questions": items, "num_questions": len(items)}
    return QuestionSet.objects.get_or_create(digest=digest, defaults=kept)[0]


def _under_way(rows: BenchmarkQuerySet) -> list[str]:
    return [pk for ids in rows.values_list("generations", flat=True) for pk in ids]


def _change(benchmark: Benchmark, before: str, **fields: Any) -> None:
    """Unless it has another state by now."""
    if not Benchmark.objects.filter(pk=benchmark.pk, state=before).update(**fields):
        raise BenchmarkChanged
    for name, value in fields.items():
        setattr(benchmark, name, value)
