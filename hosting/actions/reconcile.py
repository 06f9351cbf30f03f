"""Brings Redis in line with the rows after Redis or an engine was lost. Runs every 2 s."""

from __future__ import annotations

import datetime
import logging

from django.utils import timezone

from hosting.actions.forgetting import forget_again, forget_what_is_due
from hosting.actions.hosted_models import publish_missed_models
from hosting.actions.publications import look_after_publications
from hosting.actions.repeats import cancel_what_nobody_follows
from hosting.actions.served import submit_again
from hosting.actions.settling import close_cancelled
from hosting.actions.tool_running import look_after_calls
from hosting.actions.web_processes import cancel_what_ended_processes_told
from hosting.engine_client import get_client
from hosting.models import Generation

# A row this young may still be on its way from its transaction to Redis
_GRACE = datetime.timedelta(seconds=2)

logger = logging.getLogger(__name__)


def reconcile() -> None:
    """Raises EngineUnavailable while Redis is away."""
    client = get_client()
    if publish_missed_models():
        forget_again()
    forget_what_is_due()
    _note_running()
    look_after_publications()
    cancel_what_nobody_follows()
    cancel_what_ended_processes_told()
    look_after_calls()
    now = timezone.now()
    # Nor is it young what was before the clock was set back
    not_young = Generation.objects.open().exclude(created_at__range=(now - _GRACE, now + _GRACE))
    not_young = not_young.only("is_cancel_requested")  # `request` may be megabytes
    for generation in not_young.order_by("created_at", "id"):  # so that places stay as they were
        if not client.has_request(str(generation.pk)):
            _restore(generation)
        elif generation.is_cancel_requested:
            client.cancel(str(generation.pk))


def _note_running() -> None:
    rows = {row.request_id for status in get_client().engines() for row in status.rows}
    queued = Generation.objects.filter(pk__in=rows, state=Generation.State.QUEUED)
    queued.update(state=Generation.State.RUNNING)


def _restore(generation: Generation) -> None:
    if generation.is_cancel_requested:
        close_cancelled(generation)
        return
    logger.warning("submitted again: Redis did not know it", extra={"request_id": generation.pk})
    submit_again(str(generation.pk))
