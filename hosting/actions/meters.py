"""How much of each limit is used, read from the rows. Nothing is counted twice and kept apart.

    windows     generations that began, and tokens of those that ended, within the last minute
    at once     open generations; waiting: those of them that have not begun
    budgets     what the ledger spent today and this month
    reserved    what open generations may still spend; it counts to every limit of tokens

A reservation is a column of an open generation, so it ends with it, whatever dies in between.
"""

from __future__ import annotations

import dataclasses
import datetime
from collections.abc import Callable, Iterator

from django.db.models import Count, Sum

from accounts.limits import Allowance, Limits, SharedBudget
from accounts.models import ApiKey, Spending, User
from hosting.models import Generation
from hosting.models.generation import GenerationQuerySet

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
    rows = Generation.objects.of(user.pk).counted()
    found = list(_meters(allowance.person, rows, f"user:{user.pk}", now))
    if allowance.key is not None and api_key is not None:
        of_key = rows.filter(api_key=api_key)
        found += _meters(allowance.key, of_key, f"key:{api_key.pk}", now)
    pots = [_of_shared(budget, now) for budget in allowance.shared]
    return found + max(pots, key=lambda meters: min(meter.left for meter in meters), default=[])


def _of_shared(budget: SharedBudget, now: datetime.datetime) -> list[Meter]:
    taking = Generation.objects.open().filter(paying_group=budget.group_id)
    reserved = taking.aggregate(reserved=Sum("reserved_tokens"))["reserved"] or 0
    meters = _budgets(budget.limits, budget.subject, now, reserved)
    return [dataclasses.replace(meter, shared=budget) for meter in meters]


def _meters(
    limits: Limits, rows: GenerationQuerySet, subject: str, now: datetime.datetime
) -> Iterator[Meter]:
    opened = rows.open().aggregate(number=Count("pk"), reserved=Sum("reserved_tokens"))
    number, reserved = opened["number"], opened["reserved"] or 0
    sources = limits.sources
    if limits.max_concurrent is not None:
        yield Meter(
            name="max_concurrent",
            source=sources["max_concurrent"],
            limit=limits.max_concurrent,
            used=number,
            resets_at=now,
        )
    if limits.max_queued is not None:
        yield Meter(
            name="max_queued",
            source=sources["max_queued"],
            limit=limits.max_queued,
            used=rows.queued().count(),
            resets_at=now,
        )
    if limits.requests_per_minute is not None:
        began = rows.filter(created_at__gt=now - MINUTE).order_by("created_at")
        uses = [(at, 1) for at in began.values_list("created_at", flat=True)]
        yield _window("requests_per_minute", limits, uses, now)
    if limits.tokens_per_minute is not None:
        ended = rows.filter(finished_at__gt=now - MINUTE).order_by("finished_at")
        spent = [(row.finished_at or now, row.charged_tokens) for row in ended.iterator()]
        yield _window("tokens_per_minute", limits, spent, now, reserved=reserved)
    yield from _budgets(limits, subject, now, reserved)


def _window(
    name: str,
    limits: Limits,
    uses: list[tuple[datetime.datetime, int]],
    now: datetime.datetime,
    *,
    reserved: int = 0,
) -> Meter:
    leaving = tuple((at + MINUTE, amount) for at, amount in uses)
    return Meter(
        name=name,
        source=limits.sources[name],
        limit=getattr(limits, name),
        used=sum(amount for _, amount in uses),
        reserved=reserved,
        resets_at=leaving[-1][0] if leaving else now,
        leaving=leaving,
    )


def _budgets(
    limits: Limits, subject: str, now: datetime.datetime, reserved: int
) -> Iterator[Meter]:
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
                used=Spending.objects.tokens(subject, first, today),
                reserved=reserved,
                resets_at=datetime.datetime.combine(end, datetime.time(), limits.zone),
            )
