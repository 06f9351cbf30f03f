"""Are people told how long they will wait? The real queue under a clock of the test's own."""

from __future__ import annotations

import heapq
import random
import statistics
from collections.abc import Callable

import pytest

from engine import wire
from tests.engine.transport.rig import Rig, emit, pull_ids
from tests.makers import make_finished

NUM_ROWS = 4
MANY = 10**6
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


class OneRow:
    """A row that takes a second for each request; two people always wait for it."""

    def __init__(self, rig: Rig) -> None:
        self.rig = rig
        self.engine = rig.engine()
        self.num_asked = 0
        self.began: dict[str, int] = {}
        self.told: dict[str, list[float]] = {}
        for _ in range(3):
            self.ask(f"chat {self.num_asked}", wire.Priority.INTERACTIVE)

    def ask(self, request_id: str, priority: wire.Priority) -> None:
        self.rig.submit(request_id, priority=priority, tenant=f"user:{priority}")
        self.rig.admit_all(max_rows=1, max_queue=MANY, max_queue_per_tenant=MANY)
        self.num_asked += 1

    def pass_a_second(self, now: int) -> None:
        """Everybody has waited a second more; one is taken, and ends at once."""
        for one in self.rig.client.waiting():
            self.rig.redis.hincrby(wire.Keys.request(one.request_id), "queued_at", -1000)
        if self.rig.redis.hget(PACE, "last") not in (None, "0"):
            self.rig.redis.hincrby(PACE, "last", -1000)
        (taken,) = pull_ids(self.engine)
        self.began[taken] = now
        emit(self.engine, taken, make_finished())
        self.ask(f"chat {self.num_asked}", wire.Priority.INTERACTIVE)
        self.rig.refresh_places()

    def listen(self, request_id: str) -> None:
        (*_, last) = self.rig.events(request_id)
        if isinstance(last, wire.Queued) and last.wait_seconds is not None:
            self.told.setdefault(request_id, []).append(last.wait_seconds)


def test_who_stands_behind_people_who_keep_coming_is_not_told_that_it_is_soon(rig: Rig) -> None:
    row = OneRow(rig)
    for now in range(-20, 0):
        row.pass_a_second(now)
    waiting = ["batch 0", "batch 3"]
    for number in range(4):
        row.ask(f"batch {number}", wire.Priority.BATCH)
    for now in range(90):
        row.pass_a_second(now)
        for one in waiting:
            row.listen(one)
    for one in waiting:
        assert row.told[one][0] == pytest.approx(row.began[one], rel=0.15)
        left = [row.began[one] - now for now in range(len(row.told[one]))]
        for told, truth in zip(row.told[one], left, strict=True):
            assert max(told, truth) <= 2 * min(told, truth) + 10


@pytest.mark.parametrize("living", [[], ["one"], ["one", "two", "three"]])
def test_every_living_engine_has_taken_some_that_go_first(rig: Rig, living: list[str]) -> None:
    rig.redis.sadd(wire.Keys.ENGINES, "dead", *living)  # one died without taking leave
    for name in living:
        rig.redis.set(wire.Keys.engine(name), "beats")
    rig.submit("first")
    rig.admit_all(max_rows=16)
    rig.redis.hset(PACE, "mean", 2000)
    rig.submit("second")
    rig.admit_all(max_rows=16)
    num_before = 2 + wire.look_ahead(16) * max(1, len(living))
    assert rig.events("second")[1:] == [wire.Queued(position=2, wait_seconds=2.0 * num_before)]
