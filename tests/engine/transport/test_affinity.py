"""Agents on two engines: how much of their prompts is found where they come to.

The queue in Redis, the exchanges and the prefix caches are the real ones; rows take the time that a
model would, by a clock of the test's own. Patience is the queue's, by Redis's clock: in the test's
time it is for ever, so that engines must not wait for each other where they need not.
"""

from __future__ import annotations

import dataclasses
import heapq
import itertools
import random
from collections.abc import Iterator

import msgspec

from engine import wire
from engine.cache.owners import OwnerKind, owner_name
from engine.cache.plan import Query
from engine.core.blocks import root_key
from engine.core.delivery import Delivery
from engine.warmth import Warmth
from tests.engine.cache.toys import compute, make_cache, query
from tests.engine.transport.rig import Rig, emit
from tests.makers import make_delta, make_finished, make_work

NUM_PEOPLE, AGENTS_EACH, NUM_TURNS = 3, 4, 12
ROWS = 8
PREAMBLE_TOKENS, TASK_TOKENS, ANSWER_TOKENS, RESULT_TOKENS = 2500, 3000, 200, 600
READ_TOKENS_PER_SECOND = 5000.0
ANSWER_SECONDS, PAUSE_SECONDS = 6.0, 6.0
PLENTY_TOKENS = 2_000_000


class Machine:
    """An engine: its rows, its cache, and until when it reads."""

    def __init__(self, rig: Rig, name: str, num_rows: int) -> None:
        self.name = name
        self.cache = make_cache(budget_bytes=4 * PLENTY_TOKENS)
        self.cache.roots["demo"] = root_key({"model": "demo"})
        self.engine = rig.engine(name, weigh=Warmth(self.cache).weigh)
        self.num_free = num_rows
        self.reads_until = 0.0


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Agent:
    name: str
    person: str
    prompt: list[int]


