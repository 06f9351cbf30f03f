"""Celery's tasks, one action call each. Actions enqueue them by name (actions/background.py)."""

from __future__ import annotations

import contextlib
import threading
import uuid
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from celery import shared_task
from celery.signals import worker_ready, worker_shutting_down

from accounts.retention import delete_old_usage
from accounts.rollups import roll_up_what_is_new
from accounts.session_store import SessionStore
from hosting.actions.batches import delete_old_batches, enqueue_open_batches
from hosting.actions.benchmarks import enqueue_open_benchmarks
from hosting.actions.counting import measure_templates
from hosting.actions.files import delete_old_files
from hosting.actions.forgetting import delete_old_forgettings
from hosting.actions.images import delete_unsent_images
from hosting.actions.model_fetch import continue_fetches, fetch_weights
from hosting.actions.quantising import enqueue_open_copies, run_copies
from hosting.actions.repeats import delete_old_keys
from hosting.actions.retention import delete_old_conversations, delete_old_generations
from hosting.actions.statistics import refresh_statistics
from hosting.actions.tool_rounds import begin_missed_rounds, begin_round
from hosting.actions.tool_running import run_call
from hosting.actions.turns import start_title
from hosting.actions.web_processes import delete_old_locks

_CALLS_AT_ONCE = 32
_stopping = threading.Event()  # the worker is told to end
# Calls wait for other people's servers: the worker's own few threads have more to do
_callers = ThreadPoolExecutor(_CALLS_AT_ONCE, thread_name_prefix="tool-call")

_RETENTION = (
    *(delete_old_generations, delete_old_conversations, delete_old_usage, delete_old_keys),
    *(delete_old_batches, delete_old_files, delete_old_forgettings, delete_old_locks),
    *(delete_unsent_images, SessionStore.clear_expired, refresh_statistics),
)


@shared_task
def write_title(conversation_id: str) -> None:
    start_title(uuid.UUID(conversation_id))


@shared_task
def fetch_model(model_id: int) -> None:
    """Takes one of the worker's threads until the model is here."""
    fetch_weights(model_id, _stopping)


@shared_task
def run_batches() -> None:
    """Takes one of the worker's threads as long as a batch is open."""
    from hosting.batches.process import run_all  # with all dialects: only who runs batches pays

    run_all(_stopping)


@shared_task
def run_quantisations() -> None:
    """Takes one of the worker's threads as long as a copy is asked for."""
    run_copies(_stopping)


@shared_task
def run_benchmarks() -> None:
    """Takes one of the worker's threads as long as one is open."""
    from hosting.benchmarks.process import run_all  # only who runs them pays

    run_all(_stopping)


@shared_task
def begin_tool_round(answer_id: str) -> None:
    begin_round(uuid.UUID(answer_id))


@shared_task
def run_tool_call(call_id: str) -> None:
    _callers.submit(run_call, uuid.UUID(call_id), _stopping)


@shared_task
def look_at_tool_rounds() -> None:
    begin_missed_rounds()


@worker_shutting_down.connect
def stop(**_: Any) -> None:
    _stopping.set()


@worker_ready.connect
def begin(**_: Any) -> None:
    continue_fetches()
    enqueue_open_batches()
    enqueue_open_copies()
    enqueue_open_benchmarks()


@shared_task
def look_at_batches() -> None:
    enqueue_open_batches()


@shared_task
def look_at_quantisations() -> None:
    enqueue_open_copies()


@shared_task
def look_at_benchmarks() -> None:
    enqueue_open_benchmarks()


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
