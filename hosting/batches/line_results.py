"""What a line has come to when its generations have ended: a result, or that it is tried again."""

from __future__ import annotations

import dataclasses
import datetime
from collections.abc import Mapping, Sequence

from django.utils import timezone

from engine import wire
from hosting.api import errors
from hosting.api.dialect import Call, History
from hosting.api.errors import ApiError
from hosting.api.image_fields import error_of
from hosting.batches import output_lines
from hosting.batches.output_lines import Results
from hosting.models import Batch, Generation

MOST_WAIT_SECONDS = 60.0
_FIRST_WAIT_SECONDS = 5.0


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class TryAgain:
    """`refused`: the generations that came to nothing and cost nothing."""

    refused: list[str]
    at: datetime.datetime


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Ended:
    """A line whose generations have all ended. `ending`: what becomes of the batch, if it stops."""

    batch: Batch
    custom_id: str
    call: Call
    generations: Sequence[Generation]
    histories: Mapping[str, History]
    num_attempts: int
    ending: Batch.Status | None = None


def result_of(line: Ended) -> Results | TryAgain:
    faults = [(one, error) for one in line.generations if (error := _error_of(line, one))]
    if not faults:
        histories = [line.histories[str(one.pk)] for one in line.generations]
        body = line.call.make_reply(line.generations).whole(histories)
        return output_lines.answered(line.custom_id, body, line.generations)
    if line.ending == Batch.Status.EXPIRED:
        return output_lines.expired(line.custom_id, line.generations)
    if line.ending is not None:
        return output_lines.dropped(line.generations)
    final = [error for _, error in faults if not may_come_again(error)]
    if final:
        return output_lines.refused(line.batch, line.custom_id, final[0], line.generations)
    seconds = min(_FIRST_WAIT_SECONDS * line.num_attempts, MOST_WAIT_SECONDS)
    at = timezone.now() + datetime.timedelta(seconds=seconds)
    return TryAgain(refused=[str(one.pk) for one, _ in faults], at=at)


def may_come_again(error: ApiError) -> bool:
    """What meets a limit, or a queue that is full, or no engine, waits. A prompt that its budget
    has no room for may find some later."""
    has_room_later = error.code == wire.Code.BUDGET_EXCEEDED or "Retry-After" in error.headers
    return has_room_later and error.status_code in (429, 503)


def _error_of(line: Ended, generation: Generation) -> ApiError | None:
    """None for an answer."""
    events = line.histories.get(str(generation.pk), [])
    end = next((one for one in reversed(events) if isinstance(one, wire.TERMINAL_EVENTS)), None)
    match end:
        case wire.Finished() if end.reason != wire.FinishReason.CANCELLED:
            return None
        case wire.Refused() | wire.Failed():
            return error_of(end, line.call.orders[0])
    if generation.state == Generation.State.CANCELLED:
        return errors.cancelled()
    return errors.internal()
