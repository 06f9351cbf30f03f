"""Celery's tasks, one action call each. Actions enqueue them by name (actions/background.py)."""

from __future__ import annotations

import contextlib
import uuid
from typing import Any

from celery import shared_task
from celery.signals import worker_ready

from accounts.retention import delete_old_usage
from accounts.rollups import roll_up_what_is_new
from accounts.session_store import SessionStore
from hosting.actions.counting import measure_templates
from hosting.actions.forgetting import delete_old_forgettings
from hosting.actions.model_fetch import continue_fetches, fetch_weights
from hosting.actions.repeats import delete_old_keys
from hosting.actions.retention import delete_old_conversations, delete_old_generations
from hosting.actions.statistics import refresh_statistics
from hosting.actions.turns import start_title
from hosting.actions.web_processes import delete_old_locks

_RETENTION = (
    *(delete_old_generations, delete_old_conversations, delete_old_usage, delete_old_keys),
    *(delete_old_forgettings, delete_old_locks, SessionStore.clear_expired, refresh_statistics),
)


@shared_task
def write_title(conversation_id: str) -> None:
    start_title(uuid.UUID(conversation_id))


@shared_task
def fetch_model(model_id: int) -> None:
    fetch_weights(model_id)


@worker_ready.connect
def begin(**_: Any) -> None:
    continue_fetches()


@shared_task
def look_at_fetches() -> None:
    continue_fetches()


@shared_task
def look_at_templates() -> None:
    measure_templates()


@shared_task
def roll_up_usage() -> None:
    roll_up_what_is_new()


@shared_task
def apply_retention() -> None:
    """What one step cannot delete holds up no other; the task fails afterwards."""
    with contextlib.ExitStack() as steps:
        for step in reversed(_RETENTION):
            steps.callback(step)