class Team:
    """People whose agents begin alike, ask, use a tool for a while, and ask again."""

    def __init__(self, rig: Rig, *names: str, num_rows: int = ROWS, is_routed: bool = True) -> None:
        rig.redis.flushall()
        self.rig = rig = Rig(rig.url)  # whose intake knows that its group is gone
        self.is_routed = is_routed
        self.num_rows = num_rows
        self.machines = [Machine(rig, name, num_rows) for name in names]
        self.rng = random.Random(1)
        self.numbers = itertools.count()
        self.moments: list[tuple[float, int, str, Agent]] = []
        self.now = 0.0
        self.agents = {agent.name: agent for agent in self.make_agents()}
        self.turns = dict.fromkeys(self.agents, 0)
        self.at: dict[str, Machine] = {}
        self.asked_tokens = self.found_tokens = self.num_taken = 0
        for name in names:
            rig.redis.set(wire.Keys.engine(name), "a beat")

    def make_agents(self) -> Iterator[Agent]:
        for person in range(NUM_PEOPLE):
            preamble = self.tokens(PREAMBLE_TOKENS)
            for number in range(AGENTS_EACH):
                yield Agent(
                    name=f"p{person}a{number}",
                    person=f"user:{person}",
                    prompt=[*preamble, *self.tokens(self.rng.randint(500, TASK_TOKENS))],
                )

    def run(self) -> float:
        """The part of all prompts' tokens that was found."""
        for agent in self.agents.values():
            self.later(self.rng.uniform(0, 4 * PAUSE_SECONDS), "ask", agent)
        while self.moments:
            self.now, _, what, agent = heapq.heappop(self.moments)
            {"ask": self.ask, "read": self.read, "end": self.end}[what](agent)
            self.pull()
        return self.found_tokens / self.asked_tokens

    def ask(self, agent: Agent) -> None:
        self.rig.submit(f"{agent.name}-{self.turns[agent.name]}", tenant=agent.person)
        for entry in self.rig.intake.entries():
            work = make_work(wire.decode(entry.message))
            work = msgspec.structs.replace(work, prompt_token_ids=tuple(agent.prompt))
            spec = wire.ModelSpec(name="demo", path="/", max_rows=self.num_rows)
            self.rig.intake.admit(entry, work, spec, is_routed=self.is_routed)

    def pull(self) -> None:
        """All are woken; who is first is chance. Until none takes any more."""
        has_taken = True
        while has_taken:
            has_taken = False
            for machine in self.rng.sample(self.machines, len(self.machines)):
                if self.is_routed and len(self.machines) > 1:
                    self.rig.scripts("reach", machine.name, "demo", 1 << 20)
                for delivery in machine.engine.pull({"demo": machine.num_free}):
                    assert isinstance(delivery, Delivery)
                    self.begin(machine, self.agents[delivery.work.request_id.split("-")[0]])
                    has_taken = True

    def begin(self, machine: Machine, agent: Agent) -> None:
        self.at[agent.name] = machine
        machine.num_free -= 1
        asked = self.query(agent)
        plan = machine.cache.plan_in_memory(asked)
        machine.cache.used(asked, plan, request_id=agent.name)
        self.num_taken += 1
        self.asked_tokens += asked.num_tokens
        self.found_tokens += plan.num_tokens
        left = asked.num_tokens - plan.num_tokens
        reads_from = max(self.now, machine.reads_until)
        machine.reads_until = reads_from + left / READ_TOKENS_PER_SECOND
        self.later(machine.reads_until - self.now, "read", agent)

    def read(self, agent: Agent) -> None:
        compute(self.at[agent.name].cache, self.query(agent))
        self.later(ANSWER_SECONDS * self.rng.uniform(0.5, 1.5), "end", agent)

    def end(self, agent: Agent) -> None:
        machine, name = self.at[agent.name], agent.name
        agent.prompt.extend(self.tokens(ANSWER_TOKENS))
        compute(machine.cache, self.query(agent))
        machine.cache.release(name)
        answer = make_delta(*range(ANSWER_TOKENS))
        finished = make_finished(completion_tokens=ANSWER_TOKENS)
        emit(machine.engine, f"{name}-{self.turns[name]}", answer, finished)
        machine.num_free += 1
        self.turns[name] += 1
        if self.turns[name] < NUM_TURNS:
            agent.prompt.extend(self.tokens(RESULT_TOKENS))
            self.later(self.rng.expovariate(1 / PAUSE_SECONDS), "ask", agent)

    def query(self, agent: Agent) -> Query:
        owner = owner_name(OwnerKind.PERSON, agent.person)
        return query(agent.prompt, owners=[owner], model="demo")

    def later(self, seconds: float, what: str, agent: Agent) -> None:
        heapq.heappush(self.moments, (self.now + seconds, next(self.numbers), what, agent))

    def tokens(self, count: int) -> list[int]:
        return [self.rng.randrange(1, 1 << 30) for _ in range(count)]


def test_two_engines_find_what_one_would(rig: Rig) -> None:
    alone = Team(rig, "one").run()
    by_chance = Team(rig, "one", "two", is_routed=False).run()
    routed = Team(rig, "one", "two")
    found = routed.run()
    assert found >= 0.95 * alone
    assert found > by_chance + 0.05
    assert routed.num_taken == NUM_PEOPLE * AGENTS_EACH * NUM_TURNS


def test_where_rows_are_few_and_many_wait_they_find_it_as_well(rig: Rig) -> None:
    alone = Team(rig, "one", num_rows=4).run()
    assert Team(rig, "one", "two", num_rows=2).run() >= 0.93 * alone


def test_both_engines_work(rig: Rig) -> None:
    team = Team(rig, "one", "two")
    taken: dict[str, int] = dict.fromkeys(("one", "two"), 0)
    begin = team.begin

    def count(machine: Machine, agent: Agent) -> None:
        taken[machine.name] += 1
        begin(machine, agent)

    team.begin = count  # type: ignore[method-assign]
    team.run()
    assert min(taken.values()) > 0.3 * sum(taken.values())
