"""What becomes of the lines of a batch: begun, answered, written; and the end of the batch.

    begin       generations and the line's row, in one transaction
    settling    the end of a generation, its cost and its events, in one transaction
    write       bytes into the files, then in one transaction: that they count, and no line's row

Whatever dies between two of these, the next one finds where to go on: no line is begun twice, paid
twice or written twice.
"""

from __future__ import annotations

import dataclasses
import datetime
import uuid
from collections.abc import Sequence
from typing import Any

from django.db import transaction
from django.db.models import F
from django.utils import timezone

from engine import wire
from hosting.actions import file_bytes
from hosting.actions.files import add_row
from hosting.actions.generations import cancel_open
from hosting.actions.orders import Order
from hosting.actions.served import start_served
from hosting.models import Batch, BatchAnswer, BatchLine, Generation, StoredFile

_Status = Batch.Status


class BatchChanged(Exception):
    """It was cancelled, or deleted with its person, in this moment."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Results:
    """Lines for both files, and the counts that go with them."""

    output: bytes = b""
    errors: bytes = b""
    num_completed: int = 0
    num_failed: int = 0
    num_expired: int = 0  # of those that failed
    usage: wire.Usage = dataclasses.field(default_factory=lambda: wire.Usage(prompt_tokens=0))


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Next:
    """Where the line after this one begins."""

    number: int
    offset: int


def begin_line(
    batch: Batch, orders: Sequence[Order], *, number: int, offset: int, after: Next
) -> BatchLine:
    """Raises Refusal, EngineUnavailable, BatchChanged."""
    with transaction.atomic():
        generations = start_served(orders)
        _advance(batch, after)
        ids = [str(one.pk) for one in generations]
        line = BatchLine.objects.create(batch=batch, number=number, offset=offset, generations=ids)
    _go_to(batch, after)
    return line


def begin_line_again(line: BatchLine, orders: Sequence[Order]) -> None:
    """Those of its generations that are missing; `orders` are all. Raises as `begin_line`."""
    places = [place for place, one in enumerate(line.generations) if one is None]
    with transaction.atomic():
        started = start_served([orders[place] for place in places])
        if not Batch.objects.filter(pk=line.batch_id, status=_Status.IN_PROGRESS).exists():
            raise BatchChanged
        for place, generation in zip(places, started, strict=True):
            line.generations[place] = str(generation.pk)
        line.num_attempts += 1
        line.again_at = None
        line.save(update_fields=["generations", "num_attempts", "again_at"])


def put_off(line: BatchLine, refused: Sequence[str], again_at: datetime.datetime) -> None:
    """These of its generations came to nothing, for now, and cost nothing."""
    with transaction.atomic():
        line.generations = [None if one in refused else one for one in line.generations]
        line.again_at = again_at
        line.save(update_fields=["generations", "again_at"])
        BatchAnswer.objects.filter(generation_id__in=refused).delete()


def ended_of(lines: Sequence[BatchLine]) -> dict[str, Generation]:
    """Of the generations of these lines those that have ended, by id."""
    ids = [pk for line in lines for pk in line.begun]
    ended = Generation.objects.filter(pk__in=ids).exclude(state__in=Generation.OPEN_STATES)
    return {str(one.pk): one for one in ended.defer("request")}


def write_results(
    batch: Batch, results: Results, *, done: Sequence[BatchLine] = (), after: Next | None = None
) -> None:
    """`done` are written with it. `after`: the lines before it that were never begun are, too.

    Raises DiskFull, BatchChanged.
    """
    output = _written(batch.output_file, batch.output_bytes, results.output)
    errors = _written(batch.error_file, batch.error_bytes, results.errors)
    with transaction.atomic():
        counted = Batch.objects.filter(
            pk=batch.pk,
            status=batch.status,
            output_bytes=batch.output_bytes,
            error_bytes=batch.error_bytes,
        )
        changed = counted.update(
            output_bytes=output,
            error_bytes=errors,
            num_completed=F("num_completed") + results.num_completed,
            num_failed=F("num_failed") + results.num_failed,
            num_expired=F("num_expired") + results.num_expired,
            prompt_tokens=F("prompt_tokens") + results.usage.prompt_tokens,
            cached_tokens=F("cached_tokens") + results.usage.cached_tokens,
            completion_tokens=F("completion_tokens") + results.usage.completion_tokens,
            reasoning_tokens=F("reasoning_tokens") + results.usage.reasoning_tokens,
        )
        if not changed:
            raise BatchChanged
        if after is not None:
            _advance(batch, after)
        BatchAnswer.objects.filter(
            generation_id__in=[pk for line in done for pk in line.begun]
        ).delete()
        rows = BatchLine.objects.filter(pk__in=[line.pk for line in done])
        if rows.delete()[0] != len(done):  # some of them were written before
            raise BatchChanged
    batch.output_bytes, batch.error_bytes = output, errors
    if after is not None:
        _go_to(batch, after)


def begin_batch(batch: Batch, *, num_lines: int, model_name: str) -> None:
    _change(
        batch,
        _Status.VALIDATING,
        status=_Status.IN_PROGRESS,
        in_progress_at=timezone.now(),
        num_lines=num_lines,
        model_name=model_name,
    )


def refuse_batch(batch: Batch, errors: Sequence[dict[str, Any]]) -> None:
    """It is not begun at all."""
    now = timezone.now()
    _change(batch, _Status.VALIDATING, status=_Status.FAILED, errors=list(errors), ended_at=now)


def stop_lines(lines: Sequence[BatchLine]) -> None:
    ids = [pk for line in lines for pk in line.begun]
    cancel_open(Generation.objects.filter(pk__in=ids, is_cancel_requested=False))


def end_batch(batch: Batch, status: Batch.Status, errors: Sequence[dict[str, Any]] = ()) -> None:
    """The files become its person's. Called again after a crash it goes on. Raises BatchChanged."""
    if status == _Status.COMPLETED and batch.status != _Status.FINALIZING:
        now = timezone.now()
        _change(batch, batch.status, status=_Status.FINALIZING, finalizing_at=now)
    files = [
        (file_id, num_bytes, name)
        for file_id, num_bytes, name in (
            (batch.output_file, batch.output_bytes, "output"),
            (batch.error_file, batch.error_bytes, "error"),
        )
        if num_bytes
    ]
    for file_id, num_bytes, _ in files:
        if file_bytes.part_of(file_id).exists():
            file_bytes.append(file_id, num_bytes, b"")  # what is not counted is cut off
        file_bytes.publish(file_id)
    with transaction.atomic():
        for file_id, num_bytes, name in files:
            add_row(
                file_id,
                user_id=batch.user_id,
                purpose=StoredFile.Purpose.BATCH_OUTPUT,
                filename=f"{batch.public_id}_{name}.jsonl",
                num_bytes=num_bytes,
                kept_seconds=batch.output_kept_seconds,
            )
        now = timezone.now()
        _change(batch, batch.status, status=status, ended_at=now, errors=list(errors))
        BatchLine.objects.filter(batch=batch).delete()


def _advance(batch: Batch, after: Next) -> None:
    here = Batch.objects.filter(pk=batch.pk, status=batch.status, next_line=batch.next_line)
    if not here.update(next_line=after.number, next_offset=after.offset):
        raise BatchChanged


def _go_to(batch: Batch, after: Next) -> None:
    batch.next_line, batch.next_offset = after.number, after.offset


def _change(batch: Batch, before: str, **fields: Any) -> None:
    """From one status to the next, unless it has another one by now."""
    if not Batch.objects.filter(pk=batch.pk, status=before).update(**fields):
        raise BatchChanged
    for name, value in fields.items():
        setattr(batch, name, value)


def _written(file_id: uuid.UUID, after: int, data: bytes) -> int:
    if not data:
        return after
    file_bytes.check_room(len(data))
    return file_bytes.append(file_id, after, data)
