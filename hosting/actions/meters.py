"""How much of each limit is used, by what the rows say (uses.py reads them).

    windows     generations that began, and tokens of those that ended, within the last minute
    at once     open generations; waiting: those of them that have not begun
    budgets     what the ledger spent today and this month
    reserved    what open generations may still spend; it counts to every limit of tokens

A reservation is a column of an open generation, so it ends with it, whatever dies in between.
"""

from __future__ import annotations

import dataclasses
import datetime
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from accounts.limits import Allowance, Limits, SharedBudget
from accounts.models import ApiKey, User
from hosting.actions.uses import (
    BEGAN,
    ENDED,
    MINUTE,
    OPEN,
    Part,
    Spent,
    reserved_in_groups,
    uses_of,
)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Meter:
    """One limit and what is used of it: by a person or, with `api_key_id`, by one of their keys."""

    name: str  # of the field in accounts.limits.Limits
    source: str
    limit: int
    used: int
    reserved: int = 0
    resets_at: datetime.datetime
    api_key_id: int | None = None
    shared: SharedBudget | None = None  # of which it is, if it is not a person's or a key's

    @property
    def left(self) -> int:
        return max(0, self.limit - self.used - self.reserved)

    @property
    def counts_tokens(self) -> bool:
        return self.name.startswith("tokens")

    @property
    def is_budget(self) -> bool:
        return self.name in ("tokens_per_day", "tokens_per_month")

    def after(self, reserved: int, now: datetime.datetime) -> Meter:
        """With one more generation, which begins now and reserves so many tokens."""
        if self.counts_tokens:
            return dataclasses.replace(self, reserved=self.reserved + reserved)
        resets_at = now + MINUTE if self.name == "requests_per_minute" else self.resets_at
        return dataclasses.replace(self, used=self.used + 1, resets_at=resets_at)

    def is_spent(self, wanted: int) -> bool:
        """There will not be `wanted` before the day or month is over."""
        return self.is_budget and wanted > self.limit - self.used


def meters_of(
    user: User, api_key: ApiKey | None, allowance: Allowance, now: datetime.datetime
) -> list[Meter]:
    """Every limit that is set, of the person and of the key; of shared budgets the fullest.

    What is spent is read last: what ends in between counts twice for once, never not at all.
    """
    scopes = [_Scope(allowance.person, f"user:{user.pk}")]
    if allowance.key is not None and api_key is not None:
        scopes.append(_Scope(allowance.key, f"key:{api_key.pk}", api_key.pk))
    uses = _uses(user, scopes, now)
    held = reserved_in_groups([budget.group_id for budget in allowance.shared])
    pots = [_Scope(budget.limits, budget.subject) for budget in allowance.shared]
    spent = _spent([*scopes, *pots], now)
    found = [meter for scope in scopes for meter in _meters(scope, uses, spent, now)]
    return found + _of_shared(allowance.shared, spent, held, now)


class _Scope(NamedTuple):
    """Whose uses some limits count: all of a person's, or one key's."""

    limits: Limits
    subject: str
    api_key_id: int | None = None

    def counts(self, part: Part) -> bool:
        return self.api_key_id is None or part.api_key_id == self.api_key_id


class _Use:
    """What a scope uses, of all that its person does."""

    def __init__(self, scope: _Scope, parts: Sequence[Part]) -> None:
        self._parts = [part for part in parts if scope.counts(part)]

    def number(self, what: str) -> int:
        return sum(part.number for part in self._of(what))

    def tokens(self, what: str) -> int:
        return sum(part.tokens for part in self._of(what))

    def newest(self, what: str) -> datetime.datetime | None:
        return max((part.newest for part in self._of(what)), default=None)

    @property
    def num_queued(self) -> int:
        return sum(part.num_queued for part in self._parts)

    def _of(self, what: str) -> Iterator[Part]:
        return (part for part in self._parts if part.what == what)


def _uses(user: User, scopes: Sequence[_Scope], now: datetime.datetime) -> list[Part]:
    return uses_of(
        user.pk,
        now,
        counts_requests=any(one.limits.requests_per_minute is not None for one in scopes),
        counts_tokens=any(one.limits.tokens_per_minute is not None for one in scopes),
    )


def _spent(scopes: Sequence[_Scope], now: datetime.datetime) -> Spent:
    firsts = [
        limits.today(now) if limits.tokens_per_month is None else limits.today(now).replace(day=1)
        for limits, *_ in scopes
        if limits.tokens_per_day is not None or limits.tokens_per_month is not None
    ]
    return Spent([scope.subject for scope in scopes], min(firsts, default=None))


def _of_shared(
    budgets: Sequence[SharedBudget],
    spent: Spent,
    held: Mapping[int, int],
    now: datetime.datetime,
) -> list[Meter]:
    pots = []
    for budget in budgets:
        reserved = held.get(budget.group_id, 0)
        meters = _budgets(_Scope(budget.limits, budget.subject), spent, now, reserved)
        pots.append([dataclasses.replace(meter, shared=budget) for meter in meters])
    return max(pots, key=lambda meters: min(meter.left for meter in meters), default=[])


def _meters(
    scope: _Scope, parts: Sequence[Part], spent: Spent, now: datetime.datetime
) -> Iterator[Meter]:
    use = _Use(scope, parts)
    reserved = use.tokens(OPEN)
    for name, used in (("max_concurrent", use.number(OPEN)), ("max_queued", use.num_queued)):
        if getattr(scope.limits, name) is not None:
            yield _meter(name, scope, used=used, resets_at=now)
    for name, what, used, held in (
        ("requests_per_minute", BEGAN, use.number(BEGAN), 0),
        ("tokens_per_minute", ENDED, use.tokens(ENDED), reserved),
    ):
        if getattr(scope.limits, name) is not None:
            newest = use.newest(what)
            resets_at = newest + MINUTE if newest else now
            yield _meter(name, scope, used=used, reserved=held, resets_at=resets_at)
    yield from _budgets(scope, spent, now, reserved)


def _meter(
    name: str, scope: _Scope, *, used: int, resets_at: datetime.datetime, reserved: int = 0
) -> Meter:
    return Meter(
        name=name,
        source=scope.limits.sources[name],
        limit=getattr(scope.limits, name),
        used=used,
        reserved=reserved,
        resets_at=resets_at,
        api_key_id=scope.api_key_id,
    )


def _budgets(scope: _Scope, spent: Spent, now: datetime.datetime, reserved: int) -> Iterator[Meter]:
    limits = scope.limits
    today = limits.today(now)
    first_of_month = today.replace(day=1)
    next_month = (first_of_month + datetime.timedelta(days=32)).replace(day=1)
    tomorrow = today + datetime.timedelta(days=1)
    for name, first, end in (
        ("tokens_per_day", today, tomorrow),
        ("tokens_per_month", first_of_month, next_month),
    ):
        if getattr(limits, name) is not None:
            used = spent.tokens(scope.subject, first, today)
            resets_at = datetime.datetime.combine(end, datetime.time(), limits.zone)
            yield _meter(name, scope, used=used, reserved=reserved, resets_at=resets_at)
