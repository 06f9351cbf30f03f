"""Quantised copies: refused before they begin, made by a process apart, published at once."""

from __future__ import annotations

import contextlib
import os
import signal
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest
from django.conf import settings
from django.contrib.auth.models import Group
from django.db import connections

from accounts.models import AuditRecord
from engine import wire
from engine.sizing.quantising import Way
from hosting.actions.hosted_models import add_model, follow_data_folder, remove_model
from hosting.actions.process_locks import locked
from hosting.actions.quantisations import cancel_copy
from hosting.actions.quantising import enqueue_open_copies, folder_of, lock_file, run_copies
from hosting.models import HostedModel, Quantisation
from tests.engine.transport.rig import Rig
from tests.hosting.quantising_rig import TASK, ask, change_config, tasks
from tests.hosting.quantising_rig import data_folder as data_folder
from tests.hosting.quantising_rig import folder as folder
from tests.hosting.quantising_rig import model as model
from tests.waiting import wait_until

pytestmark = pytest.mark.django_db(transaction=True)
PATIENCE_SECONDS = 60.0
SOON_SECONDS = 5.0  # a second, on a machine that has nothing else to do


@pytest.fixture
def endless(folder: Path, model: HostedModel) -> HostedModel:
    """Of which the child never has read all: it waits for somebody to write the rest."""
    os.mkfifo(folder / "generation_config.json")
    return model


def run() -> None:
    run_copies(threading.Event())


def run_as_worker(stop: threading.Event) -> None:
    """In a thread of its own, with a connection of its own."""
    try:
        run_copies(stop)
    finally:
        connections.close_all()


def files() -> list[str]:
    folder = Path(settings.MODELS_DIR)
    return sorted(path.name for path in folder.iterdir()) if folder.is_dir() else []


# -- made ------------------------------------------------------------------------------------------


def test_a_copy_is_served_to_whom_its_source_is_open_to(rig: Rig, model: HostedModel) -> None:
    group = Group.objects.create(name="research")
    model.allowed_groups.add(group)
    values = {"default_temperature": 0.3, "context_limit_tokens": 77, "cache_sharing": "own"}
    HostedModel.objects.filter(pk=model.pk).update(**values)
    job = ask(model)
    assert tasks(rig) == [TASK]
    run()
    job.refresh_from_db()
    assert (job.state, job.detail) == ("done", "")
    copy = HostedModel.objects.get(name="small")
    assert (copy.state, copy.source, copy.path) == ("ready", "quantised", str(folder_of(job)))
    assert {name: getattr(copy, name) for name in values} == values
    assert list(copy.allowed_groups.all()) == [group]
    assert copy.weight_bytes == pytest.approx(job.estimated_bytes, rel=0.1)
    assert copy.weight_bytes < model.weight_bytes / 4
    published = wire.decode(rig.redis.get(wire.Keys.MODELS)).models
    assert [spec.name for spec in published] == ["full", "small"]
    assert files() == [folder_of(job).name]
    record = AuditRecord.objects.get(action="model.add")
    assert (record.actor, record.target) == ("system", "small")


def test_a_copy_is_served_from_where_the_data_folder_is_now(
    model: HostedModel, settings: Any
) -> None:
    job = ask(model)
    run()
    settings.MODELS_DIR = settings.MODELS_DIR.rename(settings.DATA_DIR / "moved")
    follow_data_folder()
    assert HostedModel.objects.get(name="small").path == str(folder_of(job))
    assert HostedModel.objects.get(name="full").path == model.path


def test_copies_are_made_in_the_order_of_asking(model: HostedModel) -> None:
    ask(model, "one"), ask(model, "org/two:4", Way(bits=8, group_size=32))
    run()
    ended = Quantisation.objects.order_by("ended_at")
    assert [(job.name, job.state) for job in ended] == [("one", "done"), ("org/two:4", "done")]


def test_one_who_is_at_it_is_enough(model: HostedModel) -> None:
    job = ask(model)
    with locked(lock_file()):
        run()
    job.refresh_from_db()
    assert job.state == "waiting"


def test_what_nobody_began_is_begun(rig: Rig, model: HostedModel) -> None:
    ask(model)
    rig.redis.delete("hearth-celery:celery")
    enqueue_open_copies()
    assert tasks(rig) == [TASK]


def test_a_model_that_mlx_does_not_know_says_so(model: HostedModel, folder: Path) -> None:
    change_config(folder, model_type="nothing-known")
    job = ask(model)
    run()
    job.refresh_from_db()
    assert (job.state, job.detail) == (
        "failed",
        "mlx-lm does not know the architecture 'nothing-known'",
    )
    assert files() == []


