"""Deletes what is old enough. Conversations stay until their person deletes them."""

from __future__ import annotations

import datetime

from django.conf import settings
from django.utils import timezone

from hosting.models import Generation

_ROWS_AT_ONCE = 1000  # a short transaction lets others write in between


def delete_old_generations() -> int:
    """Those that ended more than RETENTION_DAYS ago. Their ledger lines stay."""
    limit = timezone.now() - datetime.timedelta(days=settings.RETENTION_DAYS)
    total = 0
    while ids := list(
        Generation.objects.ended_before(limit).values_list("pk", flat=True)[:_ROWS_AT_ONCE]
    ):
        total += Generation.objects.filter(pk__in=ids).delete()[0]
    return total
