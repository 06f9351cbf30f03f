"""What counts to limits, read from the rows: one query for uses, one for budgets.

Nothing is counted twice and kept apart, so nothing can leak. The database adds up: a request costs
the same however many came before it in the last minute.
"""

from __future__ import annotations

import datetime
from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from django.db.models import Count, Max, Q, QuerySet, Sum, Value

from accounts.models import Spending, UsageRecord
from accounts.prepared import Given, prepared
from hosting.models import Generation

MINUTE = datetime.timedelta(minutes=1)
_NONE = Value(0)
_Days = dict[datetime.date, int]
_Moment = datetime.datetime | Given


class Part(NamedTuple):
    """The uses of one kind that one key has, or the chat page."""

    what: str
    api_key_id: int | None
    number: int
    num_queued: int
    tokens: int
    newest: datetime.datetime


OPEN, BEGAN, ENDED = "open", "began", "ended"  # the two last: within the last minute


def uses_of(
    person_id: int, now: datetime.datetime, *, counts_requests: bool, counts_tokens: bool
) -> list[Part]:
    """What is open, and where it is asked what began or ended within the minute."""
    query = _uses(counts_requests=counts_requests, counts_tokens=counts_tokens)
    rows = query.rows(person=person_id, after=now - MINUTE, before=now + MINUTE)
    return [Part(*row) for row in rows]


@prepared
def _uses(*, counts_requests: bool, counts_tokens: bool) -> QuerySet[Any, Any]:
    person, after, before = Given("person"), Given("after"), Given("before")
    is_queued = Q(state=Generation.State.QUEUED)
    opened = _generations(person).open()
    parts = [_part(OPEN, opened, "reserved_tokens", Count("pk", filter=is_queued))]
    if counts_requests:
        parts.append(_part(BEGAN, _began(person, after, before), "reserved_tokens"))
    if counts_tokens:
        parts.append(_part(ENDED, _ended(person, after, before), "charged_tokens"))
    # Apart, for no index serves an "or"
    first, *others = parts
    return first.union(*others, all=True) if others else first


def requests_leaving(
    person_id: int, api_key_id: int | None, now: datetime.datetime
) -> Iterator[tuple[datetime.datetime, int]]:
    """When each request of the last minute leaves it, and that it is one; the oldest first."""
    rows = _of_key(_began(person_id, now - MINUTE, now + MINUTE), api_key_id).order_by("created_at")
    for began_at in rows.values_list("created_at", flat=True).iterator():
        yield began_at + MINUTE, 1


def tokens_leaving(
    person_id: int, api_key_id: int | None, now: datetime.datetime
) -> Iterator[tuple[datetime.datetime, int]]:
    """The same of the tokens of what ended within the last minute."""
    lines = _of_key(_ended(person_id, now - MINUTE, now + MINUTE), api_key_id)
    ends = lines.order_by("created_at").values_list("created_at", "charged_tokens")
    for ended_at, tokens in ends.iterator():
        yield ended_at + MINUTE, tokens


def reserved_in_groups(group_ids: Sequence[int]) -> dict[int, int]:
    """What open generations may still take from the budgets that groups share."""
    if not group_ids:
        return {}
    taking = Generation.objects.open().filter(paying_group__in=group_ids).order_by()
    sums = taking.values_list("paying_group").annotate(Sum("reserved_tokens"))
    return dict(sums)


class Spent:
    """What the ledger took from budgets, by subject and day."""

    def __init__(self, subjects: Sequence[str], first: datetime.date | None) -> None:
        self._days: dict[str, _Days] = defaultdict(dict)
        if first is None:
            return
        rows = Spending.objects.filter(subject__in=subjects, day__gte=first)
        for subject, day, tokens in rows.values_list("subject", "day", "tokens"):
            self._days[subject][day] = tokens

    def tokens(self, subject: str, first: datetime.date, last: datetime.date) -> int:
        return sum(tokens for day, tokens in self._days[subject].items() if first <= day <= last)


def _generations(person_id: int | Given) -> Any:
    return Generation.objects.of(person_id).counted().order_by()


def _began(person_id: int | Given, after: _Moment, before: _Moment) -> QuerySet[Any]:
    began: QuerySet[Any] = _generations(person_id).filter(_within(after, before))
    return began


def _ended(person_id: int | Given, after: _Moment, before: _Moment) -> QuerySet[Any]:
    """Lines of the ledger: each is written with the end of its generation."""
    return UsageRecord.objects.filter(_within(after, before), user_id=person_id).order_by()


def _within(after: _Moment, before: _Moment) -> Q:
    """What is far ahead of now was before the clock was set back."""
    return Q(created_at__gt=after, created_at__lt=before)


def _of_key(rows: QuerySet[Any], api_key_id: int | None) -> QuerySet[Any]:
    return rows if api_key_id is None else rows.filter(api_key_id=api_key_id)


def _part(what: str, rows: QuerySet[Any], tokens: str, num_queued: Any = _NONE) -> QuerySet[Any]:
    sums: QuerySet[Any] = rows.values("api_key_id").annotate(
        what=Value(what),
        number=Count("pk"),
        num_queued=num_queued,
        tokens=Sum(tokens),
        newest=Max("created_at"),
    )
    return sums.values_list(*Part._fields)
