"""The history of engine readings: kept in slots that are coarser the older they are.

    every      5 s   1 min   5 min   15 min   1 h
    for        1 h   6 h     24 h    7 days   30 days        2,760 slots of an engine at most

A coarser slot is made again from the finer ones each minute while it lasts, so nothing is lost when
a process dies, and several processes that record at once do no harm. Who reads adds the minute that
has begun.
"""

from __future__ import annotations

import dataclasses
import datetime
import itertools

from django.db import transaction
from django.db.models import Q

from accounts.models import UsageRecord
from engine import wire
from hosting.actions.readings import Reading, merge, read
from hosting.engine_client import get_client
from hosting.models import EngineReading

FINEST_SECONDS = 5
_DAY = 86_400
_CLOCKS_DIFFER_SECONDS = 60  # of machines that record at once
# Length of a slot -> how long it is kept. Each length divides the next.
_KEPT_SECONDS = {5: 3600, 60: 6 * 3600, 300: _DAY, 900: 7 * _DAY, 3600: 30 * _DAY}


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Window:
    """A stretch of time that ends now, and the slots it is shown in."""

    name: str
    label: str
    seconds: int
    step_seconds: int

    @property
    def during(self) -> str:
        return f"in the last {self.label.removeprefix('1 ')}"


WINDOWS = {
    window.name: window
    for window in (
        Window(name="5m", label="5 minutes", seconds=300, step_seconds=5),
        Window(name="1h", label="1 hour", seconds=3600, step_seconds=5),
        Window(name="6h", label="6 hours", seconds=6 * 3600, step_seconds=60),
        Window(name="24h", label="24 hours", seconds=_DAY, step_seconds=300),
        Window(name="7d", label="7 days", seconds=7 * _DAY, step_seconds=900),
        Window(name="30d", label="30 days", seconds=30 * _DAY, step_seconds=3600),
    )
}


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class History:
    """One engine over a window: `readings[i]` began at `times[i]`, None where there is none."""

    step_seconds: int
    times: list[int]
    readings: list[Reading | None]

    def gauges(self, name: str) -> list[float | None]:
        return [reading.gauges.get(name) if reading else None for reading in self.readings]

    def peaks(self, name: str) -> list[float | None]:
        """The highest of each slot, whose gauge is an average."""
        return [reading.peak(name) if reading else None for reading in self.readings]

    def highest(self, name: str) -> float | None:
        return max((peak for peak in self.peaks(name) if peak is not None), default=None)

    def counts(self, name: str) -> list[float | None]:
        return [reading.counts.get(name, 0.0) if reading else None for reading in self.readings]


def record_readings(now: float) -> None:
    """Store what every engine last said, once a slot. Raises EngineUnavailable."""
    at = _slot(now, FINEST_SECONDS)
    _forget_what_is_ahead(now)
    if EngineReading.objects.filter(step_seconds=FINEST_SECONDS, at=at).exists():
        return
    client = get_client()
    statuses = client.engines()
    num_queued = len(client.waiting())
    for index, status in enumerate(statuses):
        before = _last(status.engine, before=at)
        # Queue and refusals are of no engine in particular: they are told once
        is_first = index == 0
        reading = read(
            status,
            num_queued=num_queued if is_first else 0,
            before=_reading_of(before),
            refusals=_refusals(before.at, at) if is_first and before else (),
        )
        with transaction.atomic():
            # Another process may have been quicker: what it read stands
            EngineReading.objects.bulk_create(
                [_row(status.engine, FINEST_SECONDS, at, reading)], ignore_conflicts=True
            )
            if before is not None and _slot(before.at, 60) != _slot(at, 60):
                _roll_up(status.engine, before.at)
                _forget_old(now)


def history(engine: str, window: Window, now: float) -> History:
    """What is known of the window that ends now."""
    step = window.step_seconds
    end = _slot(now, step) + step
    times = list(range(end - window.seconds, end, step))
    rows = EngineReading.objects.of(engine, step).between(times[0], end)
    known = {at: Reading(**values) for at, values in rows.values_list("at", "values")}
    if step > FINEST_SECONDS and (begun := _begun_minute(engine)):
        at = _slot(begun[0].at, step)
        earlier = [known[at]] if at in known else []
        known[at] = merge([*earlier, *(Reading(**row.values) for row in begun)])
    return History(step_seconds=step, times=times, readings=[known.get(at) for at in times])


def _begun_minute(engine: str) -> list[EngineReading]:
    """The readings that no coarser slot has yet."""
    finest = EngineReading.objects.of(engine, FINEST_SECONDS)
    last = finest.order_by("-at").first()
    return list(finest.between(_slot(last.at, 60), last.at + 1)) if last else []


def known_engines() -> list[str]:
    """Those with readings, the one with the latest first."""
    latest = EngineReading.objects.filter(step_seconds=FINEST_SECONDS).order_by("-at")
    return list(dict.fromkeys(latest.values_list("engine", flat=True)))


def latest_slot() -> int:
    """When something was recorded last; 0 if never."""
    rows = EngineReading.objects.filter(step_seconds=FINEST_SECONDS)
    return rows.order_by("-at").values_list("at", flat=True).first() or 0


def _refusals(since: int, until: int) -> list[wire.MemoryMark]:
    """Requests that would never have fitted, a slot late: until then the ledger knows them."""
    first, end = (
        datetime.datetime.fromtimestamp(at - FINEST_SECONDS, datetime.UTC) for at in (since, until)
    )
    lines = UsageRecord.objects.filter(
        end=UsageRecord.End.REFUSED,
        error_code=wire.Code.DOES_NOT_FIT,
        created_at__gte=first,
        created_at__lt=end,
    )
    known = lines.order_by("created_at").values_list("created_at", "model_name")
    return [wire.MemoryMark(kind="refusal", at=at.timestamp(), model=name) for at, name in known]


def _last(engine: str, *, before: int) -> EngineReading | None:
    rows = EngineReading.objects.of(engine, FINEST_SECONDS).filter(at__lt=before)
    return rows.order_by("-at").first()


def _roll_up(engine: str, at: int) -> None:
    """Make the coarser slots around `at` from the finer ones."""
    steps = list(_KEPT_SECONDS)
    for finer, coarser in itertools.pairwise(steps):
        start = _slot(at, coarser)
        rows = EngineReading.objects.of(engine, finer).between(start, start + coarser)
        readings = [Reading(**values) for values in rows.values_list("values", flat=True)]
        if readings:
            EngineReading.objects.bulk_create(
                [_row(engine, coarser, start, merge(readings))],
                update_conflicts=True,
                unique_fields=["engine", "step_seconds", "at"],
                update_fields=["values"],
            )


def _reading_of(row: EngineReading | None) -> Reading | None:
    return None if row is None else Reading(**row.values)


def _row(engine: str, step_seconds: int, at: int, reading: Reading) -> EngineReading:
    return EngineReading(engine=engine, step_seconds=step_seconds, at=at, values=reading.plain())


def _forget_what_is_ahead(now: float) -> None:
    """By more than clocks differ: the clock was set back, and the latest would stay that for so
    long."""
    EngineReading.objects.filter(at__gt=now + _CLOCKS_DIFFER_SECONDS).delete()


def _forget_old(now: float) -> None:
    old = Q()
    for step, kept in _KEPT_SECONDS.items():
        old |= Q(step_seconds=step, at__lt=now - kept - step)
    EngineReading.objects.filter(old).delete()


def _slot(now: float, step_seconds: int) -> int:
    return int(now) // step_seconds * step_seconds
