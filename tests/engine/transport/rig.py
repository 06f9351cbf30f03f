"""The real queue in a real Redis, driven by hand: submit, admit, engines, what clients read."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypedDict, Unpack

from engine import wire
from engine.core.lives import UNKNOWN_LIVES, Lives
from engine.transport.choice import Weigh
from engine.transport.connection import Scripts, connect
from engine.transport.exchange import Exchange
from engine.transport.intake_queue import IntakeQueue
from hosting.engine_client import EngineClient
from tests.makers import make_generate, make_work


class Caps(TypedDict, total=False):
    """What a model's registration may allow."""

    max_rows: int
    max_queue: int
    max_queue_per_tenant: int


class Rig:
    def __init__(self, url: str) -> None:
        self.url = url
        self.redis = connect(url)
        self.client = EngineClient(url)
        self.intake = IntakeQueue(url, name="intake-1")
        self.scripts = Scripts(self.redis)

    def engine(
        self,
        name: str = "engine-1",
        *,
        lives: Lives = UNKNOWN_LIVES,
        weigh: Weigh | None = None,
    ) -> Exchange:
        """A new life of an engine: what a former one of this name held is released."""
        engine = Exchange(connect(self.url), engine_name=name, lives=lives, weigh=weigh)
        engine.release_former_life()
        return engine

    def lose_leases(self, engine_name: str) -> None:
        """The engine lives, but was not heard of for too long."""
        self.engine(engine_name)

    def submit(self, *request_ids: str, **changes: object) -> None:
        for request_id in request_ids:
            self.client.submit(make_generate(request_id, **changes))

    def admit_all(self, *, num_prompt_tokens: int = 4, **caps: Unpack[Caps]) -> list[str]:
        """Admit what was submitted, as intake does. Returns the outcomes."""
        outcomes = []
        while self.redis.xlen(wire.Keys.INTAKE):
            for entry in self.intake.entries():
                generate = wire.decode(entry.message)
                work = make_work(generate, num_prompt_tokens=num_prompt_tokens)
                spec = wire.ModelSpec(name=generate.model, path="/", **caps)
                admission = self.intake.admit(entry, work, spec)
                outcomes.append(admission.outcome)
                if admission.outcome.endswith("full"):
                    code = wire.Code(admission.outcome)
                    self.intake.conclude(entry, wire.Refused(code=code, detail="full"))
        return outcomes

    def queue(self, *request_ids: str, num_prompt_tokens: int = 4, **changes: object) -> None:
        self.submit(*request_ids, **changes)
        self.admit_all(num_prompt_tokens=num_prompt_tokens)

    def refresh_places(self) -> None:
        """As intake does it, however short ago the last time was."""
        self.redis.delete("hearth:places")
        self.intake.refresh_places()

    def events(self, request_id: str) -> list[wire.Event]:
        """All events of a request; their seqs must count from 0 without a gap."""
        numbered = self.client.read_events(request_id)
        assert [seq for seq, _ in numbered] == list(range(len(numbered)))
        return [event for _, event in numbered]

    def ended(self) -> list[str]:
        return [fields["id"] for _, fields in self.redis.xrange(wire.Keys.TERMINAL)]


def pull_ids(engine: Exchange, n: int = 1, *, model: str = "demo") -> list[str]:
    return [delivery.work.request_id for delivery in engine.pull({model: n})]


def emit(engine: Exchange, request_id: str, *events: wire.Event) -> Sequence[object]:
    engine.add((request_id, event) for event in events)
    return engine.send()
