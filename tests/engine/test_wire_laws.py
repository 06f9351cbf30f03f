"""The laws of the wire under random histories: submit, admit, pull, emit, cancel, crash, loss.

Everything is real but the intake's checks and the engines' arithmetic: the queue, the scripts, the
exchange and Redis. Each history ends when every request has.
"""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable

import pytest

from engine import wire
from engine.core.delivery import Dropped
from engine.transport.exchange import Exchange
from tests.engine.transport.rig import Rig
from tests.makers import make_finished, make_generate

NUM_HISTORIES = 12
NUM_MOVES = 120
NUM_REQUESTS = 12
ANSWER_TOKENS = 12
WAITING = (wire.Queued, wire.Loading, wire.Started, wire.Prefilled, wire.Delta, wire.Resumed)


class Engine:
    """Answers request r with the tokens 0, 1, 2 ... from where the delivery says."""

    def __init__(self, rig: Rig, name: str) -> None:
        self.name = name
        self.exchange: Exchange = rig.engine(name, weigh=warm_tokens)
        self.next_token: dict[str, int] = {}

    def pull(self, n: int) -> None:
        for delivery in self.exchange.pull({"demo": n}):
            request_id = delivery.work.request_id
            done = len(delivery.delivered_token_ids)
            assert delivery.delivered_token_ids == tuple(range(done))
            self.next_token[request_id] = done
            if delivery.attempt > 1:
                self.exchange.add([(request_id, wire.Resumed(at_tokens=done))])

    def step(self, rng: random.Random) -> None:
        for request_id, token in list(self.next_token.items()):
            if rng.random() < 0.7:
                self.exchange.add([(request_id, next_event(token))])
                self.next_token[request_id] = token + 1
                if token >= ANSWER_TOKENS:
                    del self.next_token[request_id]
        self.drop(self.exchange.send())

    def drop(self, news: list[Dropped] | list[Dropped | wire.Cancel]) -> None:
        for one in news:
            if isinstance(one, Dropped):
                self.next_token.pop(one.request_id, None)

    def obey_cancels(self) -> None:
        for one in self.exchange.renew():
            self.next_token.pop(one.request_id, None)
            if isinstance(one, wire.Cancel):
                self.exchange.add([(one.request_id, make_finished())])
        self.drop(self.exchange.send())


