"""Deletes what is old enough, as installation and person have it."""

from __future__ import annotations

import datetime

from django.conf import settings
from django.db import transaction
from django.utils import timezone

from accounts.models import User
from accounts.retention import people_with_an_end
from hosting.actions.conversations import delete_conversations
from hosting.models import Conversation, Generation

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


def delete_old_conversations() -> int:
    """Those without a new message for longer than they are kept."""
    total = 0
    for person, limit in people_with_an_end("conversation_days"):
        with transaction.atomic():
            User.objects.hold(person.pk)  # what is written on in this moment is not old
            old = list(Conversation.objects.of(person.pk).filter(updated_at__lt=limit))
            delete_conversations(old)
        total += len(old)
    return total
