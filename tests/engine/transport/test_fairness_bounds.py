"""The fair queue's bounds under random loads, in the real Redis."""

from __future__ import annotations

import random
from collections.abc import Callable

import pytest

from engine import wire
from tests.engine.transport.rig import Rig, emit, pull_ids
from tests.makers import make_delta, make_finished

DEFICIT_TOKENS = 4096  # lua/_queue.lua
NUM_REQUESTS = 40  # of each tenant
WEIGHTS = {"user:a": 1.0, "user:b": 1.0, "user:c": 2.0}


class Load:
    """Three tenants who always have something waiting, of any length; the engine may have some of
    it in memory."""

    def __init__(self, rig: Rig, seed: int, *, is_warm: bool = False) -> None:
        self.rig = rig
        self.chooser = random.Random(seed)
        self.engine = rig.engine(weigh=self.weigh if is_warm else None)
        self.num_warm = 0
        self.costs: dict[str, int] = {}
        self.served = dict.fromkeys(WEIGHTS, 0.0)
        for number in range(NUM_REQUESTS):
            for tenant, weight in WEIGHTS.items():
                self.ask(f"{tenant} {number}", tenant, weight)

    def ask(self, request_id: str, tenant: str, weight: float) -> None:
        num_prompt_tokens = self.chooser.choice([20, 200, 2000])
        self.costs[request_id] = num_prompt_tokens + self.chooser.choice([1, 50, 400])
        self.rig.submit(request_id, tenant=tenant, weight=weight)
        self.rig.admit_all(num_prompt_tokens=num_prompt_tokens)

    def weigh(self, work: wire.Work) -> Callable[[], int]:
        num_tokens = self.chooser.choice([0, 0, 512, 1024])
        self.num_warm += num_tokens > 0
        return lambda: num_tokens

    def serve_next(self) -> str:
        (request_id,) = pull_ids(self.engine)
        tenant, _ = request_id.split()
        prompt_tokens = int(self.rig.redis.hget(wire.Keys.request(request_id), "prompt_tokens"))
        num_tokens = self.costs[request_id] - prompt_tokens
        emit(self.engine, request_id, make_delta(*range(num_tokens)), make_finished())
        self.served[tenant] += self.costs[request_id] / WEIGHTS[tenant]
        return request_id


@pytest.mark.parametrize("seed", range(3))
def test_nobody_is_served_much_more_than_another_who_waits_as_well(rig: Rig, seed: int) -> None:
    """Sheng et al., Fairness in Serving Large Language Models, OSDI 2024, theorem 4.4; and by as
    much more as the queue lets go first for what is in memory."""
    load = Load(rig, seed, is_warm=True)
    bound = 2 * max(load.costs.values()) + DEFICIT_TOKENS
    for _ in range(NUM_REQUESTS):
        load.serve_next()
        assert max(load.served.values()) - min(load.served.values()) <= bound
    assert load.num_warm


@pytest.mark.parametrize("seed", range(3))
def test_who_is_overdue_gets_every_fourth_row_whoever_else_comes(rig: Rig, seed: int) -> None:
    chooser, engine = random.Random(seed), rig.engine()
    overdue = [f"overdue {number}" for number in range(6)]
    for request_id in overdue:
        priority = chooser.choice([wire.Priority.API, wire.Priority.BATCH])
        rig.queue(request_id, tenant=chooser.choice(list(WEIGHTS)), priority=priority)
        rig.redis.hset(wire.Keys.request(request_id), "queued_at", chooser.randrange(10**6))
    served = []
    for number in range(4 * len(overdue)):
        tenant = chooser.choice(list(WEIGHTS))
        rig.queue(f"new {number}", tenant=tenant, priority=wire.Priority.INTERACTIVE)
        served += pull_ids(engine)
    places = [place for place, one in enumerate(served, start=1) if one in overdue]
    assert places == [4, 8, 12, 16, 20, 24]


def test_who_is_always_ahead_and_always_gone_again_makes_nobody_wait_for_ever(rig: Rig) -> None:
    """A client that gives up and asks anew is never overdue itself; others of its class are."""
    engine = rig.engine()
    rig.queue("patient", tenant="user:b", priority=wire.Priority.API)
    rig.redis.hset(wire.Keys.request("patient"), "queued_at", 0)
    served: list[str] = []
    for number in range(12):
        rig.queue(f"retry {number}", tenant="user:a", priority=wire.Priority.API)
        rig.queue(f"chat {number}", tenant="user:c", priority=wire.Priority.INTERACTIVE)
        served += pull_ids(engine)
        rig.client.cancel(f"retry {number}")
    assert "patient" in served


@pytest.mark.parametrize("comes_a_third", [False, True])
def test_a_debt_outlives_the_coming_of_others(rig: Rig, comes_a_third: bool) -> None:
    """What an answer takes beyond its advance is charged at its end, when its tenant is idle."""
    engine = rig.engine()
    rig.redis.set("hearth:clock:api:demo", 10**6)  # as after a day
    rig.queue("long", tenant="user:a")
    assert pull_ids(engine) == ["long"]
    rig.queue(*(f"b{number}" for number in range(30)), tenant="user:b")
    for one in pull_ids(engine, 3):
        emit(engine, one, make_delta(*range(256)), make_finished())
    if comes_a_third:
        rig.queue("third", tenant="user:c")
    emit(engine, "long", make_delta(*range(4000)), make_finished())
    rig.queue("again", tenant="user:a")
    order = pull_ids(engine, 28)
    assert order.index("again") > 10


def test_what_was_never_computed_costs_nobody_a_turn(rig: Rig) -> None:
    engine = rig.engine()
    rig.submit(*(f"late {number}" for number in range(20)), tenant="user:a", deadline_seconds=-1.0)
    rig.submit("given back", tenant="user:a")
    rig.admit_all(num_prompt_tokens=1000)
    assert pull_ids(engine) == ["given back"]  # and the late ones are gone
    engine.give_back()
    rig.client.cancel("given back")
    rig.queue("a", tenant="user:a")
    rig.queue("b0", "b1", tenant="user:b")
    assert pull_ids(engine, 2) == ["a", "b0"]


def test_a_place_never_gets_worse_while_nobody_arrives(rig: Rig) -> None:
    """What is told on arrival is a guess; afterwards it only sinks, but for who is passed by."""
    load = Load(rig, 7)
    for _ in range(30):
        load.serve_next()
        rig.refresh_places()
    for one in rig.client.waiting():
        _, _, *told = [getattr(event, "position", 0) for event in rig.events(one.request_id)]
        assert told == sorted(told, reverse=True)
