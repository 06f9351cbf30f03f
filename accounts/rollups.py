"""Sums the ledger by hour, day and week, so that pages read few rows.

    ledger lines → hours → days → weeks        one transaction for the hours of one day

What is summed is found by the lines that are new, so late lines count whenever they come, and so
does all that was missed while nothing ran. Again gives the same.
"""

from __future__ import annotations

import datetime
from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import Any

from django.db import connection, transaction
from django.db.backends.base.base import BaseDatabaseWrapper
from django.db.models import CharField, Count, DateField, F, Max, Q, QuerySet, Sum, Value
from django.db.models.functions import Cast, Coalesce, Concat, TruncHour
from django.db.models.sql.compiler import SQLCompiler
from django.utils import timezone

from accounts.models import DailyUsage, HourlyUsage, RollUpMark, UsageRecord, WeeklyUsage
from accounts.models.usage import TTFT_BOUNDS, TTFT_COLUMNS

HOUR = datetime.timedelta(hours=1)
DAY = datetime.timedelta(days=1)
WEEK = datetime.timedelta(days=7)
# No transaction lasts so long: afterwards every smaller id is committed, or never will be
_SETTLED_AFTER = datetime.timedelta(minutes=10)
_TOKENS = ("prompt_tokens", "cached_tokens", "completion_tokens", "reasoning_tokens")
SUMS = ("requests", "errors", *_TOKENS, *TTFT_COLUMNS)
_BY = ("payer", "user_id", "api_key_id", "model_name")
_ERRORS = Q(end__in=[UsageRecord.End.FAILED, UsageRecord.End.REFUSED])


def roll_up_what_is_new() -> None:
    """Sum every hour that has lines since the last time, with its day and its week."""
    mark, _ = RollUpMark.objects.get_or_create(pk=1)
    newest = UsageRecord.objects.aggregate(newest=Max("id"))["newest"] or 0
    new_lines = UsageRecord.objects.filter(id__gt=mark.settled_id).order_by()
    hours = sorted(new_lines.values_list(_HourOfLine(), flat=True).distinct())
    for _, of_day in groupby(hours, datetime.datetime.date):
        roll_up_hours(list(of_day))
    _move(mark, newest)


def roll_up_hours(hours: Sequence[datetime.datetime]) -> None:
    """Sum these hours of one day, what lies between them, and their day and week."""
    first, day = hours[0], hours[0].date()
    monday = day - day.weekday() * DAY
    with transaction.atomic():
        RollUpMark.objects.select_for_update().get_or_create(pk=1)
        lines = UsageRecord.objects.filter(created_at__gte=first, created_at__lt=hours[-1] + HOUR)
        _replace(HourlyUsage, Q(period__range=(first, hours[-1])), _sums_of_lines(lines))
        midnight = datetime.datetime.combine(day, datetime.time(), datetime.UTC)
        of_day = HourlyUsage.objects.filter(period__gte=midnight, period__lt=midnight + DAY)
        _replace(DailyUsage, Q(period=day), _sums_of_sums(of_day, day))
        of_week = DailyUsage.objects.filter(period__gte=monday, period__lt=monday + WEEK)
        _replace(WeeklyUsage, Q(period=monday), _sums_of_sums(of_week, monday))


def _move(mark: RollUpMark, newest: int) -> None:
    now = timezone.now()
    if newest and now - mark.seen_at < _SETTLED_AFTER and mark.seen_id:
        return
    RollUpMark.objects.filter(pk=1).update(settled_id=mark.seen_id, seen_id=newest, seen_at=now)


class _HourOfLine(TruncHour):
    """In UTC. SQLite does it by itself, where Django would call Python for each line."""

    def __init__(self) -> None:
        super().__init__("created_at", tzinfo=datetime.UTC)

    def as_sqlite(
        self, compiler: SQLCompiler, connection: BaseDatabaseWrapper, **extra_context: Any
    ) -> tuple[str, tuple[str | int, ...]]:
        moment, parameters = compiler.compile(self.lhs)
        return f"strftime('%%Y-%%m-%%d %%H:00:00', {moment})", parameters


def _sums_of_lines(lines: QuerySet[Any]) -> QuerySet[Any, dict[str, Any]]:
    payer = Concat(_id_or_dash("user_id"), Value(":"), _id_or_dash("api_key_id"))
    by = lines.order_by().values(*_BY[1:], period=_HourOfLine(), payer=payer)
    sums: QuerySet[Any, dict[str, Any]] = by.annotate(
        requests=Count("id"),
        errors=Count("id", filter=_ERRORS),
        **{name: Sum(name) for name in _TOKENS},
        **dict(_first_token_counts()),
    )
    return sums


def _sums_of_sums(finer: QuerySet[Any], period: datetime.date) -> QuerySet[Any, dict[str, Any]]:
    by = finer.order_by().values(*_BY)
    sums: QuerySet[Any, dict[str, Any]] = by.annotate(
        **{name: Sum(name) for name in SUMS}, period=Value(period, output_field=DateField())
    )
    return sums


def _replace(
    model: type[HourlyUsage | DailyUsage | WeeklyUsage],
    stale: Q,
    sums: QuerySet[Any, dict[str, Any]],
) -> None:
    """In the database alone: a day may have thousands of sums."""
    model.objects.filter(stale).delete()
    columns = ", ".join(("period", *_BY, *SUMS))
    select, parameters = sums.query.sql_with_params()
    with connection.cursor() as cursor:
        cursor.execute(
            f"INSERT INTO {model._meta.db_table} ({columns}) SELECT {columns} FROM ({select}) AS s",
            parameters,
        )


def _id_or_dash(column: str) -> Coalesce:
    return Coalesce(Cast(F(column), CharField()), Value("-"))


def _first_token_counts() -> Iterator[tuple[str, Count]]:
    lower = None
    for column, upper in zip(TTFT_COLUMNS, (*TTFT_BOUNDS, None), strict=True):
        within = Q(ttft_seconds__isnull=False)
        within &= Q(ttft_seconds__gte=lower) if lower is not None else Q()
        within &= Q(ttft_seconds__lt=upper) if upper is not None else Q()
        yield column, Count("id", filter=within)
        lower = upper
