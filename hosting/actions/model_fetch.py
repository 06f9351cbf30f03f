"""Fetches a model from Hugging Face into the data folder, and says how far it is."""

from __future__ import annotations

import fnmatch
import logging
import threading
from pathlib import Path
from typing import Any

from hosting.actions.hosted_models import (
    enqueue_fetch,
    fetched_folder,
    mark_fetch_failed,
    mark_fetched,
    note_fetch_progress,
)
from hosting.actions.model_folder import NotAModelFolder
from hosting.actions.process_locks import locked
from hosting.models import HostedModel

_WANTED = ["*.json", "*.safetensors", "*.jinja", "*.txt", "*.model", "*.tiktoken"]
_REPORT_SECONDS = 2.0

logger = logging.getLogger(__name__)


def fetch_weights(model_id: int) -> None:
    """Ends with the model READY, or FAILED with a sentence that says what to do."""
    model = HostedModel.objects.filter(pk=model_id, state=HostedModel.State.FETCHING).first()
    if model is None:
        return
    folder = fetched_folder(model)
    with locked(_lock_of(folder)) as lock:
        if lock is not None:
            _fetch(model, folder)


def continue_fetches() -> None:
    """Of what nobody fetches any more, or ever began to, for its process ended."""
    for model in HostedModel.objects.filter(state=HostedModel.State.FETCHING):
        with locked(_lock_of(fetched_folder(model))) as lock:
            pass
        if lock is not None:
            enqueue_fetch(model)


def _lock_of(folder: Path) -> Path:
    return folder.with_name(f"{folder.name}.lock")


def _fetch(model: HostedModel, folder: Path) -> None:
    try:
        with _Progress(model, folder):
            download(model.repo_id, folder)
        mark_fetched(model, folder)
    except NotAModelFolder as error:
        mark_fetch_failed(model, f"{model.repo_id} is no MLX model: {error}")
    except Exception as error:
        logger.warning("fetch failed: %s", model.repo_id, exc_info=True)
        mark_fetch_failed(model, _explain(model.repo_id, error))


def download(repo_id: str, folder: Path) -> None:
    from huggingface_hub import snapshot_download  # slow to import, and only this task needs it

    snapshot_download(repo_id, local_dir=folder, allow_patterns=_WANTED)


def total_bytes(repo_id: str) -> int:
    from huggingface_hub import HfApi

    info = HfApi().model_info(repo_id, files_metadata=True)
    return sum(file.size or 0 for file in info.siblings or () if _is_wanted(file.rfilename))


def _is_wanted(name: str) -> bool:
    return any(fnmatch.fnmatch(name, pattern) for pattern in _WANTED)


class _Progress:
    """Compares the folder with the repository's size, from a thread of its own."""

    def __init__(self, model: HostedModel, folder: Path) -> None:
        self._model = model
        self._folder = folder
        self._is_done = threading.Event()
        self._thread = threading.Thread(target=self._report, name=f"fetch-{model.pk}")

    def __enter__(self) -> None:
        self._total_bytes = total_bytes(self._model.repo_id)
        self._thread.start()

    def __exit__(self, *_: Any) -> None:
        self._is_done.set()
        self._thread.join()

    def _report(self) -> None:
        from django.db import connection

        while not self._is_done.wait(_REPORT_SECONDS):
            note_fetch_progress(self._model, min(1.0, self._present_bytes() / self._total()))
        connection.close()

    def _total(self) -> int:
        return max(1, self._total_bytes)

    def _present_bytes(self) -> int:
        files = (file for file in self._folder.rglob("*") if file.is_file())
        return sum(file.stat().st_size for file in files)


def _explain(repo_id: str, error: Exception) -> str:
    from huggingface_hub.errors import GatedRepoError, RepositoryNotFoundError

    if isinstance(error, GatedRepoError):
        return f"{repo_id} asks for an agreement: accept it on huggingface.co and set HF_TOKEN."
    if isinstance(error, RepositoryNotFoundError):
        return f"Hugging Face has no model {repo_id}, or it is private (set HF_TOKEN)."
    if isinstance(error, OSError):
        return (
            f"{repo_id} could not be fetched: this machine does not reach huggingface.co or its "
            f"disk is full ({type(error).__name__}). Copy the folder here and register its path."
        )
    return f"{repo_id} could not be fetched: {type(error).__name__}."
