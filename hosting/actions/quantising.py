"""Makes the quantised copies that were asked for, one after the other, each by a child process.

    models/quantised-7-name.part   written by the child
    models/quantised-7-name        complete: renamed, then registered

One process at a time has the lock, and its child has it too: nobody begins before both have ended,
and whoever begins then starts over.
"""

from __future__ import annotations

import re
import shutil
import signal
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import IO

from django.conf import settings
from django.db import close_old_connections

from hosting.actions import file_bytes, quantisations
from hosting.actions.background import enqueue
from hosting.actions.hosted_models import ModelRefused
from hosting.actions.model_folder import NotAModelFolder
from hosting.actions.process_locks import locked
from hosting.actions.quantisations import CopyRefused
from hosting.actions.telling_child import TellingChild
from hosting.models import Quantisation

_MOST_DEATHS = 3
_PART = ".part"
_FOLDER = re.compile(r"quantised-(\d+)-(?!-)")
_NOT_IN_FOLDERS = re.compile(r"[^A-Za-z0-9._]+")
_NOT_WANTED = (Quantisation.State.FAILED, Quantisation.State.CANCELLED)


class CopyFailed(Exception):
    """The child could not write it."""


def enqueue_open_copies() -> None:
    """Somebody goes on with them, if nobody does, and clears away what killed processes left."""
    if Quantisation.objects.open().exists() or any(_rubbish()):
        enqueue("run_quantisations")


def run_copies(stop: threading.Event) -> None:
    """Until none is open, or `stop` is set. Somebody else may be at it: then nothing is done."""
    with locked(lock_file()) as lock:
        if lock is None:
            return
        for folder in _rubbish():
            shutil.rmtree(folder, ignore_errors=True)
        while not stop.is_set() and (job := Quantisation.objects.open().order_by("pk").first()):
            _run(job, lock, stop)
    if not stop.is_set() and Quantisation.objects.open().exists():
        enqueue("run_quantisations")  # whoever asked while we ended has met our lock


def lock_file() -> Path:
    return Path(settings.DATA_DIR) / "run" / "quantisations.lock"


def folder_of(job: Quantisation) -> Path:
    """No folder of a fetched model is called so: those have two dashes in a row."""
    name = _NOT_IN_FOLDERS.sub("-", job.name)
    return Path(settings.MODELS_DIR).resolve() / f"quantised-{job.pk}-{name}"


def _run(job: Quantisation, lock: IO[str], stop: threading.Event) -> None:
    if not quantisations.begin(job):
        return
    folder = folder_of(job)
    part = folder.with_name(folder.name + _PART)
    try:
        if not folder.exists():  # else only its registration is missing
            if not _write(job, part, lock, stop):
                return
            part.rename(folder)
            file_bytes.sync(folder.parent)
        quantisations.publish_copy(job, folder)
    except (CopyFailed, CopyRefused, ModelRefused, NotAModelFolder, OSError) as error:
        quantisations.end(job, Quantisation.State.FAILED, detail=_told(error))
    finally:
        for rubbish in _rubbish():
            shutil.rmtree(rubbish, ignore_errors=True)


def _write(job: Quantisation, part: Path, lock: IO[str], stop: threading.Event) -> bool:
    """Whether all of it is written. Raises CopyFailed, CopyRefused."""
    if job.source is None:
        raise CopyRefused(f"{job.source_name} was removed meanwhile.")
    quantisations.offers_of(job.source)  # it may have changed since
    quantisations.check_room(job)
    child = TellingChild("engine.quantize", *_arguments(job, job.source.path, part), lock=lock)
    try:
        while child.is_running():
            close_old_connections()
            fraction = child.told.get("fraction", 0.0)
            if stop.is_set() or not quantisations.note_progress(job, fraction):
                return False
    finally:
        child.end()
    if child.code < 0:
        quantisations.note_death(job)
        if job.num_deaths < _MOST_DEATHS:
            return False  # it is begun again
    _check(child)
    return True


def _arguments(job: Quantisation, source: str, part: Path) -> list[str]:
    way = quantisations.way_of(job)
    how = ["--mode", way.mode, "--bits", str(way.bits), "--group-size", str(way.group_size)]
    return [source, str(part), *how]


def _check(child: TellingChild) -> None:
    """Raises CopyFailed where it has not written all."""
    if "error" in child.told:
        raise CopyFailed(child.told["error"])
    if child.code < 0:
        raise CopyFailed(
            f"The process that computes it was ended {_MOST_DEATHS} times "
            f"({signal.Signals(-child.code).name}): perhaps the machine's memory was full."
        )
    if child.code > 0:
        raise CopyFailed("The process that computes it has failed: the log says why.")


def _rubbish() -> Iterator[Path]:
    """What killed processes have left; only who has the lock knows that nobody writes it."""
    for folder in Path(settings.MODELS_DIR).resolve().glob("quantised-*"):
        if match := _FOLDER.match(folder.name):
            ended = Quantisation.objects.filter(pk=match[1], state__in=_NOT_WANTED)
            if folder.suffix == _PART or ended.exists():
                yield folder


def _told(error: Exception) -> str:
    return (error.strerror if isinstance(error, OSError) else None) or str(error)
