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
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

from accounts.limits import Allowance, Limits, SharedBudget
from accounts.models import ApiKey, User
from hosting.actions.uses import Spent, Use, reserved_in_groups, uses_of
from hosting.models import Generation

MINUTE = datetime.timedelta(minutes=1)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Meter:
    """One limit and what is used of it. `leaving`: when how much of it is free again."""

    name: str  # of the field in accounts.limits.Limits
    source: str
    limit: int
    used: int
    reserved: int = 0
    resets_at: datetime.datetime
    leaving: tuple[tuple[datetime.datetime, int], ...] = ()
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

    def wait_seconds(
        self, wanted: int, now: datetime.datetime, *, next_end_seconds: Callable[[], float]
    ) -> float:
        """Until `wanted` may be had, as far as that can be known.

        `next_end_seconds`: when the first open generation may end; asked only if that counts.
        """
        if self.is_spent(wanted):
            return (self.resets_at - now).total_seconds()
        missing = wanted - self.left
        for leaves_at, amount in self.leaving:
            missing -= amount
            if missing <= 0:
                return max(0.0, (leaves_at - now).total_seconds())
        return next_end_seconds()


def meters_of(
    user: User, api_key: ApiKey | None, allowance: Allowance, now: datetime.datetime
) -> list[Meter]:
    """Every limit that is set, of the person and of the key; of shared budgets the fullest."""
    scopes = [_Scope(allowance.person, f"user:{user.pk}")]
    if allowance.key is not None and api_key is not None:
        scopes.append(_Scope(allowance.key, f"key:{api_key.pk}", api_key.pk))
    uses = _uses(user, scopes, now)
    pots = [_Scope(budget.limits, budget.subject) for budget in allowance.shared]
    spent = _spent([*scopes, *pots], now)
    found = [meter for scope in scopes for meter in _meters(scope, uses, spent, now)]
    return found + _of_shared(allowance.shared, spent, now)


class _Scope(NamedTuple):
    """Whose uses some limits count: all of a person's, or one key's."""

    limits: Limits
    subject: str
    api_key_id: int | None = None

    def counts(self, use: Use) -> bool:
        return self.api_key_id is None or use.api_key_id == self.api_key_id


def _uses(user: User, scopes: Sequence[_Scope], now: datetime.datetime) -> list[Use]:
    counts_requests = any(one.limits.requests_per_minute is not None for one in scopes)
    counts_tokens = any(one.limits.tokens_per_minute is not None for one in scopes)
    return uses_of(
        user.pk,
        began_after=now - MINUTE if counts_requests else None,
        ended_after=now - MINUTE if counts_tokens else None,
    )


def _spent(scopes: Sequence[_Scope], now: datetime.datetime) -> Spent:
    firsts = [
        limits.today(now) if limits.tokens_per_month is None else limits.today(now).replace(day=1)
        for limits, *_ in scopes
        if limits.tokens_per_day is not None or limits.tokens_per_month is not None
    ]
    return Spent([scope.subject for scope in scopes], min(firsts, default=None))


def _of_shared(
    budgets: Sequence[SharedBudget], spent: Spent, now: datetime.datetime
) -> list[Meter]:
    reserved = reserved_in_groups([budget.group_id for budget in budgets])
    pots = []
    for budget in budgets:
        held = reserved.get(budget.group_id, 0)
        meters = _budgets(_Scope(budget.limits, budget.subject), spent, now, held)
        pots.append([dataclasses.replace(meter, shared=budget) for meter in meters])
    return max(pots, key=lambda meters: min(meter.left for meter in meters), default=[])


def _meters(
    scope: _Scope, uses: Sequence[Use], spent: Spent, now: datetime.datetime
) -> Iterator[Meter]:
    counted = [use for use in uses if scope.counts(use)]
    opened = [use for use in counted if use.is_open]
    queued = [use for use in opened if use.state == Generation.State.QUEUED]
    reserved = sum(use.reserved_tokens for use in opened)
    limits = scope.limits
    for name, at_once in (("max_concurrent", opened), ("max_queued", queued)):
        if (limit := getattr(limits, name)) is not None:
            source = limits.sources[name]
            yield Meter(name=name, source=source, limit=limit, used=len(at_once), resets_at=now)
    if limits.requests_per_minute is not None:
        began = [(use.created_at, 1) for use in counted if use.created_at > now - MINUTE]
        yield _window("requests_per_minute", limits, began, now)
    if limits.tokens_per_minute is not None:
        ended = [
            (use.finished_at, use.charged_tokens)
            for use in counted
            if use.finished_at is not None and use.finished_at > now - MINUTE
        ]
        yield _window("tokens_per_minute", limits, ended, now, reserved=reserved)
    yield from _budgets(scope, spent, now, reserved)


def _window(
    name: str,
    limits: Limits,
    uses: list[tuple[datetime.datetime, int]],
    now: datetime.datetime,
    *,
    reserved: int = 0,
) -> Meter:
    leaving = tuple((at + MINUTE, amount) for at, amount in sorted(uses))
    return Meter(
        name=name,
        source=limits.sources[name],
        limit=getattr(limits, name),
        used=sum(amount for _, amount in uses),
        reserved=reserved,
        resets_at=leaving[-1][0] if leaving else now,
        leaving=leaving,
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
        if (limit := getattr(limits, name)) is not None:
            yield Meter(
                name=name,
                source=limits.sources[name],
                limit=limit,
                used=spent.tokens(scope.subject, first, today),
                reserved=reserved,
                resets_at=datetime.datetime.combine(end, datetime.time(), limits.zone),
            )
