"""Writes the lines of a batch that have ended, and ends the batch when none are left."""

from __future__ import annotations

import itertools
import logging
from collections.abc import Mapping, Sequence
from typing import Any

from django.utils import timezone

from hosting.actions.batch_events import histories_of
from hosting.actions.batch_results import (
    Next,
    Results,
    end_batch,
    put_off,
    stop_lines,
    write_results,
)
from hosting.actions.file_bytes import path_of
from hosting.api.dialect import History
from hosting.api.errors import internal
from hosting.batches import output_lines
from hosting.batches.beginning import Beginning
from hosting.batches.input_lines import LineError, RawLine, lines_from, read_request
from hosting.batches.line_results import Ended, TryAgain, result_of
from hosting.models import Batch, BatchLine, Generation

_AT_ONCE = 1000  # lines that were never begun, written together
_Status = Batch.Status
_REASONS = {
    "key_expired": "The API key that made this batch has ended, or its person was switched off.",
    "file_not_found": "The input file is not there any more.",
    "server_error": "Something is wrong with this batch. What is done of it can be read.",
}

logger = logging.getLogger(__name__)


def ending_of(batch: Batch) -> Batch.Status | None:
    """What it ends with, whatever of it is still to do. None: it goes on."""
    if batch.status == _Status.CANCELLING:
        return _Status.CANCELLED
    if batch.status == _Status.FINALIZING:
        return _Status.COMPLETED
    if _fault_of(batch) is not None:
        return _Status.FAILED
    return _Status.EXPIRED if batch.expires_at <= timezone.now() else None


class Ending:
    """Of one batch, in one turn."""

    def __init__(self, batch: Batch, beginning: Beginning) -> None:
        self._batch = batch
        self._beginning = beginning

    def go_on(
        self,
        lines: Sequence[BatchLine],
        ended: Mapping[str, Generation],
        stops_with: Batch.Status | None,
    ) -> None:
        over = [line for line in lines if _is_over(line, ended, is_stopping=stops_with is not None)]
        if over:
            self._write(over, ended, stops_with)
        left = [line for line in lines if line not in over]
        if stops_with is not None and left:
            stop_lines(left)
        elif stops_with is not None:
            self._end(stops_with)
        elif not lines and self._next_raw() is None:
            self._end(_Status.COMPLETED)

    def _write(
        self,
        lines: Sequence[BatchLine],
        ended: Mapping[str, Generation],
        stops_with: Batch.Status | None,
    ) -> None:
        histories = histories_of([pk for line in lines for pk in line.begun])
        written, done = [], []
        for line in lines:
            result = self._result_of(line, [ended[pk] for pk in line.begun], histories, stops_with)
            if isinstance(result, TryAgain):
                put_off(line, result.refused, result.at)
            else:
                written.append(result)
                done.append(line)
        if done:
            write_results(self._batch, output_lines.together(written), done=done)

    def _result_of(
        self,
        line: BatchLine,
        generations: Sequence[Generation],
        histories: Mapping[str, History],
        stops_with: Batch.Status | None,
    ) -> Results | TryAgain:
        raw = self._raw(line)
        if raw is None:
            return output_lines.dropped(generations)  # whose answer it is was in the file
        request = read_request(raw.text, self._batch.endpoint)
        try:
            if None in line.generations:
                return _unfinished(request.custom_id, generations, stops_with)
            return result_of(
                Ended(
                    batch=self._batch,
                    custom_id=request.custom_id,
                    call=self._beginning.call_of(line, request),
                    generations=generations,
                    histories=histories,
                    num_attempts=line.num_attempts,
                    ending=stops_with,
                )
            )
        except Exception:
            logger.exception("line %s of %s", line.number, self._batch)
            return output_lines.refused(self._batch, request.custom_id, internal(), generations)

    def _end(self, status: Batch.Status) -> None:
        if status == _Status.EXPIRED:
            self._write_what_never_began()
        fault = _fault_of(self._batch) if status == _Status.FAILED else None
        end_batch(self._batch, status, [fault] if fault else [])

    def _write_what_never_began(self) -> None:
        """They are told of in the file of errors."""
        batch = self._batch
        rest = lines_from(
            path_of(batch.input_file), number=batch.next_line, offset=batch.next_offset
        )
        while some := list(itertools.islice(rest, _AT_ONCE)):
            after = Next(number=some[-1].number + 1, offset=some[-1].end)
            results = [self._expired(raw) for raw in some]
            write_results(batch, output_lines.together(results), after=after)

    def _expired(self, raw: RawLine) -> Results:
        try:
            request = read_request(raw.text, self._batch.endpoint)
        except LineError:  # of a file that nobody has looked through in time
            return Results()
        return output_lines.expired(request.custom_id)

    def _raw(self, line: BatchLine) -> RawLine | None:
        """None: the file is gone, and the batch ends with that."""
        path = path_of(self._batch.input_file)
        try:
            return next(lines_from(path, number=line.number, offset=line.offset))
        except FileNotFoundError:
            return None

    def _next_raw(self) -> RawLine | None:
        batch = self._batch
        path = path_of(batch.input_file)
        return next(lines_from(path, number=batch.next_line, offset=batch.next_offset), None)


def cut_off(batch: Batch, lines: Sequence[BatchLine]) -> None:
    """Ends what cannot be ended as it should. What is written of it can be read."""
    stop_lines(lines)
    end_batch(batch, _Status.FAILED, [_told("server_error")])


def _is_over(line: BatchLine, ended: Mapping[str, Generation], *, is_stopping: bool) -> bool:
    is_whole = is_stopping or None not in line.generations
    return is_whole and all(pk in ended for pk in line.begun)


def _unfinished(
    custom_id: str, generations: Sequence[Generation], stops_with: Batch.Status | None
) -> Results:
    if stops_with == _Status.EXPIRED:
        return output_lines.expired(custom_id, generations)
    return output_lines.dropped(generations)


def _fault_of(batch: Batch) -> dict[str, Any] | None:
    key = batch.api_key
    if key is None or not key.is_usable or not batch.user.is_active:
        return _told("key_expired")
    return None if path_of(batch.input_file).exists() else _told("file_not_found")


def _told(code: str) -> dict[str, Any]:
    return {"code": code, "message": _REASONS[code], "param": None, "line": None}
