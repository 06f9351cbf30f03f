"""Writes the ledger: one line per ended generation, and what it takes from budgets.

It does not know what a generation is, nor who counts tokens.
"""

from __future__ import annotations

import datetime

from django.db.models import F

from accounts.limits import SharedBudget
from accounts.models import Spending, UsageRecord


def record_usage(
    record: UsageRecord, *, day: datetime.date, shared: SharedBudget | None = None
) -> bool:
    """Write an unsaved line unless the ledger has that generation. True when it was written.

    What it charges is spent on `day`, of its person's and its key's budget, and of the `shared`
    one of a group. Meant to be called within the transaction that settles the generation; a second
    call, also a simultaneous one, leaves that transaction whole.
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
        for subject in _subjects_of(record.user_id, record.api_key_id):
            _spend(subject, day, record.charged_tokens)
        if shared is not None:
            _spend(shared.subject, shared.limits.today(record.created_at), record.charged_tokens)
    return is_new


def _spend(subject: str, day: datetime.date, tokens: int) -> None:
    Spending.objects.bulk_create([Spending(subject=subject, day=day)], ignore_conflicts=True)
    Spending.objects.filter(subject=subject, day=day).update(tokens=F("tokens") + tokens)


def _subjects_of(user_id: int | None, api_key_id: int | None) -> list[str]:
    """Whose budgets a generation of this person and key is taken from."""
    subjects = [f"user:{user_id}"] if user_id else []
    return [*subjects, f"key:{api_key_id}"] if api_key_id else subjects
