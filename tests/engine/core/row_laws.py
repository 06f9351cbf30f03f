"""Whose turn it is, held against a run of one model: who gets a row, who is read, what is held.

line     who waits is passed by nobody, but for a bisection that holds it back and by guests; who
         has lost a row stands in front, the oldest first
rows     none stays free while somebody may run
guests   a row beyond the number is of somebody who has none, of the class of one who holds several
         or of a higher one
held     the device holds the rows of those who live; others' leave in the next step
reading  nobody is read before one who has less left to read, but who has waited for longer: a
         second of reading weighs two of waiting, and a lower class's wait begins with its patience.
         So nobody is passed by who comes later than twice the own reading and the own patience,
         not even who waits for memory
memory   while somebody decodes, nobody is read for whose slice there is no room
"""

from __future__ import annotations

import collections
from collections.abc import Collection, Iterable
from collections.abc import Sequence as Many

from engine import wire
from engine.core.guests import most_guests
from engine.core.scheduler import Scheduler
from engine.core.sequence import Sequence, Status
from engine.core.step import Step

TOKEN_SECONDS = 0.0005  # of the fake runner
WAITING_PER_READING = 2.0
PATIENCE_SECONDS = {
    wire.Priority.INTERACTIVE: 0.0,
    wire.Priority.API: 15.0,
    wire.Priority.BATCH: 60.0,
}
READING_SLACK_SECONDS = 0.005  # what a prompt takes is learned, not known
LEARNING_SLICES = 4
CLASSES = tuple(wire.Priority)  # highest first


class RowLaws:
    """Of one model. `begin` is to be called with each of its steps before that is run."""

    def __init__(self, scheduler: Scheduler, broken: list[str]) -> None:
        self._scheduler = scheduler
        self._broken = broken
        self._line: list[Sequence] = []
        self._in_front: set[int] = set()  # who has lost a row
        self._rows: dict[int, Sequence] = {}  # in the order in which they were given
        self.num_passed = self.num_guests = self.num_read = 0  # so often was there a choice
        self.num_held_back = 0

    def begin(
        self,
        step: Step,
        *,
        held: set[int],
        living: Many[Sequence],
        now: float,
        no_room_for: Collection[str] = (),
    ) -> None:
        """`living`: the model's requests in the order of their arrival. `no_room_for`: requests
        whose next slice memory has no room for."""
        self._follow(living)
        self._give_rows()
        self._check_held(held.difference(step.leaves))
        if self._scheduler.is_decoding:
            self._check_room(step, no_room_for)
        if step.slices and self._scheduler.cost._num_learned >= LEARNING_SLICES:
            self._check_reading(step, now)

    def preempted(self, sequence: Sequence) -> None:
        """It stands in front."""
        self._rows = {key: one for key, one in self._rows.items() if one is not sequence}
        self._line_up_again([sequence])

    def _follow(self, living: Many[Sequence]) -> None:
        """Who has gone; who lost a row with a step that failed, and stands in front; who is new."""
        ids = set(map(id, living))
        self._in_front &= ids
        rows = {key: one for key, one in self._rows.items() if id(one) in ids}
        lost = [one for key, one in rows.items() if one.row_id != key]
        self._rows = {key: one for key, one in rows.items() if one.row_id == key}
        self._line = [one for one in self._line if id(one) in ids]
        self._line_up_again(lost)
        known = {id(one) for one in (*self._line, *self._rows.values())}
        self._line += [one for one in living if id(one) not in known]

    def _line_up_again(self, lost: list[Sequence]) -> None:
        self._in_front.update(map(id, lost))
        again = [*lost, *(one for one in self._line if id(one) in self._in_front)]
        again.sort(key=lambda one: one.arrived_at)
        self._line = [*again, *(one for one in self._line if id(one) not in self._in_front)]

    def _give_rows(self) -> None:
        given = {one.row_id: one for one in self._line if one.row_id is not None}
        for row_id, one in sorted(given.items()):
            if len(self._rows) >= self._scheduler.pace.max_rows:
                self._check_guest(one)
            else:
                self._check_passed(one, self._line)
            self._line.remove(one)
            self._rows[row_id] = one
        if len(self._rows) < self._scheduler.pace.max_rows:
            self._check_passed(None, self._line)

    def _check_guest(self, guest: Sequence) -> None:
        self.num_guests += 1
        if len(self._rows) >= (most := self._scheduler.pace.max_rows) + most_guests(most):
            self._broken.append(f"{guest.request_id} is a guest too many")
        if not self._is_invited(guest):
            self._broken.append(f"{guest.request_id} is no guest of anybody")
        self._check_passed(guest, filter(self._is_invited, self._line))

    def _is_invited(self, sequence: Sequence) -> bool:
        rows = self._rows.values()
        held = collections.Counter((one.tenant, one.priority) for one in rows)
        several = [CLASSES.index(priority) for (_, priority), number in held.items() if number > 1]
        has_none = sequence.tenant not in {one.tenant for one in rows}
        return has_none and CLASSES.index(sequence.priority) <= max(several, default=-1)

    def _check_passed(self, given: Sequence | None, line: Iterable[Sequence]) -> None:
        """None: a row that nobody got. Those that came together have no order to be seen here."""
        for one in line:
            if one is given:
                return
            if given is not None and one.arrived_at == given.arrived_at:
                continue
            self.num_passed += 1
            if self._scheduler._bisection.may_run(one.request_id):
                name = "nobody" if given is None else given.request_id
                self._broken.append(f"{name} got the row of {one.request_id}")

    def _check_held(self, held: set[int]) -> None:
        if strays := held.difference(self._rows):
            self._broken.append(f"rows {strays} of nobody are held")

    def _check_room(self, step: Step, no_room_for: Collection[str]) -> None:
        read = [self._rows[row_id] for one in step.slices for row_id in one.row_ids]
        self.num_held_back += bool(no_room_for)
        for one in read:
            if one.request_id in no_room_for:
                self._broken.append(f"{one.request_id} is read, and memory has no room for it")

    def _check_reading(self, step: Step, now: float) -> None:
        starts: dict[int, int] = {}
        for one in step.slices:
            for row_id in one.row_ids:
                starts.setdefault(row_id, one.start_tokens)
        first = self._rows[next(iter(starts))]
        if [one.tenant for one in self._rows.values()].count(first.tenant) == 1:
            return  # the only row of its tenant goes first, whatever else there is to read
        reads = _seconds_left(first, starts[first.row_id])
        for one in self._rows.values():
            waits = one.status is Status.PREFILLING and one.slice_tokens_left > 0
            if not waits or one.row_id in starts:
                continue
            self.num_read += 1
            later = _counts_from(first) - _counts_from(one)
            left = _seconds_left(one, one.computed_tokens)
            if later > WAITING_PER_READING * (left - reads + READING_SLACK_SECONDS):
                detail = f"{reads:.3f} s before {left:.3f} s, and {later:.3f} s later"
                self._broken.append(f"{first.request_id} is read before {one.request_id}: {detail}")


def _seconds_left(sequence: Sequence, computed_tokens: int) -> float:
    return TOKEN_SECONDS * (len(sequence.token_ids) - 1 - computed_tokens)


def _counts_from(sequence: Sequence) -> float:
    return sequence.arrived_at + PATIENCE_SECONDS[sequence.priority]
