"""The doorman's loop, without its process."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from engine import wire
from engine.intake.door import Door
from engine.intake.doorman import Doorman
from engine.intake.grammar_desk import GrammarDesk
from engine.intake.model_folder import Library
from engine.transport import Entry, IntakeQueue
from engine.transport.intake_queue import Admission
from hosting.engine_client import EngineClient
from tests.makers import make_generate, make_status


class CountingQueue(IntakeQueue):
    """Nobody asks, and the loop ends after its first turn."""

    num_beats = 0

    def __init__(self, redis_url: str, closing: threading.Event) -> None:
        super().__init__(redis_url, name="intake-1")
        self._closing = closing

    def entries(self, **_: object) -> Iterator[Entry]:
        self._closing.set()
        return iter(())

    def beats(self) -> list[wire.EngineStatus]:
        self.num_beats += 1
        return super().beats()


def test_heartbeats_are_read_while_nobody_waits(redis_url: str) -> None:
    closing = threading.Event()
    queue = CountingQueue(redis_url, closing)
    Doorman(queue, Door(Library()), GrammarDesk()).run(closing)
    assert queue.num_beats == 1


class NotingDoor(Door):
    """What it was told to forget."""

    def __init__(self) -> None:
        super().__init__(Library())
        self.forgotten: list[bool] = []

    def forget_texts(self, *, at_once: bool) -> None:
        self.forgotten.append(at_once)


def test_whoever_is_to_be_forgotten_is_forgotten_here_too(redis_url: str) -> None:
    door = NotingDoor()
    closing = threading.Event()
    queue = CountingQueue(redis_url, closing)
    for _ in range(2):
        closing.clear()
        Doorman(queue, door, GrammarDesk()).run(closing)
        EngineClient(redis_url).forget_tenant("user:1")
    assert door.forgotten == [False, True]


class AdmittingQueue(IntakeQueue):
    """Closes the loop when as many requests are admitted as are sent."""

    def __init__(self, redis_url: str, closing: threading.Event, num_requests: int) -> None:
        super().__init__(redis_url, name="intake-1")
        self.admitted: list[str] = []
        self.works: list[Any] = []
        self.statuses: list[wire.EngineStatus] = []
        self._closing = closing
        self._num_requests = num_requests

    def admit(self, entry: Entry, work: Any, spec: wire.ModelSpec, **options: bool) -> Admission:
        self.admitted.append(entry.request_id)
        self.works.append(work)
        if len(self.admitted) == self._num_requests:
            self._closing.set()
        return super().admit(entry, work, spec, **options)

    def beats(self) -> list[wire.EngineStatus]:
        return self.statuses


@pytest.mark.parametrize("of_use", [True, False])
def test_boundaries_are_looked_for_where_they_are_of_use(
    redis_url: str, folder: Path, of_use: bool
) -> None:
    client, closing = EngineClient(redis_url), threading.Event()
    client.publish_models((wire.ModelSpec(name="demo", path=str(folder)),))
    messages = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Hi"}]
    client.submit(make_generate("one", messages=tuple(messages)))
    queue = AdmittingQueue(redis_url, closing, num_requests=1)
    status = wire.ModelStatus(name="demo", state="loaded", wants_boundaries=of_use)
    queue.statuses = [make_status(models=(status,))]
    Doorman(queue, Door(Library()), GrammarDesk()).run(closing)
    assert bool(queue.works[0].boundaries) == of_use


def test_thousands_of_texts_keep_nobody_waiting(redis_url: str, folder: Path) -> None:
    client = EngineClient(redis_url)
    kinds = {"chat": wire.ModelKind.GENERATE, "vectors": wire.ModelKind.EMBED}
    client.publish_models(
        tuple(wire.ModelSpec(name=name, path=str(folder), kind=kinds[name]) for name in kinds)
    )
    many = wire.Embed(
        request_id="many",
        model="vectors",
        tenant="user:1",
        priority=wire.Priority.API,
        submitted_at=0.0,
        texts=("All the words there are. " * 20,) * 200,
    )
    client.submit(many)
    for name in ("one", "two"):
        client.submit(make_generate(name, model="chat", prompt="Hi"))
    closing = threading.Event()
    queue = AdmittingQueue(redis_url, closing, num_requests=3)
    Doorman(queue, Door(Library()), GrammarDesk()).run(closing)
    assert queue.admitted == ["one", "two", "many"]
