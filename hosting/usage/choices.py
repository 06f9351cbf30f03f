"""What is asked to be shown: which time, whose, which model and key. Read from a page's address."""

from __future__ import annotations

import dataclasses
import datetime
from typing import Any

from django.contrib.auth.models import Group
from django.db.models import Q, QuerySet
from django.http import QueryDict
from django.utils import timezone

from accounts.figures import Choice
from accounts.invitations import groups_managed_by, people_seen_by
from accounts.models import ApiKey, User

WINDOWS = {
    "day": ("24 hours", datetime.timedelta(hours=23)),
    "week": ("7 days", datetime.timedelta(days=6)),
    "month": ("30 days", datetime.timedelta(days=29)),
    "quarter": ("90 days", datetime.timedelta(days=89)),
    "year": ("1 year", datetime.timedelta(days=364)),
}
_DEFAULT_WINDOW = "month"


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """A checked question. What is not the asker's to see is not in `choice`.

    `unmatched` names what was asked for and is not there: a page shows more then, a program is
    refused.
    """

    choice: Choice
    window: str
    unmatched: tuple[str, ...] = ()
    person: User | None = None
    group: Group | None = None
    api_key: ApiKey | None = None


def ask_own(user: User, query: QueryDict) -> Asked:
    key = _one(ApiKey.objects.filter(user=user), query.get("key"))
    return _asked(query, whose=Q(user=user), key=key)


def ask_team(user: User, query: QueryDict) -> Asked:
    """An administrator sees everybody, a manager the people of their groups."""
    groups = groups_managed_by(user)
    people = people_seen_by(user)
    person = _one(people, query.get("person"))
    group = _one(groups, query.get("group"))
    key = _one(ApiKey.objects.filter(user__in=people), query.get("key"))
    whose = None if user.is_superuser else Q(user__in=people)
    if person is not None:
        whose = Q(user=person)
    elif group is not None:
        whose = Q(user__in=User.objects.filter(groups=group))
    return _asked(query, whose=whose, person=person, group=group, key=key)


def _asked(query: QueryDict, *, whose: Q | None, key: ApiKey | None, **found: Any) -> Asked:
    asked_window = query.get("window", "")
    window = asked_window if asked_window in WINDOWS else _DEFAULT_WINDOW
    matched = {**found, "key": key, "window": asked_window in WINDOWS}
    last = timezone.now()
    choice = Choice(
        first=last - WINDOWS[window][1],
        last=last,
        whose=whose,
        model_name=query.get("model", "").replace("\x00", ""),
        api_key_id=key.pk if key else None,
    )
    unmatched = tuple(name for name, match in matched.items() if query.get(name) and not match)
    return Asked(choice=choice, window=window, unmatched=unmatched, api_key=key, **found)


def _one(rows: QuerySet[Any], number: str | None) -> Any:
    """The row of that number among those that may be seen."""
    is_number = number is not None and number.isascii() and number.isdigit() and len(number) < 19
    return rows.filter(pk=number).first() if is_number else None
