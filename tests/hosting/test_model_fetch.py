"""Models that are fetched from a hub on this machine: made, cancelled, killed, fetched again."""

from __future__ import annotations

import contextlib
import os
import signal
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest
from django.conf import settings
from django.db import connections

from accounts.models import AuditRecord, User
from engine import wire
from hosting.actions import fetched_folders
from hosting.actions.fetched_folders import locked_folder, part_of
from hosting.actions.hosted_models import (
    add_model,
    cancel_fetch,
    fetch_again,
    fetched_folder,
    remove_model,
)
from hosting.actions.model_fetch import continue_fetches, fetch_weights
from hosting.models import HostedModel
from tests.engine.transport.rig import Rig
from tests.hosting.quantising_rig import data_folder as data_folder
from tests.hosting.quantising_rig import tasks
from tests.hub import REPOSITORY, WEIGHTS, Hub, running_hub
from tests.stack import free_port
from tests.waiting import wait_until

pytestmark = pytest.mark.django_db(transaction=True)
PATIENCE_SECONDS = 60.0
SOON_SECONDS = 5.0  # a second, on a machine that has nothing else to do
FETCH, LOOK = "hosting.tasks.fetch_model", "hosting.tasks.look_at_fetches"


@pytest.fixture
def hub(monkeypatch: pytest.MonkeyPatch) -> Iterator[Hub]:
    with running_hub() as hub:
        monkeypatch.setenv("HF_ENDPOINT", hub.address)
        yield hub


@pytest.fixture
def model(rig: Rig, hub: Hub) -> HostedModel:
    """Asked for; nobody fetches it yet."""
    return add_model(REPOSITORY)


Begin = Callable[[HostedModel], threading.Event]


@pytest.fixture
def begin() -> Iterator[Begin]:
    """Fetches a model as the worker does, in a thread of its own, until told to end."""
    begun: list[tuple[threading.Thread, threading.Event]] = []

    def begin_one(model: HostedModel) -> threading.Event:
        stop = threading.Event()
        thread = threading.Thread(target=_fetch_as_worker, args=[model, stop])
        begun.append((thread, stop))
        thread.start()
        return stop

    yield begin_one
    for thread, stop in begun:
        stop.set()
        thread.join()
    assert children() == []


def _fetch_as_worker(model: HostedModel, stop: threading.Event) -> None:
    try:
        fetch_weights(model.pk, stop)
    finally:
        connections.close_all()


def fetch(model: HostedModel) -> HostedModel:
    fetch_weights(model.pk, threading.Event())
    model.refresh_from_db()
    return model


@pytest.fixture
def half(model: HostedModel, hub: Hub, begin: Begin) -> HostedModel:
    """It is being fetched, and the half of it is here."""
    hub.hold()
    begin(model)
    wait_until(lambda: is_half_here(model), seconds=PATIENCE_SECONDS)
    return model


def is_half_here(model: HostedModel) -> bool:
    """The small file and a part of the large one, in whatever order they were asked for."""
    part = part_of(fetched_folder(model))
    return fraction(model) > 0.3 and (part / "config.json").exists()


def fraction(model: HostedModel) -> float:
    return HostedModel.objects.get(pk=model.pk).fetch_fraction


def state(model: HostedModel) -> str:
    return HostedModel.objects.get(pk=model.pk).state


def children() -> list[psutil.Process]:
    found = []
    for child in psutil.Process().children():
        with contextlib.suppress(psutil.Error):  # it has ended meanwhile
            found += [child] if "hosting.download" in child.cmdline() else []
    return found


def folders() -> list[str]:
    models = Path(settings.MODELS_DIR)
    return sorted(one.name for one in models.iterdir() if one.is_dir()) if models.exists() else []


def incomplete() -> list[Path]:
    return list(Path(settings.MODELS_DIR).rglob("*.incomplete"))


def published(rig: Rig) -> list[str]:
    return [spec.name for spec in wire.decode(rig.redis.get(wire.Keys.MODELS)).models]


# -- made ------------------------------------------------------------------------------------------


def test_a_fetched_model_is_served(model: HostedModel, rig: Rig, hub: Hub) -> None:
    assert published(rig) == []
    fetch(model)
    assert (model.state, model.detail, model.fetch_fraction) == ("ready", "", 1.0)
    assert (model.context_limit_tokens, model.weight_bytes) == (512, len(hub.files[WEIGHTS]))
    assert model.path == str(fetched_folder(model))
    assert published(rig) == ["tiny"]
    assert folders() == ["org--tiny"]


def test_how_far_it_is_can_be_seen(half: HostedModel) -> None:
    assert 0.3 < fraction(half) < 0.6
    assert folders() == ["org--tiny.part"]


def test_what_is_no_model_says_so_and_is_not_put_in_its_place(model: HostedModel, hub: Hub) -> None:
    del hub.files["config.json"]
    fetch(model)
    assert model.state == "failed" and "org/tiny is no MLX model" in model.detail
    assert folders() == ["org--tiny.part"]


