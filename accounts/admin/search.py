"""The search of long lists: whose rows, found in the short tables of people and keys first.

A term is looked for in no long table: a walk over millions of rows takes minutes.
"""

from __future__ import annotations

from typing import Any

from django.db.models import Q, QuerySet

from accounts.models import ApiKey, User

HELP = "A person by e-mail or name, an API key by its beginning, or a model by its whole name."


def rows_of(term: str, rows: QuerySet[Any]) -> QuerySet[Any]:
    """The one person's or key's that the term means, else that model's."""
    for owners, column in ((_people(term), "user_id"), (_keys(term), "api_key_id")):
        if len(owners) == 1:  # of several together no index gives the newest
            return rows.filter(**{column: owners[0]})
    of_model = rows.filter(model_name=term)
    # In order, the database would walk over all rows to find out that there is none
    return of_model if of_model.order_by().exists() else rows.none()


def _people(term: str) -> list[int]:
    exactly = User.objects.filter(Q(email__iexact=term) | Q(name__iexact=term))
    partly = User.objects.filter(Q(email__icontains=term) | Q(name__icontains=term))
    return _two_of(exactly) or _two_of(partly)


def _keys(term: str) -> list[int]:
    return _two_of(ApiKey.objects.filter(Q(prefix__startswith=term) | Q(name__iexact=term)))


def _two_of(rows: QuerySet[Any]) -> list[int]:
    """Enough to know whether there is only one."""
    return list(rows.order_by("pk").values_list("pk", flat=True)[:2])
