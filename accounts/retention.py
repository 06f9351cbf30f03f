"""How long things of a person are kept, and the end of old lines of the ledger.

What the installation keeps for so many days a person may have deleted sooner, never kept longer.
"""

from __future__ import annotations

import datetime
from collections.abc import Iterator

from django.db.models import QuerySet
from django.utils import timezone

from accounts import audit
from accounts.models import Policy, RollUpMark, UsageRecord, User
from accounts.models.policy import MOST_DAYS

_ROWS_AT_ONCE = 5000  # a short transaction lets others write in between
KEPT = ("conversation_days", "usage_days")


def days_kept(user: User, what: str) -> int | None:
    """`what` is one of KEPT. None: for good."""
    days = [getattr(Policy.objects.current(), what), getattr(user, what)]
    return min((one for one in days if one is not None), default=None)


def choose_retention(user: User, *, address: str, **days: int | None) -> None:
    """The person's own choice, by name of KEPT."""
    before = {name: getattr(user, name) for name in days}
    for name, value in days.items():
        setattr(user, name, value)
    user.save(update_fields=list(days))
    changed = audit.changes(before, days)
    if changed["after"]:
        audit.record("person.retention", actor=user, address=address, target=user, **changed)


def people_with_an_end(what: str) -> Iterator[tuple[User, datetime.datetime]]:
    """Everybody of whom something is deleted, with the moment before which it is."""
    for user in User.objects.all():
        days = days_kept(user, what)
        if days is not None:
            yield user, days_ago(days)


def days_ago(days: int) -> datetime.datetime:
    return timezone.now() - datetime.timedelta(days=min(days, MOST_DAYS))


def delete_old_usage() -> int:
    """Lines that are old enough and summed already. The sums stay."""
    mark = RollUpMark.objects.filter(pk=1).first()
    lines = UsageRecord.objects.filter(pk__lte=mark.settled_id if mark else 0)
    total = sum(
        _delete(lines.filter(user=user, created_at__lt=limit))
        for user, limit in people_with_an_end("usage_days")
    )
    days = Policy.objects.current().usage_days
    if days is not None:  # those of people who are gone
        total += _delete(lines.filter(user=None, created_at__lt=days_ago(days)))
    return total


def _delete(lines: QuerySet[UsageRecord]) -> int:
    total = 0
    while ids := list(lines.order_by().values_list("pk", flat=True)[:_ROWS_AT_ONCE]):
        total += UsageRecord.objects.filter(pk__in=ids).delete()[0]
    return total
