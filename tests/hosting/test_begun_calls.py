"""From the first byte of a call to its submission: one way to the database, and a client that
leaves meanwhile."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from typing import Any

import pytest
from django.test import AsyncClient

from engine import wire
from hosting.actions import database_threads
from hosting.actions.generations import submit
from hosting.models import Generation
from tests.hosting.hostile_requests import CHAT, COMPLETIONS, GOOD, MESSAGES, RESPONSES
from tests.hosting.scripted_engine import ScriptedEngine

pytestmark = pytest.mark.usefixtures("model")
ROUTES = [CHAT, COMPLETIONS, RESPONSES, MESSAGES]
WAIT_SECONDS = 20.0


class HeldSubmission:
    """Submissions wait at the gate until it is opened."""

    def __init__(self) -> None:
        self.has_come = threading.Event()
        self.may_go = threading.Event()

    def __call__(self, command: wire.Generate, line: str) -> None:
        self.has_come.set()
        assert self.may_go.wait(WAIT_SECONDS)
        submit(command, line)


@pytest.fixture
def gate(monkeypatch: pytest.MonkeyPatch) -> Iterator[HeldSubmission]:
    gate = HeldSubmission()
    monkeypatch.setattr("hosting.actions.generations.submit", gate)
    yield gate
    gate.may_go.set()


async def ask(api: AsyncClient, route: str = CHAT, **headers: str) -> Any:
    return await api.post(route, GOOD[route], content_type="application/json", headers=headers)


async def leave_at(gate: HeldSubmission, asking: asyncio.Task[Any]) -> None:
    """In the moment when the rows are there and nothing is submitted."""
    assert await asyncio.to_thread(gate.has_come.wait, WAIT_SECONDS)
    asking.cancel()
    gate.may_go.set()
    with pytest.raises(asyncio.CancelledError):
        await asking


@pytest.mark.parametrize("route", ROUTES)
async def test_a_call_is_submitted_after_one_way_to_the_database(
    api: AsyncClient, engine: ScriptedEngine, monkeypatch: pytest.MonkeyPatch, route: str
) -> None:
    ways, at_submission = [], []
    threads = database_threads._threads
    go = threads.submit

    def counting(*arguments: Any) -> Any:
        ways.append(arguments)
        return go(*arguments)

    def noting(command: wire.Generate, line: str) -> None:
        at_submission.append(len(ways))
        submit(command, line)

    monkeypatch.setattr(threads, "submit", counting)
    monkeypatch.setattr("hosting.actions.generations.submit", noting)
    assert (await ask(api, route)).status_code == 200
    assert at_submission == [1]


async def test_a_client_that_leaves_as_its_call_begins_leaves_nothing_behind(
    api: AsyncClient, engine: ScriptedEngine, gate: HeldSubmission
) -> None:
    await leave_at(gate, asyncio.create_task(ask(api)))
    assert (await Generation.objects.aget()).is_cancel_requested


async def test_a_client_that_may_come_again_stops_nothing_as_its_call_begins(
    api: AsyncClient, engine: ScriptedEngine, gate: HeldSubmission
) -> None:
    key = {"Idempotency-Key": "k1"}
    await leave_at(gate, asyncio.create_task(ask(api, **key)))
    row = await Generation.objects.aget()
    assert not row.is_cancel_requested
    answer = await ask(api, **key)
    assert answer["Idempotent-Replayed"] == "true"
    assert answer.json()["id"] == f"chatcmpl-{row.pk.hex}"
