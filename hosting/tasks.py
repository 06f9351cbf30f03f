"""Celery's tasks, one action call each. Actions enqueue them by name (actions/background.py)."""

from __future__ import annotations

import datetime
import uuid

from celery import shared_task
from django.utils import timezone

from accounts.ledger import roll_up_usage as roll_up_hour
from hosting.actions.model_fetch import fetch_weights
from hosting.actions.retention import delete_old_generations
from hosting.actions.turns import start_title


@shared_task
def write_title(conversation_id: str) -> None:
    start_title(uuid.UUID(conversation_id))


@shared_task
def fetch_model(model_id: int) -> None:
    fetch_weights(model_id)


@shared_task
def roll_up_usage() -> None:
    """The running hour, and the last one whose end may have been missed."""
    now = timezone.now()
    for hour in (now - datetime.timedelta(hours=1), now):
        roll_up_hour(hour)


@shared_task
def apply_retention() -> None:
    delete_old_generations()