def test_what_the_hub_does_not_have_says_so(rig: Rig, hub: Hub) -> None:
    model = fetch(add_model("org/other"))
    assert model.state == "failed" and "org/other could not be fetched" in model.detail


def test_without_a_network_it_says_what_to_do(
    model: HostedModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HF_ENDPOINT", f"http://127.0.0.1:{free_port()}")
    fetch(model)
    assert model.state == "failed" and "does not reach huggingface.co" in model.detail


def test_a_killed_download_says_so_and_keeps_what_is_complete(half: HostedModel, hub: Hub) -> None:
    children()[0].send_signal(signal.SIGKILL)
    wait_until(lambda: state(half) == "failed", seconds=PATIENCE_SECONDS)
    half.refresh_from_db()
    assert "was ended (SIGKILL)" in half.detail
    wait_until(lambda: incomplete() == [])
    hub.let_go()
    fetch_again(half)
    wait_until(lambda: not children())
    assert fetch(half).state == "ready"
    assert sorted(hub.sent) == ["config.json", WEIGHTS, WEIGHTS]


def test_a_folder_is_fetched_by_one_at_a_time(model: HostedModel, hub: Hub) -> None:
    with locked_folder(fetched_folder(model)):
        fetch(model)
    assert model.state == "fetching" and hub.num_begun == 0


def test_of_two_models_of_one_repository_the_second_follows_at_once(
    model: HostedModel, rig: Rig
) -> None:
    second = add_model(REPOSITORY, name="second")
    rig.redis.delete("hearth-celery:celery")
    fetch(model)
    assert tasks(rig) == [FETCH]
    assert fetch(second).path == model.path


# -- cancelled -------------------------------------------------------------------------------------


def test_a_cancelled_download_ends_soon_and_leaves_nothing(half: HostedModel, rig: Rig) -> None:
    assert cancel_fetch(half, by=None)
    wait_until(lambda: not children() and folders() == [], seconds=SOON_SECONDS)
    half.refresh_from_db()
    assert (half.state, half.fetch_fraction) == ("cancelled", 0.0)
    assert "was cancelled" in half.detail
    assert published(rig) == []


def test_a_download_that_nobody_has_begun_is_cancelled_at_once(
    model: HostedModel, hub: Hub
) -> None:
    assert cancel_fetch(model, by=None)
    assert fetch(model).state == "cancelled" and hub.num_begun == 0
    assert folders() == []


def test_a_download_is_cancelled_once(model: HostedModel) -> None:
    root = User.objects.create_superuser("root@example.org")
    assert cancel_fetch(model, by=root, address="10.0.0.7")
    assert not cancel_fetch(model, by=root)
    record = AuditRecord.objects.get(action="model.fetch_cancel")
    assert (record.actor, record.address, record.target) == (root.email, "10.0.0.7", "tiny")


def test_a_download_that_has_ended_is_not_cancelled(model: HostedModel) -> None:
    stale = HostedModel.objects.get(pk=model.pk)
    fetch(model)
    assert not cancel_fetch(stale, by=None)
    assert state(model) == "ready" and folders() == ["org--tiny"]


def test_a_cancelled_one_is_not_put_in_its_place_at_the_last_moment(
    model: HostedModel, rig: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is cancelled when all of it is here, and nobody has told yet."""
    read = fetched_folders.part_of(fetched_folder(model)) / "config.json"
    describe = Path.read_text

    def cancel_first(path: Path, *args: Any, **options: Any) -> str:
        if path == read:
            cancel_fetch(model, by=None)
        return describe(path, *args, **options)

    monkeypatch.setattr(Path, "read_text", cancel_first)
    assert fetch(model).state == "cancelled"
    assert folders() == [] and published(rig) == []


@pytest.mark.parametrize("turn", range(3))
def test_who_cancels_while_it_ends_gets_the_one_or_the_other(
    half: HostedModel, hub: Hub, rig: Rig, turn: int
) -> None:
    hub.let_go()
    wait_until(lambda: fraction(half) > 0.5 + 0.2 * turn or state(half) != "fetching")
    is_cancelled = cancel_fetch(half, by=None)
    wait_until(lambda: not children() and part_of(fetched_folder(half)).name not in folders())
    wait_until(lambda: state(half) != "fetching")
    assert state(half) == ("cancelled" if is_cancelled else "ready")
    assert folders() == ([] if is_cancelled else ["org--tiny"])
    assert published(rig) == ([] if is_cancelled else ["tiny"])


def test_a_cancelled_download_can_be_asked_for_again_at_once(
    half: HostedModel, hub: Hub, rig: Rig, begin: Begin
) -> None:
    """Whether its process has seen that it was cancelled or not."""
    hub.let_go()
    rig.redis.delete("hearth-celery:celery")
    assert cancel_fetch(half, by=None)
    fetch_again(half)
    wait_until(lambda: not children(), seconds=PATIENCE_SECONDS)
    wait_until(lambda: state(half) == "ready" or len(tasks(rig)) > 2, seconds=PATIENCE_SECONDS)
    assert state(half) == "ready" or fetch(half).state == "ready"


def test_a_removed_model_is_fetched_no_more(half: HostedModel) -> None:
    remove_model(half)
    wait_until(lambda: not children() and folders() == [], seconds=SOON_SECONDS)


def test_a_name_that_another_repository_has_got_is_not_given_these_weights(
    half: HostedModel, hub: Hub
) -> None:
    add_model("org/other", name=half.name)
    wait_until(lambda: not children() and folders() == [], seconds=SOON_SECONDS)
    half.refresh_from_db()
    assert (half.state, half.repo_id, half.path) == ("fetching", "org/other", "")


# -- killed ----------------------------------------------------------------------------------------


def test_a_worker_that_is_told_to_end_leaves_the_download_to_the_next(
    model: HostedModel, hub: Hub, begin: Begin, rig: Rig
) -> None:
    hub.hold()
    stop = begin(model)
    wait_until(lambda: is_half_here(model), seconds=PATIENCE_SECONDS)
    stop.set()
    wait_until(lambda: not children() and incomplete() == [])
    assert state(model) == "fetching"
    hub.let_go()
    assert fetch(model).state == "ready"
    assert sorted(hub.sent) == ["config.json", WEIGHTS, WEIGHTS]


def test_what_a_killed_worker_left_of_a_cancelled_download_is_cleared(
    model: HostedModel, rig: Rig
) -> None:
    cancel_fetch(model, by=None)
    (part_of(fetched_folder(model)) / "sub").mkdir(parents=True)
    Path(settings.MODELS_DIR, "quantised-7-small.part").mkdir()
    continue_fetches()
    assert folders() == ["quantised-7-small.part"]


def test_what_a_failed_download_has_is_kept(model: HostedModel) -> None:
    HostedModel.objects.update(state="failed")
    part_of(fetched_folder(model)).mkdir(parents=True)
    continue_fetches()
    assert folders() == ["org--tiny.part"]


def test_what_another_process_is_fetching_is_left_alone(model: HostedModel) -> None:
    cancel_fetch(model, by=None)
    part_of(fetched_folder(model)).mkdir(parents=True)
    with locked_folder(fetched_folder(model)):
        continue_fetches()
    assert folders() == ["org--tiny.part"]


# -- fetched again ---------------------------------------------------------------------------------


def test_only_what_has_changed_is_fetched_again(model: HostedModel, hub: Hub) -> None:
    fetch(model)
    hub.files["config.json"] = b'{"max_position_embeddings": 1024}'
    fetch_again(model)
    assert fetch(model).context_limit_tokens == 1024
    assert hub.num_begun == 1
    assert folders() == ["org--tiny"]


def test_a_model_whose_second_download_is_cancelled_is_served_as_it_was(
    model: HostedModel, hub: Hub, begin: Begin, rig: Rig
) -> None:
    fetch(model)
    old = hub.files[WEIGHTS]
    hub.files |= {WEIGHTS: b"n" * len(old), "config.json": b'{"max_position_embeddings": 9}'}
    fetch_again(model)
    hub.hold()
    begin(model)
    wait_until(lambda: hub.num_begun == 2, seconds=PATIENCE_SECONDS)
    model.refresh_from_db()
    assert cancel_fetch(model, by=None)
    wait_until(lambda: not children() and folders() == ["org--tiny"])
    assert state(model) == "ready" and published(rig) == ["tiny"]
    assert (fetched_folder(model) / WEIGHTS).read_bytes() == old
    assert b"512" in (fetched_folder(model) / "config.json").read_bytes()
    hub.let_go()
    fetch_again(model)
    assert fetch(model).context_limit_tokens == 9
    assert (fetched_folder(model) / WEIGHTS).read_bytes() == hub.files[WEIGHTS]


def test_a_model_fetched_again_holds_nothing_that_a_killed_process_left(
    model: HostedModel, hub: Hub
) -> None:
    folder = part_of(fetched_folder(model)) / ".cache" / "huggingface" / "download"
    folder.mkdir(parents=True)
    (folder / "x.incomplete").write_bytes(b"half")
    assert fetch(model).state == "ready"
    assert incomplete() == []


@pytest.mark.parametrize("is_there", [True, False])
def test_a_process_that_was_killed_while_it_put_the_new_weights_in_place_loses_none(
    model: HostedModel, is_there: bool
) -> None:
    fetch(model)
    folder = fetched_folder(model)
    old = folder.with_name("org--tiny.old")
    if is_there:
        old.mkdir()
    else:
        os.rename(folder, old)
    continue_fetches()
    assert folders() == ["org--tiny"] and (folder / WEIGHTS).exists()
