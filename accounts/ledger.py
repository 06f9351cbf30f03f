"""Writes the ledger: one line per ended generation, and what they take from budgets.

It does not know what a generation is, nor who counts tokens.
"""

from __future__ import annotations

import datetime
from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

from django.db import IntegrityError, transaction
from django.db.models import F

from accounts.limits import SharedBudget
from accounts.models import Spending, UsageRecord
from accounts.prepared import Given, Update, insert_rows, prepared_update

Charges = Counter[tuple[str, datetime.date]]  # tokens, by budget and day


class Line(NamedTuple):
    """An unsaved record. What it charges is spent on `day`, of its person's and its key's budget,
    and of the `shared` one of a group."""

    record: UsageRecord
    day: datetime.date
    shared: SharedBudget | None = None

    @property
    def charges(self) -> Charges:
        record = self.record
        days = dict.fromkeys(_subjects_of(record.user_id, record.api_key_id), self.day)
        if self.shared is not None:
            days[self.shared.subject] = self.shared.limits.today(record.created_at)
        return Counter(dict.fromkeys(days.items(), record.charged_tokens))


def record_usage(lines: Sequence[Line]) -> Charges:
    """Write these lines; what is to be spent then. The ledger has each generation once: a line
    that it has already is left out.

    Meant to be called within the transaction that settles the generations; a second call, also a
    simultaneous one, leaves that transaction whole.
    """
    try:
        with transaction.atomic():
            insert_rows([line.record for line in lines])
    except IntegrityError:
        lines = [line for line in lines if _is_written(line.record)]
    charges: Charges = Counter()
    for line in lines:
        charges.update(line.charges)
    return charges


def _is_written(record: UsageRecord) -> bool:
    """Not where the ledger has it."""
    try:
        with transaction.atomic():
            record.save(force_insert=True)
    except IntegrityError:
        if not UsageRecord.objects.filter(generation_id=record.generation_id).exists():
            raise
        return False
    return True


def spend(charges: Charges) -> None:
    """Of every budget once, in the same order by everybody: nobody waits for each other."""
    for (subject, day), tokens in sorted(charges.items()):
        if tokens and not _add(subject=subject, day=day, tokens=tokens):
            Spending.objects.bulk_create(
                [Spending(subject=subject, day=day)], ignore_conflicts=True
            )
            _add(subject=subject, day=day, tokens=tokens)


@prepared_update
def _add() -> Update:
    rows = Spending.objects.filter(subject=Given("subject"), day=Given("day"))
    return Update(rows, {"tokens": F("tokens") + Given("tokens")})


def _subjects_of(user_id: int | None, api_key_id: int | None) -> list[str]:
    """Whose budgets a generation of this person and key is taken from."""
    subjects = [f"user:{user_id}"] if user_id else []
    return [*subjects, f"key:{api_key_id}"] if api_key_id else subjects
