"""Commands to intake and engines, and a look at their state. Sync; each call is one round trip.

Every method raises EngineUnavailable when Redis does not answer.
"""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Sequence
from typing import Any

from engine import wire
from hosting.engine_client.connection import connect, speaking_to_redis

MAX_INTAKE_BACKLOG = 5000
# Intake asks for work every second, and may take some seconds over one request.
MAX_INTAKE_IDLE_MS = 5000
MOST_ENDED = 5000  # of those that an absent ledger leaves

_REFUSED_BACKLOG = wire.encode(
    wire.Refused(
        code=wire.Code.QUEUE_FULL,
        detail="Too many requests wait to be checked.",
        numbers={"limit": MAX_INTAKE_BACKLOG},
    )
)
_FINISHED_CANCELLED = wire.encode(wire.CANCELLED_UNBEGUN)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class WaitingRequest:
    """A request in the fair queue. `position` 1 is next."""

    request_id: str
    model: str
    tenant: str
    position: int
    waiting_seconds: float


class EngineClient:
    """May be used from any thread."""

    def __init__(self, redis_url: str) -> None:
        self._redis = connect(redis_url)
        self._engine_keys: list[str] = []
        self._engine_seen_at = time.monotonic()
        self._scripts = {
            name: self._redis.register_script(wire.script_text(name))
            for name in ("submit", "cancel", "waiting", "forget")
        }

    def submit(
        self,
        command: wire.Generate | wire.Embed | wire.Rerank,
        *,
        line: str | None = None,
        is_again: bool = False,
    ) -> None:
        """Hand a request to intake. Does nothing when Redis already knows its id. `line`: the
        command encoded, where it is at hand. `is_again`: it was handed over before and got lost;
        full queues let it in."""
        self._submit(command, line or wire.encode(command), is_again=is_again)

    def count_tokens(self, generate: wire.Generate) -> None:
        """Ask intake for the length of this prompt; `generate` itself is never answered."""
        self._submit(generate, wire.encode(wire.CountTokens(generate=generate)))

    def wait_first(self, request_id: str, *, seconds: float) -> wire.Event | None:
        """The first event of a request, if it comes in time."""
        streams = {wire.Keys.events(request_id): "0-0"}
        with speaking_to_redis():
            answer = self._redis.xread(streams, count=1, block=round(seconds * 1000))
        if not answer:
            return None
        ((_, ((_, fields),)),) = answer
        event: wire.Event = wire.decode(fields["e"])
        return event

    def cancel(self, request_id: str) -> None:
        """End a request: at once if it waits, before the next step if it runs."""
        command = wire.encode(wire.Cancel(request_id=request_id))
        self._run("cancel", request_id, _FINISHED_CANCELLED, command)

    def publish_models(
        self, specs: tuple[wire.ModelSpec, ...], *, memory_limits: dict[str, int] | None = None
    ) -> None:
        """Replace what intake and engines may serve, and how much memory which engine may use."""
        configure = wire.Configure(models=specs, memory_limits=memory_limits or {})
        with speaking_to_redis():
            self._redis.set(wire.Keys.MODELS, wire.encode(configure))
        self._tell_engines(configure)

    def published_models(self) -> wire.Configure | None:
        """None where Redis has lost them, or has another version's."""
        with speaking_to_redis():
            line = self._redis.get(wire.Keys.MODELS)
        try:
            return wire.decode(line) if line is not None else None
        except wire.WireError:
            return None

    def load_model(self, name: str) -> None:
        self._tell_engines(wire.LoadModel(name=name))

    def unload_model(self, name: str) -> None:
        self._tell_engines(wire.UnloadModel(name=name))

    def clear_cache(self, model: str, tier: wire.CacheTier | None = None) -> None:
        """Engines forget what they keep of this model's prompts, in one tier or in both."""
        self._forget(wire.ClearCache(model=model, tier=tier))

    def forget_tenant(self, tenant: str) -> None:
        """Engines delete what they keep of this tenant alone."""
        self._forget(wire.ForgetTenant(tenant=tenant))

    def forget_events(self, request_ids: list[str]) -> None:
        """Delete what was said in these requests, ended or not, before it expires."""
        keys = [wire.Keys.events(request_id) for request_id in request_ids]
        with speaking_to_redis():
            for start in range(0, len(keys), 1000):
                self._redis.unlink(*keys[start : start + 1000])

    def unpublish(self, publication: str) -> None:
        """Engines delete what they keep for this published prompt alone."""
        self._forget(wire.Unpublish(publication=publication))

    def engines(self) -> list[wire.EngineStatus]:
        """The last heartbeat of every engine that is alive."""
        with speaking_to_redis():
            names = sorted(self._redis.smembers(wire.Keys.ENGINES))
            beats = self._redis.mget([wire.Keys.engine(name) for name in names]) if names else []
        return [wire.decode(beat) for beat in beats if beat is not None]

    def has_engine(self) -> bool:
        """Whether any engine is alive; as a rule in one short round trip."""
        with speaking_to_redis():
            is_alive = self._are_beating() or self._are_beating(names_anew=True)
        if is_alive:
            self._engine_seen_at = time.monotonic()
        return is_alive

    @property
    def seconds_without_engine(self) -> float:
        """Since `has_engine` was true last, or since this client was made."""
        return time.monotonic() - self._engine_seen_at

    def waiting(self) -> list[WaitingRequest]:
        """What waits in fair queues, in order of service; of each model the first 200."""
        return [
            WaitingRequest(
                request_id=request_id,
                model=model,
                tenant=tenant,
                position=position,
                waiting_seconds=waited_ms / 1000,
            )
            for request_id, model, tenant, position, waited_ms in self._run("waiting")
        ]

    def has_request(self, request_id: str) -> bool:
        """Whether Redis knows it: waiting, running, or ended within the last ten minutes."""
        with speaking_to_redis():
            return bool(self._redis.exists(wire.Keys.request(request_id)))

    def read_events(self, request_id: str, after: int = -1) -> list[tuple[int, wire.Event]]:
        """The events with a seq above `after` that are there now."""
        with speaking_to_redis():
            entries = self._redis.xrange(wire.Keys.events(request_id), min=wire.entry_id(after + 1))
        return [(wire.entry_seq(entry), wire.decode(fields["e"])) for entry, fields in entries]

    def read_histories(self, request_ids: Sequence[str]) -> dict[str, list[wire.Event]]:
        """All events of each request that are there now, in one round trip."""
        with speaking_to_redis(), self._redis.pipeline(transaction=False) as pipeline:
            for request_id in request_ids:
                pipeline.xrange(wire.Keys.events(request_id))
            histories = pipeline.execute()
        return {
            request_id: [wire.decode(fields["e"]) for _, fields in entries]
            for request_id, entries in zip(request_ids, histories, strict=True)
        }

    def ended_requests(self) -> list[str]:
        """Ids of requests whose end no ledger has acknowledged yet, the latest first."""
        with speaking_to_redis():
            entries = self._redis.xrevrange(wire.Keys.TERMINAL, count=MOST_ENDED)
        return [fields["id"] for _, fields in entries]

    def is_intake_alive(self) -> bool:
        """Whether an intake has asked for work within the last seconds."""
        with speaking_to_redis():
            if not self._redis.exists(wire.Keys.INTAKE):
                return False
            if not self._redis.xinfo_groups(wire.Keys.INTAKE):
                return False
            intakes = self._redis.xinfo_consumers(wire.Keys.INTAKE, wire.Keys.INTAKE_GROUP)
        return any(one["idle"] <= MAX_INTAKE_IDLE_MS for one in intakes)

    def ping(self) -> None:
        with speaking_to_redis():
            self._redis.ping()

    def eviction_policy(self) -> str:
        """What Redis does with what it keeps when its memory is full: noeviction, or deletes it."""
        with speaking_to_redis():
            policy: str = self._redis.info("memory")["maxmemory_policy"]
        return policy

    def check_writable(self) -> None:
        """Raises EngineUnavailable also where Redis reads and does not write, on a full disk."""
        with speaking_to_redis():
            self._redis.set("hearth:writable", 1, px=1)

    def _are_beating(self, *, names_anew: bool = False) -> bool:
        if names_anew:
            names = self._redis.smembers(wire.Keys.ENGINES)
            self._engine_keys = [wire.Keys.engine(name) for name in names]
        return bool(self._engine_keys and self._redis.exists(*self._engine_keys))

    def _submit(
        self,
        about: wire.Generate | wire.Embed | wire.Rerank,
        message: str,
        *,
        is_again: bool = False,
    ) -> None:
        self._run(
            "submit",
            about.request_id,
            about.model,
            about.tenant,
            about.priority,
            about.weight,
            message,
            _REFUSED_BACKLOG,
            MAX_INTAKE_BACKLOG,
            int(is_again),
        )

    def _run(self, script: str, *arguments: str | float) -> Any:
        with speaking_to_redis():
            return self._scripts[script](args=arguments)

    def _forget(self, command: wire.ForgetTenant | wire.ClearCache | wire.Unpublish) -> None:
        self._run("forget", wire.encode(command))

    def _tell_engines(self, command: wire.Command) -> None:
        with speaking_to_redis():
            self._redis.xadd(
                wire.Keys.CONTROL, {"m": wire.encode(command)}, maxlen=1000, approximate=True
            )
