"""What counts to limits, read from the rows: one query for generations, one for budgets.

Nothing is counted twice and kept apart, so nothing can leak.
"""

from __future__ import annotations

import datetime
from collections import defaultdict
from collections.abc import Sequence
from typing import NamedTuple

from django.db.models import Sum

from accounts.models import Spending
from hosting.models import Generation
from hosting.models.generation import charge

_Days = dict[datetime.date, int]


class Use(NamedTuple):
    """One generation: open, or begun or ended a short time ago."""

    id: object
    api_key_id: int | None
    state: str
    reserved_tokens: int
    created_at: datetime.datetime
    finished_at: datetime.datetime | None
    prompt_tokens: int
    cached_tokens: int
    completion_tokens: int
    cached_weight: float

    @property
    def is_open(self) -> bool:
        return self.state in Generation.OPEN_STATES

    @property
    def charged_tokens(self) -> int:
        return charge(
            self.prompt_tokens, self.cached_tokens, self.completion_tokens, self.cached_weight
        )


def uses_of(
    person_id: int, *, began_after: datetime.datetime | None, ended_after: datetime.datetime | None
) -> list[Use]:
    """What is open, and what began or ended after these moments. None: not asked."""
    rows = Generation.objects.of(person_id).counted().order_by()
    parts = [rows.open()]
    if began_after is not None:
        parts.append(rows.filter(created_at__gt=began_after))
    if ended_after is not None:
        parts.append(rows.filter(finished_at__gt=ended_after))
    # Apart, for no index serves an "or"
    first, *others = (part.values_list(*Use._fields) for part in parts)
    found = first.union(*others, all=True) if others else first
    return list({row[0]: Use(*row) for row in found}.values())


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
