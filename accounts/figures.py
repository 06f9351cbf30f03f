"""Usage in numbers, read from the roll-ups: in all, over time, by model, person and key."""

from __future__ import annotations

import dataclasses
import datetime
from collections.abc import Sequence
from typing import Any

from django.db.models import Q, QuerySet, Sum

from accounts.models import DailyUsage, HourlyUsage
from accounts.models.usage import TTFT_BOUNDS, TTFT_COLUMNS
from accounts.rollups import DAY, HOUR, SUMS

MOST_HOURS = 48  # a longer time is shown by the day
NOBODY = ""  # the label of what has no key, or whose person is deleted
_TOP = 100


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
        return HOUR if self.last - self.first <= MOST_HOURS * HOUR else DAY

    @property
    def rows(self) -> QuerySet[Any]:
        rows: QuerySet[Any]
        if self.step == HOUR:
            rows = HourlyUsage.objects.filter(hour__gte=self.first, hour__lte=self.last)
        else:
            rows = DailyUsage.objects.filter(day__gte=self.first.date(), day__lte=self.last.date())
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


def total(choice: Choice) -> Sums:
    return _sums(choice.rows.aggregate(**_aggregates()))


def by(choice: Choice, column: str) -> list[Sums]:
    """The largest first. `column` names what the rows are grouped by."""
    groups = choice.rows.values(column).annotate(**_aggregates())
    ranked = groups.order_by("-prompt_tokens__sum", column)[:_TOP]
    return [_sums(group, label=str(group[column] or NOBODY)) for group in ranked]


def times_of(choice: Choice) -> list[datetime.datetime]:
    first = choice.first.replace(minute=0, second=0, microsecond=0)
    if choice.step == DAY:
        first = first.replace(hour=0)
    num_steps = (choice.last - first) // choice.step + 1
    return [first + number * choice.step for number in range(num_steps)]


def over_time(choice: Choice, times: Sequence[datetime.datetime]) -> list[Sums]:
    period = _period(choice)
    groups = choice.rows.values(period).annotate(**_aggregates())
    found = {_moment(group[period]): _sums(group) for group in groups}
    return [found.get(time, Sums()) for time in times]


def tokens_over_time(
    choice: Choice, times: Sequence[datetime.datetime], column: str, names: Sequence[str]
) -> dict[str, list[int]]:
    """Of each of `names` in `column` the tokens at each time; the others together as ""."""
    period = _period(choice)
    places = {time: place for place, time in enumerate(times)}
    found = {name: [0] * len(times) for name in (*names, "")}
    groups = choice.rows.values(period, column).annotate(
        tokens=Sum("prompt_tokens") + Sum("completion_tokens")
    )
    for group in groups:
        name = str(group[column] or NOBODY)
        place = places.get(_moment(group[period]))
        if place is not None:
            found[name if name in names else ""][place] += group["tokens"]
    return found


def _period(choice: Choice) -> str:
    return "hour" if choice.step == HOUR else "day"


def _moment(period: datetime.datetime | datetime.date) -> datetime.datetime:
    if isinstance(period, datetime.datetime):
        return period
    return datetime.datetime.combine(period, datetime.time(), datetime.UTC)


def _aggregates() -> dict[str, Sum]:
    return {f"{name}__sum": Sum(name) for name in SUMS}


def _sums(group: dict[str, Any], label: str = "") -> Sums:
    numbers = {name: group[f"{name}__sum"] or 0 for name in SUMS if name not in TTFT_COLUMNS}
    first_tokens = tuple(group[f"{name}__sum"] or 0 for name in TTFT_COLUMNS)
    return Sums(label=label, first_tokens=first_tokens, **numbers)
