"""Writes the ledger: one line per ended generation, and what it takes from budgets.

It does not know what a generation is, nor who counts tokens.
"""

from __future__ import annotations

import datetime
from collections import Counter

from django.db import IntegrityError, transaction
from django.db.models import F

from accounts.limits import SharedBudget
from accounts.models import Spending, UsageRecord

Charges = Counter[tuple[str, datetime.date]]  # tokens, by budget and day


def record_usage(
    record: UsageRecord, *, day: datetime.date, shared: SharedBudget | None = None
) -> Charges | None:
    """Write an unsaved line; what is to be spent then. None when the ledger has that generation.

    What it charges is spent on `day`, of its person's and its key's budget, and of the `shared`
    one of a group. Meant to be called within the transaction that settles the generation; a second
    call, also a simultaneous one, leaves that transaction whole.
    """
    try:
        with transaction.atomic():
            record.save(force_insert=True)
    except IntegrityError:
        if not UsageRecord.objects.filter(generation_id=record.generation_id).exists():
            raise
        return None
    days = dict.fromkeys(_subjects_of(record.user_id, record.api_key_id), day)
    if shared is not None:
        days[shared.subject] = shared.limits.today(record.created_at)
    return Counter(dict.fromkeys(days.items(), record.charged_tokens))


def spend(charges: Charges) -> None:
    """Of every budget once, in the same order by everybody: nobody waits for each other."""
    for (subject, day), tokens in sorted(charges.items()):
        if tokens and not _add(subject, day, tokens):
            Spending.objects.bulk_create(
                [Spending(subject=subject, day=day)], ignore_conflicts=True
            )
            _add(subject, day, tokens)


def _add(subject: str, day: datetime.date, tokens: int) -> int:
    return Spending.objects.filter(subject=subject, day=day).update(tokens=F("tokens") + tokens)


def _subjects_of(user_id: int | None, api_key_id: int | None) -> list[str]:
    """Whose budgets a generation of this person and key is taken from."""
    subjects = [f"user:{user_id}"] if user_id else []
    return [*subjects, f"key:{api_key_id}"] if api_key_id else subjects
