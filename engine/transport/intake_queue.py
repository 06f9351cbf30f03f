"""Intake's side of Redis: requests to check, and where its two answers go.

It does not know what makes a request good.
"""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Collection, Iterator, Sequence

import redis

from engine import wire
from engine.transport.connection import Scripts, connect
from engine.transport.exchange import FAILED_DEADLINE
from engine.transport.prefix_names import prefixes_of

BLOCK_MS = 1000
# Longer than checking one request may take; then its intake is dead.
RECLAIM_IDLE_MS = 30_000
RECLAIM_SECONDS = 5.0
PLACES_MS = 900
_FAILED_MODEL = wire.encode(
    wire.Failed(
        code=wire.Code.MODEL_NOT_FOUND, detail="The request's model is not served any more."
    )
)
RawEntry = tuple[str, dict[str, str]]
_LONG_PROMPT_TOKENS = 1024  # from here on an engine may prefer one that it has in memory
_TYPICAL_OUTPUT_TOKENS = 256  # what an answer is charged in advance, corrected at its end


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """One request as it was submitted.

    `num_tries` counts this one, and another where it was read before: by an intake that died with
    it or with one that came together with it.
    """

    entry_id: str
    request_id: str
    message: str
    num_tries: int


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Admission:
    """`outcome` is admitted, gone (cancelled meanwhile), queue_full or tenant_queue_full.

    `room_seconds`: when there may be room again; 0 while the queue's pace is not known.
    """

    outcome: str
    num_waiting: int
    room_seconds: float