class World:
    def __init__(self, rig: Rig, seed: int) -> None:
        self.rig = rig
        self.rng = random.Random(seed)
        self.engines = [Engine(rig, "engine-1"), Engine(rig, "engine-2")]
        self.num_submitted = 0
        self.open: list[str] = []  # what the ledger and its client still wait for
        self.seen: dict[str, list[wire.Event]] = {}

    def move(self) -> None:
        moves: list[Callable[[], None]] = [
            *itertools.repeat(self.step, 8),
            *itertools.repeat(self.pull, 4),
            *itertools.repeat(self.submit, 3),
            self.rig.intake.refresh_places,
            self.cancel,
            self.crash,
            self.stall,
            self.close,
            self.forget,
        ]
        self.rng.choice(moves)()
        self.read()

    def submit(self) -> None:
        if self.num_submitted < NUM_REQUESTS:
            self.open.append(f"r{self.num_submitted}")
            self.num_submitted += 1
        self.submit_missing()

    def submit_missing(self) -> None:
        """As the ledger does with rows that Redis does not know."""
        for request_id in self.open:
            tenant = f"user:{self.rng.randrange(3)}"
            priority = self.rng.choice(list(wire.Priority))
            generate = make_generate(request_id, tenant=tenant, priority=priority)
            self.rig.client.submit(generate)
        self.rig.admit_all(num_prompt_tokens=self.rng.choice([4, 2000]))

    def pull(self) -> None:
        self.rng.choice(self.engines).pull(self.rng.randint(1, 4))

    def step(self) -> None:
        for engine in self.engines:
            engine.step(self.rng)
            engine.obey_cancels()

    def cancel(self) -> None:
        if self.open:
            self.rig.client.cancel(self.rng.choice(self.open))

    def crash(self) -> None:
        place = self.rng.randrange(2)
        self.engines[place] = Engine(self.rig, self.engines[place].name)

    def stall(self) -> None:
        """All leases expire; one engine notices and releases what the other held."""
        for request_id in self.rig.redis.zrange(wire.Keys.LEASES, 0, -1):
            self.rig.redis.zadd(wire.Keys.LEASES, {request_id: 1})
        engine = self.rng.choice(self.engines)
        engine.obey_cancels()
        engine.exchange.release_expired()

    def close(self) -> None:
        place = self.rng.randrange(2)
        self.engines[place].exchange.give_back()
        self.engines[place] = Engine(self.rig, self.engines[place].name)

    def forget(self) -> None:
        """Redis loses everything; engines re-assert what they hold, the ledger submits the rest."""
        running = {one for one in self.open if self.state_of(one) == "leased"}
        self.rig.redis.flushall()
        for engine in self.engines:
            engine.drop(engine.exchange.verify())
        assert all(self.state_of(one) is not None for one in running)
        # Who followed one that waited is told that its stream is lost, and starts anew.
        self.seen = {one: events for one, events in self.seen.items() if one in running}
        self.submit_missing()

    def state_of(self, request_id: str) -> str | None:
        state: str | None = self.rig.redis.hget(wire.Keys.request(request_id), "state")
        return state

    def read(self) -> None:
        """What clients saw is never taken back; who saw the end leaves."""
        for request_id in list(self.open):
            stored = self.rig.events(request_id)
            seen = self.seen.get(request_id, [])
            assert stored[: len(seen)] == seen
            self.seen[request_id] = stored
            if is_ended(stored):
                check_laws(stored)
                self.open.remove(request_id)

    def drain(self) -> None:
        for _ in range(500):
            if not self.open and not any(engine.next_token for engine in self.engines):
                return
            self.submit_missing()
            for engine in self.engines:
                engine.pull(4)
            self.step()
            self.read()
        raise AssertionError(f"some request never ends: {self.open}")


def warm_tokens(work: wire.Work) -> Callable[[], int]:
    """Every other request has some of its prompt in memory, the later ones more."""
    number = int(work.request_id[1:])
    return lambda: 256 * number * (number % 2)


def next_event(token: int) -> wire.Event:
    if token >= ANSWER_TOKENS:
        return make_finished(completion_tokens=token)
    return wire.Delta(channel=wire.Channel.CONTENT, text=f"{token} ", token_ids=(token,))


def is_ended(events: list[wire.Event]) -> bool:
    return bool(events) and isinstance(events[-1], wire.TERMINAL_EVENTS)


def check_laws(events: list[wire.Event]) -> None:
    *before, last = events
    assert not any(isinstance(event, wire.TERMINAL_EVENTS) for event in before)
    if isinstance(last, wire.Refused) or not before:
        assert not before
        return
    assert isinstance(before[0], wire.Accepted)
    assert all(isinstance(event, WAITING) for event in before[1:])
    deltas = [event for event in before if isinstance(event, wire.Delta)]
    tokens = [token for delta in deltas for token in delta.token_ids]
    assert tokens == list(range(len(tokens)))
    assert "".join(delta.text for delta in deltas) == "".join(f"{token} " for token in tokens)
    if isinstance(last, wire.Finished) and last.reason == wire.FinishReason.STOP:
        assert last.usage.completion_tokens in (0, ANSWER_TOKENS)


@pytest.mark.parametrize("seed", range(NUM_HISTORIES))
def test_every_history_keeps_the_laws(redis_url: str, seed: int) -> None:
    world = World(Rig(redis_url), seed)
    for _ in range(NUM_MOVES):
        world.move()
    world.drain()

    assert len(world.rig.ended()) == len(set(world.rig.ended()))
    assert world.rig.client.waiting() == []
    assert world.rig.redis.zcard(wire.Keys.LEASES) == 0
