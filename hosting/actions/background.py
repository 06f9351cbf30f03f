"""Hands work to Celery by name, so that actions need not import the tasks that call them."""

from __future__ import annotations

import logging

from celery import current_app
from kombu.exceptions import OperationalError

logger = logging.getLogger(__name__)


def enqueue(task_name: str, *arguments: str | int) -> bool:
    """False when Redis is away; the caller decides whether that matters."""
    try:
        current_app.send_task(f"hosting.tasks.{task_name}", arguments)
    except OperationalError:
        logger.warning("task not enqueued: %s", task_name)
        return False
    return True
