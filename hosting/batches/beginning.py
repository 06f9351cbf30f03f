"""Begins the lines of a batch: the next one, or one that met a limit and may try again."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterable

from django.utils import timezone

from hosting.actions.batch_results import (
    BatchChanged,
    Next,
    begin_line,
    begin_line_again,
    ended_of,
    write_results,
)
from hosting.actions.file_bytes import path_of
from hosting.actions.limit_refusals import AccessEnded, LimitMet
from hosting.api.batch_calls import read_call
from hosting.api.dialect import Call
from hosting.api.errors import ApiError, as_api_error
from hosting.batches import output_lines
from hosting.batches.input_lines import LineRequest, RawLine, lines_from, read_request
from hosting.batches.line_results import MOST_WAIT_SECONDS, may_come_again
from hosting.engine_client import EngineUnavailable
from hosting.models import Batch, BatchLine

_WAIT_SECONDS = 2.0  # for an engine, or a database

logger = logging.getLogger(__name__)


class Beginning:
    """`_calls`: what this process has begun; the model of a line may be gone when it has ended.
    Owner: one thread."""

    def __init__(self) -> None:
        self._calls: dict[int, Call] = {}
        self._waiting_until: dict[Batch, float] = {}

    def is_waiting(self, batch: Batch) -> bool:
        return time.monotonic() < self._waiting_until.get(batch, 0.0)

    def begin_one(self, batch: Batch, lines: list[BatchLine]) -> int | None:
        """How many generations it began, 0 for a line that is refused; None: nothing may begin now.

        `lines` are those under way; one that is tried again is taken out. Raises BatchChanged,
        DiskFull.
        """
        again = next((line for line in lines if None in line.generations), None)
        if again is not None and again.again_at is not None and again.again_at > timezone.now():
            return None
        offset, number = batch.next_offset, batch.next_line
        if again is not None:
            lines.remove(again)
            offset, number = again.offset, again.number
        raw = next(lines_from(path_of(batch.input_file), number=number, offset=offset), None)
        return None if raw is None else self._begin(batch, raw, again)

    def call_of(self, line: BatchLine, request: LineRequest) -> Call:
        """Raises as `read_call`, where another process began it."""
        return self._calls.get(line.pk) or read_call(line.batch, request.body)

    def forget_others(self, lines: Iterable[BatchLine]) -> None:
        kept = {line.pk for line in lines}
        self._calls = {pk: call for pk, call in self._calls.items() if pk in kept}

    def _begin(self, batch: Batch, raw: RawLine, again: BatchLine | None) -> int | None:
        request = read_request(raw.text, batch.endpoint)
        try:
            call = read_call(batch, request.body)
            return self._start(batch, raw, call, again)
        except BatchChanged:
            raise
        except LimitMet as met:
            return self._wait(batch, met.retry_seconds or MOST_WAIT_SECONDS)
        except (EngineUnavailable, AccessEnded):  # the next turn looks at the access
            return self._wait(batch, _WAIT_SECONDS)
        except Exception as error:
            told = as_api_error(error)
            if may_come_again(told):
                return self._wait(batch, _WAIT_SECONDS)
            if told.status_code == 500:
                logger.exception("line %s of %s", raw.number, batch)
            return _refuse(batch, raw, request, told, again)

    def _start(self, batch: Batch, raw: RawLine, call: Call, again: BatchLine | None) -> int:
        if again is not None:
            num_before = len(again.begun)
            begin_line_again(again, call.orders)
            line, num_begun = again, len(again.begun) - num_before
        else:
            line = begin_line(
                batch, call.orders, number=raw.number, offset=raw.offset, after=_after(raw)
            )
            num_begun = len(line.generations)
        self._calls[line.pk] = call
        return num_begun

    def _wait(self, batch: Batch, seconds: float) -> None:
        seconds = min(max(seconds, 1.0), MOST_WAIT_SECONDS)
        self._waiting_until[batch] = time.monotonic() + seconds


def _refuse(
    batch: Batch, raw: RawLine, request: LineRequest, error: ApiError, again: BatchLine | None
) -> int:
    done = list(ended_of([again]).values()) if again is not None else []
    result = output_lines.refused(batch, request.custom_id, error, done)
    if again is not None:
        write_results(batch, result, done=[again])
    else:
        write_results(batch, result, after=_after(raw))
    return 0


def _after(raw: RawLine) -> Next:
    return Next(number=raw.number + 1, offset=raw.end)
