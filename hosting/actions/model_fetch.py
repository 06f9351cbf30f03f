"""Fetches models from Hugging Face into the data folder, each by a child process.

One process at a time has the lock of a model's folder, and its child has it too. Whoever has it
clears away what is wanted no more: what was fetched of a cancelled one, or one that was removed.
The
complete files of a failed one are kept.
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterable
from pathlib import Path
from typing import IO

from django.conf import settings
from django.db import close_old_connections

from hosting.actions import fetched_folders
from hosting.actions.hosted_models import (
    enqueue_fetch,
    fetched_folder,
    mark_fetch_failed,
    mark_fetched,
    note_fetch_progress,
)
from hosting.actions.model_folder import NotAModelFolder
from hosting.actions.telling_child import TellingChild
from hosting.models import HostedModel


class FetchFailed(Exception):
    """The child could not fetch it."""


def fetch_weights(model_id: int, stop: threading.Event) -> None:
    """Ends with the model READY, or FAILED with a sentence that says what to do; or when it is
    wanted no more, or `stop` is set."""
    model = HostedModel.objects.fetching().filter(pk=model_id).first()
    if model is None:
        return
    with fetched_folders.locked_folder(fetched_folder(model)) as lock:
        if lock is None:
            return
        _fetch(model, lock, stop)
        _clear_away(fetched_folder(model))
    if not stop.is_set():  # whoever asked meanwhile has met our lock
        _begin(HostedModel.objects.fetching().filter(repo_id=model.repo_id))


def continue_fetches() -> None:
    """Of what nobody fetches any more, or ever began to, for its process ended. Clears away what
    such processes left."""
    _begin(HostedModel.objects.fetching())
    for folder in fetched_folders.folders_with_leavings(Path(settings.MODELS_DIR).resolve()):
        with fetched_folders.locked_folder(folder) as lock:
            if lock is not None:
                _clear_away(folder)


def _begin(models: Iterable[HostedModel]) -> None:
    for model in models:
        with fetched_folders.locked_folder(fetched_folder(model)) as lock:
            pass
        if lock is not None:
            enqueue_fetch(model)


def _fetch(model: HostedModel, lock: IO[str], stop: threading.Event) -> None:
    try:
        fetched_folders.begin_part(fetched_folder(model))
        if _download(model, lock, stop):
            mark_fetched(model)
    except NotAModelFolder as error:
        mark_fetch_failed(model, f"{model.repo_id} is no MLX model: {error}")
    except (FetchFailed, OSError) as error:
        mark_fetch_failed(model, str(error))


def _download(model: HostedModel, lock: IO[str], stop: threading.Event) -> bool:
    """Whether all of it is here. Raises FetchFailed."""
    part = fetched_folders.part_of(fetched_folder(model))
    child = TellingChild("hosting.download", model.repo_id, str(part), lock=lock)
    try:
        while child.is_running():
            close_old_connections()
            if stop.is_set() or not note_fetch_progress(model, _fraction(part, child)):
                return False
    finally:
        child.end()
    if child.code < 0:
        name = signal.Signals(-child.code).name
        raise FetchFailed(f"The process that fetches {model.repo_id} was ended ({name}).")
    if child.code > 0:
        failed = f"The process that fetches {model.repo_id} has failed: the log says why."
        raise FetchFailed(child.told.get("error", failed))
    return True


def _fraction(part: Path, child: TellingChild) -> float:
    """0 before the size of the whole is known."""
    total = child.told.get("total_bytes")
    return min(1.0, fetched_folders.present_bytes(part) / total) if total else 0.0


def _clear_away(folder: Path) -> None:
    is_wanted = any(fetched_folder(model) == folder for model in HostedModel.objects.unfetched())
    fetched_folders.clear_away(folder, is_wanted=is_wanted)
