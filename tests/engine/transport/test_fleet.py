"""Many agents on few rows, and memory for a part of what they have in hand.

The queue in Redis, the exchange and the prefix cache are the real ones; rows take the time that a
model would, by a clock of the test's own.
"""

from __future__ import annotations

import dataclasses
import heapq
import itertools
import random
import statistics

import msgspec
import pytest

from engine import wire
from engine.cache.owners import OwnerKind, owner_name
from engine.cache.plan import Query
from engine.core.blocks import root_key
from engine.core.delivery import Delivery
from engine.warmth import Warmth
from tests.engine.cache.toys import compute, make_cache, query
from tests.engine.transport.rig import Rig, emit
from tests.makers import make_delta, make_finished, make_work

NUM_AGENTS, NUM_ROWS, NUM_TURNS = 24, 6, 8
MEMORY_TOKENS = 60_000  # of about 150,000 that they have in hand
PREAMBLE_TOKENS, TASK_TOKENS, ANSWER_TOKENS, RESULT_TOKENS = 1000, 4000, 200, 500
READ_TOKENS_PER_SECOND = 5000.0
ANSWER_SECONDS, PAUSE_SECONDS = 8.0, 4.0


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Fared:
    found: float  # of all prompts' tokens
    waits: list[float]


class Fleet:
    """Agents that ask, wait, use a tool for a while, and ask again with its result."""

    def __init__(self, rig: Rig, *, is_choosing: bool, num_people: int) -> None:
        rig.redis.flushall()
        self.rig = rig
        self.cache = make_cache(budget_bytes=4 * MEMORY_TOKENS)
        self.cache.roots["demo"] = root_key({"model": "demo"})
        self.engine = rig.engine(weigh=Warmth(self.cache).weigh if is_choosing else None)
        self.rng = random.Random(1)
        self.numbers = itertools.count()
        self.moments: list[tuple[float, int, str, str]] = []  # when, tie, what, whose
        self.now = self.reads_until = 0.0
        preamble = self.tokens(PREAMBLE_TOKENS)
        self.prompts = {
            f"agent{n}": [*preamble, *self.tokens(self.rng.randint(1, 2 * TASK_TOKENS))]
            for n in range(NUM_AGENTS)
        }
        self.people = {
            agent: f"user:{number % num_people}" for number, agent in enumerate(self.prompts)
        }
        self.asked_at: dict[str, float] = {}
        self.turns = dict.fromkeys(self.prompts, 0)
        self.found_of: dict[str, int] = {}
        self.num_free = NUM_ROWS
        self.asked_tokens = self.found_tokens = 0
        self.waits: list[float] = []

    def run(self) -> Fared:
        for agent in self.prompts:
            self.later(self.rng.uniform(0, PAUSE_SECONDS), "ask", agent)
        while self.moments:
            self.now, _, what, agent = heapq.heappop(self.moments)
            {"ask": self.ask, "read": self.read, "end": self.end}[what](agent)
            self.pull()
        return Fared(found=self.found_tokens / self.asked_tokens, waits=self.waits)

    def ask(self, agent: str) -> None:
        self.asked_at[agent] = self.now
        self.rig.submit(f"{agent}-{self.turns[agent]}", tenant=self.people[agent])
        for entry in self.rig.intake.entries():
            work = make_work(wire.decode(entry.message))
            work = msgspec.structs.replace(work, prompt_token_ids=tuple(self.prompts[agent]))
            self.rig.intake.admit(entry, work, wire.ModelSpec(name="demo", path="/"))

    def pull(self) -> None:
        for delivery in self.engine.pull({"demo": self.num_free}) if self.num_free else ():
            assert isinstance(delivery, Delivery)
            self.begin(delivery.work.request_id.split("-")[0])

    def begin(self, agent: str) -> None:
        self.num_free -= 1
        self.waits.append(self.now - self.asked_at[agent])
        asked = self.query(agent)
        plan = self.cache.plan_in_memory(asked)
        self.cache.used(asked, plan, request_id=agent)
        self.asked_tokens += asked.num_tokens
        self.found_tokens += plan.num_tokens
        self.found_of[agent] = plan.num_tokens
        left = asked.num_tokens - plan.num_tokens
        self.reads_until = max(self.now, self.reads_until) + left / READ_TOKENS_PER_SECOND
        self.later(self.reads_until - self.now, "read", agent)

    def read(self, agent: str) -> None:
        compute(self.cache, self.query(agent))
        self.later(ANSWER_SECONDS * self.rng.uniform(0.5, 1.5), "end", agent)

    def end(self, agent: str) -> None:
        self.prompts[agent] += self.tokens(ANSWER_TOKENS)
        compute(self.cache, self.query(agent))
        self.cache.release(agent)
        answer = make_delta(*range(ANSWER_TOKENS))
        emit(self.engine, f"{agent}-{self.turns[agent]}", answer, self.finished(agent))
        self.num_free += 1
        self.turns[agent] += 1
        if self.turns[agent] < NUM_TURNS:
            self.prompts[agent] += self.tokens(RESULT_TOKENS)
            self.later(self.rng.expovariate(1 / PAUSE_SECONDS), "ask", agent)

    def finished(self, agent: str) -> wire.Finished:
        finished = make_finished(completion_tokens=ANSWER_TOKENS)
        usage = msgspec.structs.replace(finished.usage, cached_tokens=self.found_of[agent])
        return msgspec.structs.replace(finished, usage=usage)

    def query(self, agent: str) -> Query:
        owner = owner_name(OwnerKind.PERSON, self.people[agent])
        return query(self.prompts[agent], owners=[owner], model="demo")

    def later(self, seconds: float, what: str, agent: str) -> None:
        heapq.heappush(self.moments, (self.now + seconds, next(self.numbers), what, agent))

    def tokens(self, count: int) -> list[int]:
        return [self.rng.randrange(1, 1 << 30) for _ in range(count)]


@pytest.mark.parametrize(
    ("num_people", "gain", "longest"),
    [pytest.param(1, 2.0, 2.0, id="one person's"), pytest.param(24, 1.1, 1.5, id="24 people's")],
)
def test_what_is_in_memory_is_asked_for_before_it_leaves(
    rig: Rig, num_people: int, gain: float, longest: float
) -> None:
    """In the order of fairness alone a turn comes when the others have washed it out. Nobody waits
    twice as long for that."""
    in_order = Fleet(rig, is_choosing=False, num_people=num_people).run()
    choosing = Fleet(rig, is_choosing=True, num_people=num_people).run()
    assert choosing.found > gain * in_order.found
    assert statistics.median(choosing.waits) < statistics.median(in_order.waits)
    assert max(choosing.waits) < longest * max(in_order.waits)
