"""Writes the ledger: one line per ended generation, and their sums by the hour.

It does not know what a generation is, nor who counts tokens.
"""

from __future__ import annotations

import datetime
from typing import Any

from django.db import transaction
from django.db.models import Count, F, Q, Sum

from accounts.models import HourlyUsage, Spending, UsageRecord

_TOKENS = ("prompt_tokens", "cached_tokens", "completion_tokens", "reasoning_tokens")
_SUMS = ("requests", "errors", *_TOKENS)
_ERRORS = Q(end__in=[UsageRecord.End.FAILED, UsageRecord.End.REFUSED])


def record_usage(record: UsageRecord, *, day: datetime.date) -> bool:
    """Write an unsaved line unless the ledger has that generation. True when it was written.

    What it charges is spent on `day`, of its person's and its key's budget. Meant to be called
    within the transaction that settles the generation; a second call, also a simultaneous one,
    leaves that transaction whole.
    """
    values = {
        field.attname: getattr(record, field.attname)
        for field in UsageRecord._meta.concrete_fields
        if field.name not in ("id", "generation_id")
    }
    _, is_new = UsageRecord.objects.get_or_create(
        generation_id=record.generation_id, defaults=values
    )
    if is_new and record.charged_tokens:
        _spend(record, day)
    return is_new


def _spend(record: UsageRecord, day: datetime.date) -> None:
    for subject in subjects_of(record.user_id, record.api_key_id):
        Spending.objects.bulk_create([Spending(subject=subject, day=day)], ignore_conflicts=True)
        spent = Spending.objects.filter(subject=subject, day=day)
        spent.update(tokens=F("tokens") + record.charged_tokens)


def subjects_of(user_id: int | None, api_key_id: int | None) -> list[str]:
    """Whose budgets a generation of this person and key is taken from."""
    subjects = [f"user:{user_id}"] if user_id else []
    return [*subjects, f"key:{api_key_id}"] if api_key_id else subjects


def roll_up_usage(hour: datetime.datetime) -> int:
    """Sum the ledger of the hour around `hour`. Again gives the same. Returns rows written."""
    start = hour.replace(minute=0, second=0, microsecond=0)
    end = start + datetime.timedelta(hours=1)
    with transaction.atomic():
        HourlyUsage.objects.filter(hour=start).delete()
        rows = [HourlyUsage(hour=start, **sums) for sums in _sums_between(start, end)]
        # Two roll-ups at once: the second finds the first one's rows and writes the same again
        HourlyUsage.objects.bulk_create(
            rows,
            update_conflicts=True,
            unique_fields=["hour", "payer", "model_name"],
            update_fields=_SUMS,
        )
    return len(rows)


def _sums_between(start: datetime.datetime, end: datetime.datetime) -> list[dict[str, Any]]:
    """One dict of HourlyUsage's columns per person, key and model."""
    groups = (
        UsageRecord.objects.filter(created_at__gte=start, created_at__lt=end)
        .order_by()
        .values("user_id", "api_key_id", "model_name")
        .annotate(
            requests=Count("id"),
            errors=Count("id", filter=_ERRORS),
            **{name: Sum(name) for name in _TOKENS},
        )
    )
    return [{**group, "payer": _payer(group["user_id"], group["api_key_id"])} for group in groups]


def _payer(user_id: int | None, api_key_id: int | None) -> str:
    return f"{user_id or '-'}:{api_key_id or '-'}"
