"""Writes the ledger: one line per ended generation, and what it takes from budgets.

It does not know what a generation is, nor who counts tokens.
"""

from __future__ import annotations

import datetime

from django.db.models import F

from accounts.models import Spending, UsageRecord


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
