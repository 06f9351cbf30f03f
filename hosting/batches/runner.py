"""Goes on with all open batches, one turn after the other, in one thread of one process.

    turn    look through what is new · write what has ended · end what is over · begin more

What it knows is in the rows: it may die at any moment, and the next one goes on from there. It
waits for rows, not for events, so nothing is lost with Redis either.
"""

from __future__ import annotations

import datetime
import logging
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager

from django.db import close_old_connections
from django.utils import timezone

from hosting.actions.batch_results import BatchChanged, begin_batch, ended_of, refuse_batch
from hosting.actions.file_bytes import path_of
from hosting.batches.beginning import Beginning
from hosting.batches.ending import Ending, cut_off, ending_of
from hosting.batches.input_lines import look_through
from hosting.batches.shares import Shares
from hosting.models import Batch, BatchLine, Generation

_WAITING_SECONDS = 0.5  # between turns
_MOVING_SECONDS = 0.1  # after one in which lines ended or began
_PAUSE_SECONDS = 30.0  # of a batch that something is wrong with
_GRACE = datetime.timedelta(hours=1)  # then it ends, with its window over
_MOST_BEGUN = 50  # in one turn

_Lines = dict[Batch, list[BatchLine]]
logger = logging.getLogger(__name__)


class Runner:
    """Owner: one thread."""

    def __init__(self) -> None:
        self._beginning = Beginning()
        self._paused_until: dict[Batch, float] = {}

    def run(self, stop: threading.Event) -> None:
        """Until no batch is open, or `stop` is set."""
        while not stop.is_set():
            close_old_connections()
            batches = list(Batch.objects.open().select_related("user", "api_key"))
            if not batches:
                return
            has_moved = self.turn(batches)
            stop.wait(_MOVING_SECONDS if has_moved else _WAITING_SECONDS)

    def turn(self, batches: Sequence[Batch]) -> bool:
        """Whether lines ended or began."""
        batches = [one for one in batches if not self._is_paused(one)]
        lines = _lines_of(batches)
        ended = ended_of([line for some in lines.values() for line in some])
        for batch in batches:
            with self._apart(batch):
                self._go_on(batch, lines[batch], ended)
        left = _lines_of(batches)
        num_ended = _num_in(lines) - _num_in(left)
        return self._begin_more(batches, left) or num_ended > 0

    def _go_on(self, batch: Batch, lines: list[BatchLine], ended: Mapping[str, Generation]) -> None:
        if batch in self._paused_until and batch.expires_at + _GRACE < timezone.now():
            return cut_off(batch, lines)
        stops_with = ending_of(batch)
        if batch.status == Batch.Status.VALIDATING and stops_with is None:
            return _look_through(batch)
        return Ending(batch, self._beginning).go_on(lines, ended, stops_with)

    def _begin_more(self, batches: Sequence[Batch], lines: _Lines) -> bool:
        self._beginning.forget_others(line for some in lines.values() for line in some)
        shares = Shares(lines)
        ready = [one for one in batches if self._may_begin(one)]
        has_begun = False
        for _ in range(_MOST_BEGUN):
            batch = shares.next_of(ready)
            if batch is None:
                break
            num_begun = None
            with self._apart(batch):
                num_begun = self._beginning.begin_one(batch, lines[batch])
            if num_begun is None:
                ready.remove(batch)
            else:
                has_begun = True
                shares.add(batch, num_begun)
        return has_begun

    def _may_begin(self, batch: Batch) -> bool:
        is_running = batch.status == Batch.Status.IN_PROGRESS and ending_of(batch) is None
        return is_running and not self._is_paused(batch) and not self._beginning.is_waiting(batch)

    def _is_paused(self, batch: Batch) -> bool:
        return time.monotonic() < self._paused_until.get(batch, 0.0)

    @contextmanager
    def _apart(self, batch: Batch) -> Iterator[None]:
        """What goes wrong with one batch holds up no other, and is tried again until its window is
        over."""
        try:
            yield
        except BatchChanged:
            logger.info("changed meanwhile: %s", batch)  # the next turn sees how it is now
        except Exception:
            logger.exception("put off: %s", batch)
            self._paused_until[batch] = time.monotonic() + _PAUSE_SECONDS


def _look_through(batch: Batch) -> None:
    found = look_through(batch, path_of(batch.input_file))
    if found.errors:
        refuse_batch(batch, found.errors)
    else:
        begin_batch(batch, num_lines=found.num_lines, model_name=found.model_name)


def _num_in(lines: _Lines) -> int:
    return sum(len(some) for some in lines.values())


def _lines_of(batches: Sequence[Batch]) -> _Lines:
    """Those under way."""
    found: _Lines = {batch: [] for batch in batches}
    for line in BatchLine.objects.filter(batch__in=batches).order_by("number"):
        batch = next(one for one in batches if one.pk == line.batch_id)
        line.batch = batch
        found[batch].append(line)
    return found
