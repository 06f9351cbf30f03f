"""Lists in OpenAI's form: a page of rows, and the id after which the next page begins."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any

from django.db.models import Q, QuerySet

from hosting.api.errors import invalid


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """Which page."""

    limit: int
    is_oldest_first: bool = False


def read_wanted(query: Mapping[str, str], *, usual: int, most: int) -> Wanted:
    """Raises ApiError."""
    order = query.get("order", "desc")
    if order not in ("asc", "desc"):
        raise invalid("order", "'order' must be asc or desc.")
    told = query.get("limit", str(usual))
    if not told.isascii() or not told.isdigit() or len(told) > 9 or not 1 <= int(told) <= most:
        raise invalid("limit", f"'limit' must be a number from 1 to {most}.")
    return Wanted(limit=int(told), is_oldest_first=order == "asc")


def page_of(
    rows: QuerySet[Any], after: Any, wanted: Wanted, show: Callable[[Any], dict[str, Any]]
) -> dict[str, Any]:
    """`after`: the last row of the page before, or None."""
    if after is not None:
        side = "gt" if wanted.is_oldest_first else "lt"
        is_beyond = Q(**{f"created_at__{side}": after.created_at})
        is_beyond |= Q(**{"created_at": after.created_at, f"id__{side}": after.pk})
        rows = rows.filter(is_beyond)
    sign = "" if wanted.is_oldest_first else "-"
    found = list(rows.order_by(f"{sign}created_at", f"{sign}id")[: wanted.limit + 1])
    data = [show(row) for row in found[: wanted.limit]]
    return {
        "object": "list",
        "data": data,
        "first_id": data[0]["id"] if data else None,
        "last_id": data[-1]["id"] if data else None,
        "has_more": len(found) > wanted.limit,
    }
