"""The doorman's loop, without its process."""

from __future__ import annotations

import threading
from collections.abc import Iterator

from engine import wire
from engine.intake.door import Door
from engine.intake.doorman import Doorman
from engine.intake.grammar_desk import GrammarDesk
from engine.intake.model_folder import Library
from engine.transport import Entry, IntakeQueue


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
