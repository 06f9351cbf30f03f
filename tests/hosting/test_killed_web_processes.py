"""A web process is killed: what it alone could tell is cancelled, and nothing of anybody else's."""

from __future__ import annotations

import contextlib
import datetime
import os
import signal
import subprocess
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from accounts.models import User
from hosting.actions.orders import Order
from hosting.actions.reconcile import reconcile
from hosting.actions.served import start_served
from hosting.actions.web_processes import has_ended, this_web_process
from hosting.models import Generation, HostedModel
from hosting.tasks import apply_retention
from tests.hosting.hostile_requests import CHAT, GOOD, HELLO
from tests.hosting.scripted_engine import ENDLESS, ScriptedEngine, delta, finished
from tests.hosting.web_process import Listener, started_web, wait_until

pytestmark = pytest.mark.usefixtures("model")
STREAM = {**GOOD[CHAT], "stream": True}


def row() -> Generation:
    return Generation.objects.get()


@pytest.fixture
def folder(settings: Any) -> Path:
    locks = Path(settings.DATA_DIR) / "run" / "web"
    locks.mkdir(parents=True, exist_ok=True)
    return locks


@pytest.fixture
def killed(folder: Path) -> uuid.UUID:
    """The name of a web process that is no more: its file is there, and nobody locks it."""
    name = uuid.uuid4()
    (folder / f"{name}.lock").touch()
    return name


@contextlib.contextmanager
def listening(
    redis_url: str, api_key: str, engine: ScriptedEngine, *, is_stream: bool = True, **headers: str
) -> Iterator[tuple[Listener, subprocess.Popen[bytes]]]:
    """Somebody hears the beginning of an answer from a web process of its own."""
    engine.script = ENDLESS
    num_begun = len(engine.begun)
    with started_web(redis_url) as (url, process):
        listener = Listener(url, api_key, {**STREAM, "stream": is_stream}, **headers)
        wait_until(lambda: len(engine.begun) > num_begun, "begun")
        wait_until(lambda: bool(listener.lines) == is_stream, "heard")
        try:
            yield listener, process
        finally:
            process.kill()
            listener.thread.join()


@pytest.mark.parametrize("is_stream", [True, False])
def test_what_it_alone_could_tell_is_cancelled(
    redis_url: str, api_key: str, engine: ScriptedEngine, is_stream: bool
) -> None:
    with listening(redis_url, api_key, engine, is_stream=is_stream) as (_, process):
        process.kill()
        process.wait()
        reconcile()
    assert row().is_cancel_requested
    wait_until(lambda: engine.cancelled == [str(row().pk)], "cancelled")


def test_a_call_that_may_be_repeated_goes_on(
    redis_url: str, api_key: str, engine: ScriptedEngine
) -> None:
    key = {"Idempotency-Key": "k1"}
    with listening(redis_url, api_key, engine, **key) as (_, process):
        process.kill()
        process.wait()
        reconcile()
    assert not row().is_cancel_requested


def test_a_process_that_stands_still_is_not_taken_for_dead(
    redis_url: str, api_key: str, engine: ScriptedEngine
) -> None:
    with listening(redis_url, api_key, engine) as (listener, process):
        process.send_signal(signal.SIGSTOP)
        reconcile()
        assert not row().is_cancel_requested
        process.send_signal(signal.SIGCONT)
        engine.emit(str(row().pk), delta(" again"), finished())
        listener.thread.join()
    assert any(" again" in line for line in listener.lines)
    assert listener.lines[-2] == "data: [DONE]"


def test_of_two_processes_one_may_be_killed(
    redis_url: str, api_key: str, engine: ScriptedEngine
) -> None:
    with (
        listening(redis_url, api_key, engine) as (heard, _),
        listening(redis_url, api_key, engine) as (_, process),
    ):
        process.kill()
        process.wait()
        reconcile()
        lost, kept = Generation.objects.order_by("-is_cancel_requested")
        assert (lost.is_cancel_requested, kept.is_cancel_requested) == (True, False)
        engine.emit(str(kept.pk), finished())
        heard.thread.join()
        assert heard.lines[-2] == "data: [DONE]"


def test_what_it_had_not_submitted_yet_is_never_computed(
    killed: uuid.UUID,
    person: User,
    model: HostedModel,
    engine: ScriptedEngine,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("hosting.actions.generations.submit", lambda *_: None)
    order = Order(user=person, kind=Generation.Kind.API, model=model, messages=tuple(HELLO))
    start_served([order, order], web_process=killed)
    earlier = timezone.now() - datetime.timedelta(seconds=6)
    Generation.objects.update(created_at=earlier)
    reconcile()
    assert [one.state for one in Generation.objects.all()] == ["cancelled"] * 2
    assert not engine.generates


def test_where_nothing_can_be_locked_calls_are_answered(
    redis_url: str, api_key: str, engine: ScriptedEngine, settings: Any, tmp_path: Path
) -> None:
    settings.DATA_DIR = tmp_path
    (tmp_path / "run").touch()  # where the folder would be
    with started_web(redis_url) as (url, _):
        listener = Listener(url, api_key, STREAM)
        listener.thread.join()
    assert "data: [DONE]" in listener.lines
    assert row().web_process is None


def test_of_a_process_without_a_file_here_nothing_is_known() -> None:
    assert not has_ended(uuid.uuid4())


def test_old_locks_of_the_dead_are_deleted(killed: uuid.UUID, folder: Path) -> None:
    files = [folder / f"{name}.lock" for name in (killed, this_web_process())]
    apply_retention()
    assert [file.exists() for file in files] == [True, True]
    for file in files:
        os.utime(file, (0, 0))
    apply_retention()
    assert [file.exists() for file in files] == [False, True]


def test_only_what_is_open_is_looked_at(redis_url: str) -> None:
    if connection.vendor != "sqlite":
        pytest.skip("PostgreSQL walks over short tables")
    with CaptureQueriesContext(connection) as queries:
        reconcile()
    told = '"web_process" FROM'
    (looking,) = (one["sql"] for one in queries.captured_queries if told in one["sql"])
    with connection.cursor() as cursor:
        cursor.execute(f"EXPLAIN QUERY PLAN {looking}")
        assert cursor.fetchone()[3].startswith("SEARCH")
