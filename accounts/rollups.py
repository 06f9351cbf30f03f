"""Sums the ledger by the hour, and the hours by the day, so that pages read few rows.

Again gives the same. Whatever was missed while nothing ran is made up for.
"""

from __future__ import annotations

import datetime
from collections.abc import Iterator
from typing import Any

from django.db import transaction
from django.db.models import Count, Max, Min, Q, QuerySet, Sum
from django.utils import timezone

from accounts.models import DailyUsage, HourlyUsage, UsageRecord
from accounts.models.usage import TTFT_BOUNDS, TTFT_COLUMNS

HOUR = datetime.timedelta(hours=1)
DAY = datetime.timedelta(days=1)
_TOKENS = ("prompt_tokens", "cached_tokens", "completion_tokens", "reasoning_tokens")
SUMS = ("requests", "errors", *_TOKENS, *TTFT_COLUMNS)
_ERRORS = Q(end__in=[UsageRecord.End.FAILED, UsageRecord.End.REFUSED])
_BY = ("user_id", "api_key_id", "model_name")


def roll_up_usage(hour: datetime.datetime) -> int:
    """Sum the ledger of the hour around `hour`. Returns rows written."""
    start = hour.replace(minute=0, second=0, microsecond=0)
    lines = UsageRecord.objects.filter(created_at__gte=start, created_at__lt=start + HOUR)
    sums = {
        "requests": Count("id"),
        "errors": Count("id", filter=_ERRORS),
        **{name: Sum(name) for name in _TOKENS},
        **dict(_first_token_counts()),
    }
    return _replace(HourlyUsage, "hour", start, lines.order_by().values(*_BY).annotate(**sums))


def roll_up_day(day: datetime.date) -> int:
    """Sum the hours of `day`. Returns rows written."""
    start = datetime.datetime.combine(day, datetime.time(), datetime.UTC)
    hours = HourlyUsage.objects.filter(hour__gte=start, hour__lt=start + DAY)
    sums = {name: Sum(name) for name in SUMS}
    return _replace(DailyUsage, "day", day, hours.order_by().values(*_BY).annotate(**sums))


def roll_up_what_is_new() -> None:
    """From the last hour that was summed, which may have gone on, until now."""
    now = timezone.now()
    last = HourlyUsage.objects.aggregate(last=Max("hour"))["last"]
    first = last or UsageRecord.objects.aggregate(first=Min("created_at"))["first"]
    if first is None:
        return
    hour = first = min(first, now - HOUR).replace(minute=0, second=0, microsecond=0)
    while hour <= now:
        roll_up_usage(hour)
        hour += HOUR
    for number in range((now.date() - first.date()).days + 1):
        roll_up_day(first.date() + number * DAY)


def _first_token_counts() -> Iterator[tuple[str, Count]]:
    lower = None
    for column, upper in zip(TTFT_COLUMNS, (*TTFT_BOUNDS, None), strict=True):
        within = Q(ttft_seconds__isnull=False)
        within &= Q(ttft_seconds__gte=lower) if lower is not None else Q()
        within &= Q(ttft_seconds__lt=upper) if upper is not None else Q()
        yield column, Count("id", filter=within)
        lower = upper


def _replace(model: type[Any], period: str, at: Any, groups: QuerySet[Any, dict[str, Any]]) -> int:
    with transaction.atomic():
        model.objects.filter(**{period: at}).delete()
        rows = [
            model(**{period: at}, payer=_payer(sums["user_id"], sums["api_key_id"]), **sums)
            for sums in groups
        ]
        # Two roll-ups at once: the second finds the first one's rows and writes the same again
        model.objects.bulk_create(
            rows,
            update_conflicts=True,
            unique_fields=[period, "payer", "model_name"],
            update_fields=SUMS,
        )
    return len(rows)


def _payer(user_id: int | None, api_key_id: int | None) -> str:
    return f"{user_id or '-'}:{api_key_id or '-'}"
