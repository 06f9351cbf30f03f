"""Redis and the engines forget what is deleted from the rows, at once or when they can be reached.

forget()  in the transaction that deletes: a row says what is to be forgotten
          after it: they are told; while Redis is away, again every 2 s (reconcile.py)
"""

from __future__ import annotations

import datetime
import logging
from collections.abc import Sequence
from functools import partial

from django.db import transaction
from django.utils import timezone

from hosting.engine_client import EngineUnavailable, get_client
from hosting.models import Forgetting

_KEPT = datetime.timedelta(days=7)  # longer than an engine is down while Redis loses its memory

logger = logging.getLogger(__name__)


def forget(
    *,
    tenant: str = "",
    publication: str = "",
    model_name: str = "",
    request_ids: Sequence[str] = (),
) -> None:
    """What is kept for this tenant or this published prompt alone, or of this model, and what was
    said in these requests. Call it in the transaction that deletes the rows."""
    due = Forgetting.objects.create(
        tenant=tenant,
        publication=publication,
        model_name=model_name,
        request_ids=list(request_ids),
    )
    transaction.on_commit(partial(_tell_soon, due))


def forget_what_is_due() -> None:
    """Raises EngineUnavailable."""
    for due in Forgetting.objects.due():
        _tell(due)


def forget_again() -> None:
    """Redis has lost its memory: what was forgotten lately may not have reached every engine."""
    Forgetting.objects.update(told_at=None)


def delete_old_forgettings() -> int:
    return Forgetting.objects.filter(told_at__lt=timezone.now() - _KEPT).delete()[0]


def forget_events(request_ids: list[str]) -> None:
    """What was said in these requests, which have ended."""
    try:
        get_client().forget_events(request_ids)
    except EngineUnavailable:
        logger.warning("Redis could not be told to forget; its streams expire")


def _tell_soon(due: Forgetting) -> None:
    try:
        _tell(due)
    except EngineUnavailable:
        logger.warning("Redis is away; the engines are told to forget when it is back")


def _tell(due: Forgetting) -> None:
    client = get_client()
    if due.tenant:
        client.forget_tenant(due.tenant)
    if due.publication:
        client.unpublish(due.publication)
    if due.model_name:
        client.clear_cache(due.model_name)
    client.forget_events(due.request_ids)
    Forgetting.objects.filter(pk=due.pk).update(told_at=timezone.now(), request_ids=[])