class IntakeQueue:
    """Used by one thread. Raises RedisError when Redis is away; then begin `entries` anew."""

    def __init__(self, redis_url: str, *, name: str) -> None:
        self._redis = connect(redis_url, block_ms=BLOCK_MS)
        self._scripts = Scripts(self._redis)
        self._name = name
        self._next_reclaim = 0.0
        self._heard: str | None = None
        self.models_line: str | None = None  # the encoded Configure in force at the last read
        # Unanswered, in a former life or before an outage
        self._may_have_left_some = True

    def entries(self, *, held: Collection[str] = (), wait_ms: int = BLOCK_MS) -> Iterator[Entry]:
        """What this intake died with, what other dead intakes hold, then what is new.

        `held`: ids of entries that are still being answered. Ends when nothing came in time. What
        is not read to its end is begun anew by the next call.
        """
        if self._may_have_left_some:
            yield from self._left(held)
        self._may_have_left_some = True
        if time.monotonic() >= self._next_reclaim:
            self._next_reclaim = time.monotonic() + RECLAIM_SECONDS
            yield from self._reclaim(held)
        new = self._read(">", wait_ms=wait_ms)
        for entry_id, fields in new:
            yield _entry(entry_id, fields, num_tries=1)
        # A read that nothing came of is no sign of life to Redis 6.2; looking back is one.
        self._may_have_left_some = not new

    def is_anything_to_be_forgotten(self) -> bool:
        """Whether engines were told to forget something since the last call."""
        last = self._redis.xrevrange(wire.Keys.FORGET, count=1)
        former, self._heard = self._heard, last[0][0] if last else "0-0"
        return former not in (None, self._heard)

    def beats(self) -> list[wire.EngineStatus]:
        """The last heartbeat of every engine that is alive."""
        names = sorted(self._redis.smembers(wire.Keys.ENGINES))
        lines = self._redis.mget([wire.Keys.engine(name) for name in names]) if names else []
        return [wire.decode(line) for line in lines if line is not None]

    def admit(
        self,
        entry: Entry,
        work: wire.Work | wire.VectorWork,
        spec: wire.ModelSpec,
        *,
        is_routed: bool = False,
    ) -> Admission:
        """`is_routed`: several engines serve it, one of which may know its prefix."""
        prompt_tokens, max_tokens = _sizes(work)
        is_long = prompt_tokens >= _LONG_PROMPT_TOKENS
        long = work if is_long and isinstance(work, wire.Work) else None
        prefixes = prefixes_of(long) if long is not None and is_routed else None
        outcome, num_waiting, room_ms = self._scripts(
            "admit",
            entry.request_id,
            entry.entry_id,
            wire.encode(work),
            wire.encode(wire.Accepted(prompt_tokens=prompt_tokens, max_tokens=max_tokens)),
            prompt_tokens,
            prompt_tokens + min(max_tokens, _TYPICAL_OUTPUT_TOKENS),
            int(work.deadline_at * 1000) if work.deadline_at else 0,
            spec.max_queue,
            spec.max_queue_per_tenant,
            wire.look_ahead(spec.max_rows),
            int(long is not None),
            _least_tokens(work),
            *(prefixes.arguments if prefixes else ()),
        )
        return Admission(outcome=outcome, num_waiting=num_waiting, room_seconds=room_ms / 1000)

    def conclude(self, entry: Entry, event: wire.Refused | wire.Counted) -> None:
        """End a request here: no engine hears of it."""
        self._scripts("conclude", entry.request_id, entry.entry_id, wire.encode(event))

    def refresh_places(self) -> None:
        """Tell waiting requests their place; end those past their deadline, and those whose model
        is not served any more. Cheap to call often."""
        self._scripts("places", FAILED_DEADLINE, _FAILED_MODEL, PLACES_MS)

    def _left(self, held: Collection[str]) -> Iterator[Entry]:
        after = "0"
        while entries := self._read(after):
            yield from self._tries_again(entries, held)
            after = entries[-1][0]

    def _read(self, after: str, *, wait_ms: int | None = None) -> list[RawEntry]:
        """With the models as they are when the read ends, in one round trip."""
        with self._redis.pipeline(transaction=False) as pipeline:
            pipeline.xreadgroup(
                wire.Keys.INTAKE_GROUP,
                self._name,
                {wire.Keys.INTAKE: after},
                count=16,
                block=wait_ms,
            )
            pipeline.get(wire.Keys.MODELS)
            answer, line = pipeline.execute(raise_on_error=False)
        if isinstance(answer, redis.ResponseError) and str(answer).startswith("NOGROUP"):
            self._make_group()
            return []
        for one in (answer, line):
            if isinstance(one, redis.ResponseError):
                raise one
        self.models_line = line
        return [entry for _, entries in answer or () for entry in entries]

    def _make_group(self) -> None:
        self._redis.xgroup_create(wire.Keys.INTAKE, wire.Keys.INTAKE_GROUP, id="0", mkstream=True)

    def _reclaim(self, held: Collection[str]) -> Iterator[Entry]:
        answer = self._redis.xautoclaim(
            wire.Keys.INTAKE, wire.Keys.INTAKE_GROUP, self._name, RECLAIM_IDLE_MS, count=16
        )
        yield from self._tries_again(answer[1], held)

    def _tries_again(self, entries: Sequence[RawEntry], held: Collection[str]) -> Iterator[Entry]:
        for entry_id, fields in entries:
            # Redis 6.2 hands out pending entries that were deleted
            if fields and entry_id not in held:
                num_repeats = self._scripts("count_repeat", fields["id"])
                yield _entry(entry_id, fields, num_tries=1 + num_repeats)


def _entry(entry_id: str, fields: dict[str, str], *, num_tries: int) -> Entry:
    return Entry(
        entry_id=entry_id, request_id=fields["id"], message=fields["m"], num_tries=num_tries
    )


def _least_tokens(work: wire.Work | wire.VectorWork) -> int:
    """Of its longest row, as intake has checked that one fits."""
    if isinstance(work, wire.VectorWork):
        return max(map(len, work.inputs))
    return len(work.prompt_token_ids) + min(work.max_tokens, _TYPICAL_OUTPUT_TOKENS)


def _sizes(work: wire.Work | wire.VectorWork) -> tuple[int, int]:
    """Tokens of the prompts, and the most that an answer has."""
    if isinstance(work, wire.VectorWork):
        return work.num_tokens, 0
    return len(work.prompt_token_ids), work.max_tokens
