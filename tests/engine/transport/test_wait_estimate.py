"""Are people told how long they will wait? The real queue under a clock of the test's own."""

from __future__ import annotations

import heapq
import random
import statistics
from collections.abc import Callable

import pytest

from engine import wire
from tests.engine.transport.rig import Rig, pull_ids

NUM_ROWS = 4
NUM_REQUESTS = 60
LOOK_AHEAD = wire.look_ahead(NUM_ROWS)
PACE = "hearth:pace:demo"
Length = Callable[[random.Random], float]


class Service:
    """An engine of four rows whose answers take so many seconds each; all ask at once."""

    def __init__(self, rig: Rig, length: Length) -> None:
        self.rig = rig
        self.engine = rig.engine()
        self.length = length
        self.chooser = random.Random(3)
        self.now = self.pulled_at = 0.0
        self.ahead: list[str] = []
        self.ends: list[float] = []
        self.started_at: dict[str, float] = {}
        self.told: list[tuple[str, float, float]] = []  # who, when, how long

    def pull(self) -> None:
        """The queue's clock is turned to the test's before it looks."""
        if (last := self.rig.redis.hget(PACE, "last")) not in (None, "0"):
            seconds, micros = self.rig.redis.time()
            real = 1000 * seconds + micros / 1000
            passed = 1000 * (self.now - self.pulled_at)
            assert float(last) <= real + 1000
            self.rig.redis.hset(PACE, "last", int(real - passed))
        wanted = NUM_ROWS + LOOK_AHEAD - len(self.ends) - len(self.ahead)
        self.ahead += pull_ids(self.engine, wanted)
        self.pulled_at = self.now
        while self.ahead and len(self.ends) < NUM_ROWS:
            self.started_at[self.ahead.pop(0)] = self.now
            heapq.heappush(self.ends, self.now + self.length(self.chooser))

    def listen(self) -> None:
        self.rig.refresh_places()
        for request_id in [one.request_id for one in self.rig.client.waiting()]:
            event = self.rig.events(request_id)[-1]
            if isinstance(event, wire.Queued) and event.wait_seconds is not None:
                self.told.append((request_id, self.now, event.wait_seconds))

    def run(self) -> None:
        self.rig.submit(*(f"r{number}" for number in range(NUM_REQUESTS)))
        self.rig.admit_all(max_rows=NUM_ROWS)
        self.pull()
        while self.ends:
            self.now = heapq.heappop(self.ends)
            self.pull()
            self.listen()


@pytest.mark.parametrize(
    "length",
    [
        lambda chooser: chooser.uniform(5, 15),
        lambda chooser: chooser.expovariate(1 / 10),
        lambda chooser: 30.0 if chooser.random() < 0.2 else 3.0,
    ],
    ids=["alike", "any length", "few long ones"],
)
def test_the_estimate_is_about_right(rig: Rig, length: Length) -> None:
    service = Service(rig, length)
    service.run()
    waited = [(told, service.started_at[one] - at) for one, at, told in service.told]
    ratios = [told / truth for told, truth in waited if truth > 0]
    assert len(ratios) > NUM_REQUESTS
    assert 2 / 3 < statistics.median(ratios) < 3 / 2
    assert statistics.median(max(ratio, 1 / ratio) for ratio in ratios) < 2
