"""Usage in numbers, read from the roll-ups: in all, over time, by model, person and key.

A page asks for the sums of all the time by person, key and model, of which every table is made, and
for those of each period, its tokens by what the plot tells apart.
"""

from __future__ import annotations

import dataclasses
import datetime
from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import Any

from django.db.models import Q, QuerySet, Sum

from accounts.models import DailyUsage, HourlyUsage, WeeklyUsage
from accounts.models.usage import TTFT_BOUNDS, TTFT_COLUMNS
from accounts.rollups import DAY, HOUR, SUMS, WEEK

MOST_HOURS = 48  # a longer time is shown by the day
MOST_DAYS = 100  # and a still longer one by the week
NOBODY = ""  # the label of what has no key, or whose person is deleted
_ROWS: dict[datetime.timedelta, Any] = {HOUR: HourlyUsage, DAY: DailyUsage, WEEK: WeeklyUsage}
_NUMBERS = tuple(name for name in SUMS if name not in TTFT_COLUMNS)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """Whose usage, of which time. `whose` is None for everybody's."""

    first: datetime.datetime
    last: datetime.datetime
    whose: Q | None = None
    model_name: str = ""
    api_key_id: int | None = None

    @property
    def step(self) -> datetime.timedelta:
        length = self.last - self.first
        return HOUR if length <= MOST_HOURS * HOUR else DAY if length <= MOST_DAYS * DAY else WEEK

    @property
    def times(self) -> list[datetime.datetime]:
        """The beginning of every period that has a part in it."""
        first = self.first.replace(minute=0, second=0, microsecond=0)
        if self.step != HOUR:
            first = first.replace(hour=0)
        if self.step == WEEK:
            first -= first.weekday() * DAY
        num_steps = (self.last - first) // self.step + 1
        return [first + number * self.step for number in range(num_steps)]

    @property
    def rows(self) -> QuerySet[Any]:
        """One for each period, person, key and model."""
        return self._rows(self.step, self.times[0], self.last)

    @property
    def parts(self) -> list[QuerySet[Any]]:
        """The same time in fewer rows, to the day: weeks where there are whole ones."""
        if self.step == HOUR:
            return [self.rows]
        day_after = self.last + DAY
        monday = self.first + -self.first.weekday() % 7 * DAY
        last_monday = day_after - day_after.weekday() * DAY
        if monday.date() >= last_monday.date():
            return [self._rows(DAY, self.first, self.last)]
        return [
            self._rows(DAY, self.first, monday - DAY),
            self._rows(WEEK, monday, last_monday - DAY),
            self._rows(DAY, last_monday, self.last),
        ]

    def _rows(
        self, step: datetime.timedelta, first: datetime.datetime, last: datetime.datetime
    ) -> QuerySet[Any]:
        ends = (first, last) if step == HOUR else (first.date(), last.date())
        rows: QuerySet[Any] = _ROWS[step].objects.filter(period__range=ends)
        if self.whose is not None:
            rows = rows.filter(self.whose)
        if self.model_name:
            rows = rows.filter(model_name=self.model_name)
        if self.api_key_id is not None:
            rows = rows.filter(api_key_id=self.api_key_id)
        return rows.order_by()


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Sums:
    """What one row of a table, or one point in time, adds up to."""

    label: str = ""
    requests: int = 0
    errors: int = 0
    prompt_tokens: int = 0
    cached_tokens: int = 0
    completion_tokens: int = 0
    reasoning_tokens: int = 0
    first_tokens: tuple[int, ...] = ()

    @property
    def tokens(self) -> int:
        return self.prompt_tokens + self.completion_tokens

    @property
    def cached_percent(self) -> float | None:
        return 100 * self.cached_tokens / self.prompt_tokens if self.prompt_tokens else None

    def ttft_seconds(self, share: float) -> float | None:
        """About so long did this share of the first tokens take at most."""
        wanted = share * sum(self.first_tokens)
        if not wanted:
            return None
        lower = 0.0
        for count, upper in zip(self.first_tokens, (*TTFT_BOUNDS, 120.0), strict=True):
            if count and wanted <= count:
                return lower + (upper - lower) * wanted / count
            wanted -= count
            lower = upper
        return lower

    @property
    def ttft_p50(self) -> float | None:
        return self.ttft_seconds(0.5)

    @property
    def ttft_p95(self) -> float | None:
        return self.ttft_seconds(0.95)


Group = dict[str, Any]  # one row of a grouped query: what it is grouped by, and its sums


class Usage:
    """All of a choice's time."""

    def __init__(self, choice: Choice) -> None:
        by = ("user_id", "api_key_id", "model_name")
        self._groups = [group for rows in choice.parts for group in _grouped(rows, *by)]

    @property
    def total(self) -> Sums:
        return _added(self._groups)

    def by(self, column: str) -> list[Sums]:
        """The largest first. `column` is user_id, api_key_id or model_name."""
        groups = _split(self._groups, column)
        rows = [_added(of_one, label=_label(value)) for value, of_one in groups.items()]
        return sorted(rows, key=lambda row: (-row.prompt_tokens, row.label))


class UsageOverTime:
    """A choice's periods: all sums of each, and its tokens told apart by `column`."""

    def __init__(self, choice: Choice, column: str) -> None:
        self.times = choice.times
        self._column = column
        self._periods = _split(_grouped(choice.rows, "period"), "period")
        tokens = _grouped(
            choice.rows, "period", column, sums=("prompt_tokens", "completion_tokens")
        )
        self._tokens = _split(tokens, "period")

    @property
    def sums(self) -> list[Sums]:
        return [_added(_at(time, self._periods)) for time in self.times]

    def tokens(self, names: Sequence[str]) -> dict[str, list[int]]:
        """Of each of `names` the tokens at each time; the others together as ""."""
        found = {name: [0] * len(self.times) for name in (*names, NOBODY)}
        for place, time in enumerate(self.times):
            for group in _at(time, self._tokens):
                name = _label(group[self._column])
                tokens = group["prompt_tokens"] + group["completion_tokens"]
                found[name if name in names else NOBODY][place] += tokens
        return found


def _at(time: datetime.datetime, periods: dict[Any, list[Group]]) -> list[Group]:
    """Days and weeks are dates, hours moments."""
    return periods.get(time) or periods.get(time.date()) or []


def _grouped(rows: QuerySet[Any], *columns: str, sums: Sequence[str] = SUMS) -> list[Group]:
    return list(rows.values(*columns).annotate(**{name: Sum(name) for name in sums}))


def _split(groups: Iterable[Group], column: str) -> dict[Any, list[Group]]:
    found: dict[Any, list[Group]] = defaultdict(list)
    for group in groups:
        found[group[column]].append(group)
    return found


def _added(groups: Sequence[Group], label: str = "") -> Sums:
    numbers = {name: int(sum(group[name] for group in groups)) for name in _NUMBERS}
    first_tokens = tuple(int(sum(group[name] for group in groups)) for name in TTFT_COLUMNS)
    return Sums(label=label, first_tokens=first_tokens, **numbers)


def _label(value: Any) -> str:
    return str(value or NOBODY)
