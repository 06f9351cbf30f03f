"""What the rows of sums are called, whose labels are ids."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

from accounts.figures import Sums
from accounts.models import ApiKey, User

_CHAT = "Chat page"


def names_of_people(rows: Sequence[Sums]) -> dict[str, str]:
    ids = [row.label for row in rows if row.label]
    found = {str(user.pk): str(user) for user in User.objects.filter(pk__in=ids)}
    return found | {"": "Deleted people"}


def named_keys(rows: Sequence[Sums]) -> list[Sums]:
    ids = [row.label for row in rows if row.label]
    keys = ApiKey.objects.filter(pk__in=ids)
    return renamed(rows, {str(key.pk): str(key) for key in keys} | {"": _CHAT})


def renamed(rows: Sequence[Sums], names: dict[str, str]) -> list[Sums]:
    return [dataclasses.replace(row, label=names.get(row.label, row.label)) for row in rows]