def test_a_name_that_was_taken_meanwhile_makes_no_copy(model: HostedModel, folder: Path) -> None:
    job = ask(model)
    add_model(str(folder), name="small")
    run()
    job.refresh_from_db()
    assert (job.state, job.detail) == ("failed", "There is a model of this name: small.")
    assert files() == []


def test_a_model_that_was_removed_meanwhile_makes_no_copy(model: HostedModel) -> None:
    job = ask(model)
    remove_model(model)
    run()
    job.refresh_from_db()
    assert (job.state, job.detail) == ("failed", "full was removed meanwhile.")


# -- cancelled, killed -----------------------------------------------------------------------------


@pytest.fixture
def running(endless: HostedModel) -> Iterator[Quantisation]:
    """A copy that is being made, for as long as it is wanted."""
    job = ask(endless)
    stop = threading.Event()
    thread = threading.Thread(target=run_as_worker, args=[stop])
    thread.start()
    wait_until(lambda: files() != [], seconds=PATIENCE_SECONDS)
    yield job
    stop.set()
    thread.join()
    assert children() == []


def children() -> list[psutil.Process]:
    found = []
    for child in psutil.Process().children():
        with contextlib.suppress(psutil.Error):  # it has ended meanwhile
            found += [child] if "engine.quantize" in child.cmdline() else []
    return found


def test_a_cancelled_copy_ends_soon_and_leaves_nothing(running: Quantisation) -> None:
    assert cancel_copy(running, by=None)
    wait_until(lambda: not children() and files() == [], seconds=SOON_SECONDS)
    running.refresh_from_db()
    assert running.state == "cancelled"
    assert not cancel_copy(running, by=None)
    assert not HostedModel.objects.filter(name="small").exists()


def test_a_waiting_copy_is_cancelled_at_once(running: Quantisation, model: HostedModel) -> None:
    second = ask(model, "second")
    assert cancel_copy(second, by=None)
    running.refresh_from_db()
    second.refresh_from_db()
    assert (running.state, second.state) == ("running", "cancelled")


def test_a_worker_that_is_told_to_end_leaves_the_copy_to_the_next(
    endless: HostedModel, folder: Path
) -> None:
    job = ask(endless)
    stop = threading.Event()
    thread = threading.Thread(target=run_as_worker, args=[stop])
    thread.start()
    wait_until(lambda: files() != [], seconds=PATIENCE_SECONDS)
    stop.set()
    thread.join(timeout=SOON_SECONDS)
    assert not thread.is_alive() and not children() and files() == []
    job.refresh_from_db()
    assert job.state == "running"
    (folder / "generation_config.json").unlink()
    run()
    job.refresh_from_db()
    assert job.state == "done"


def test_a_killed_child_begins_again(running: Quantisation, folder: Path) -> None:
    (folder / "generation_config.json").unlink()
    children()[0].send_signal(signal.SIGKILL)
    wait_until(lambda: Quantisation.objects.get().state == "done", seconds=PATIENCE_SECONDS)
    assert HostedModel.objects.filter(name="small").exists()
    wait_until(lambda: files() == [folder_of(running).name])


def test_a_child_that_is_killed_again_and_again_is_given_up(running: Quantisation) -> None:
    killed: set[int] = set()
    while Quantisation.objects.open().exists():
        for child in children():
            child.kill()
            killed.add(child.pid)
        time.sleep(0.02)
    assert len(killed) == 3
    assert "ended 3 times (SIGKILL)" in Quantisation.objects.get().detail
    wait_until(lambda: files() == [])


def test_what_a_killed_worker_left_is_cleared_and_begun_again(model: HostedModel) -> None:
    job = ask(model)
    Quantisation.objects.update(state="running", fraction=0.4)
    part = folder_of(job).with_name(f"{folder_of(job).name}.part")
    part.mkdir(parents=True)
    (part / "model.safetensors").write_bytes(b"half")
    run()
    assert Quantisation.objects.get().state == "done"
    assert files() == [folder_of(job).name]


def test_a_copy_whose_worker_died_before_it_was_registered_is_not_made_again(
    model: HostedModel,
) -> None:
    job = ask(model)
    run()
    HostedModel.objects.filter(name="small").delete()
    Quantisation.objects.update(state="running")
    written = (folder_of(job) / "model.safetensors").stat().st_ino
    run()
    assert HostedModel.objects.filter(name="small").exists()
    assert (folder_of(job) / "model.safetensors").stat().st_ino == written


def test_what_is_left_of_a_cancelled_copy_is_cleared(rig: Rig, model: HostedModel) -> None:
    job = ask(model)
    cancel_copy(job, by=None)
    folder_of(job).mkdir(parents=True)
    fetched = folder_of(job).with_name("quantised-7--fetched")
    fetched.mkdir()
    rig.redis.delete("hearth-celery:celery")
    enqueue_open_copies()
    assert tasks(rig) == [TASK]
    run()
    assert files() == [fetched.name]
