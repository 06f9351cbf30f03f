"""An engine's dealings with the fair queue: pull, emit, renew, restore, give back.

Owned by one thread. Whatever fails may be called again: Redis keeps what it has and says what it
lacks. It does not know threads or the engine's rows.
"""

from __future__ import annotations

import itertools
import logging
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence

from engine import wire
from engine.core.delivery import AnyDelivery, Dropped
from engine.core.guests import NO_INVITATIONS, Invitation
from engine.core.lives import UNKNOWN_LIVES, Lives
from engine.transport.choice import Choice, Weigh
from engine.transport.connection import Connection, Scripts
from engine.transport.held import Held, delivery_from, held_from

LEASE_SECONDS = 10.0
# Redis may lose about the last two seconds when it is killed (appendfsync everysec).
REMEMBER_ENDED_SECONDS = 10.0
MAX_EVENTS_PER_CALL = 1000

_FORGOTTEN, _VOID, _CANCELLED = -1, -2, 1
_GIVEN_BACK = 1
_LEASE_MS = int(LEASE_SECONDS * 1000)
_FINISHED_CANCELLED = wire.encode(wire.CANCELLED_UNBEGUN)
_FAILED_POISON = wire.encode(
    wire.Failed(
        code=wire.Code.POISON, detail="The engine died twice while working on this request."
    )
)
FAILED_DEADLINE = wire.encode(
    wire.Failed(code=wire.Code.DEADLINE_EXCEEDED, detail="The request waited beyond its deadline.")
)
logger = logging.getLogger(__name__)


class Exchange:
    """All requests that this engine has leased, and the calls that keep Redis up to date."""

    def __init__(
        self,
        connection: Connection,
        *,
        engine_name: str,
        lives: Lives = UNKNOWN_LIVES,
        weigh: Weigh | None = None,
    ) -> None:
        """`weigh`: None: what waits is taken in the queue's order."""
        self._scripts = Scripts(connection)
        self._choice = Choice(self._scripts, weigh) if weigh else None
        self._engine_name = engine_name
        self._lives = lives
        self._held: dict[str, Held] = {}
        self._behind: dict[str, Held] = {}  # of those the ones of which Redis lacks events
        self._dropped: list[Dropped] = []  # not told yet: Redis may go away behind them
        self.look_again_seconds: float | None = None  # at what was left to other engines

    def release_former_life(self) -> None:
        """What an engine of this name held when it died goes back to the queue: as a crash, but for
        what it was not at work on, as far as that is known."""
        lives = self._lives
        self._release("died", lives.own, lives.former, int(lives.was_loading), *lives.at_work)

    def release_expired(self) -> None:
        """What other engines stopped renewing goes back to the queue."""
        self._release("expired")

    def pull(
        self, rows: Mapping[str, int], invitations: Mapping[str, Invitation] = NO_INVITATIONS
    ) -> list[AnyDelivery]:
        """Up to rows[model] requests of each model, and one more of whom an invitation is for."""
        wanted = {model: n for model, n in rows.items() if n > 0}
        guests = [part for pair in invitations.items() for part in _guest_arguments(*pair)]
        if not wanted and not guests:
            return []
        preferred = self._choice.preferred(wanted) if self._choice else []
        num_held = sum(not held.is_ended for held in self._held.values())
        known = (self._engine_name, _LEASE_MS, num_held, FAILED_DEADLINE)
        parts = [len(wanted), len(preferred), *(part for pair in wanted.items() for part in pair)]
        pulled, with_long, look_again_ms = self._scripts(
            "pull", *known, *parts, *preferred, *guests
        )
        self.look_again_seconds = look_again_ms / 1000 or None
        if self._choice:
            self._choice.note_waiting(with_long, among=wanted)
        deliveries = []
        for request_id, values, history in pulled:
            held = held_from(request_id, _pairs(values), history)
            self._held[request_id] = held
            self._behind.pop(request_id, None)
            deliveries.append(delivery_from(held))
        return deliveries

    def add(self, events: Iterable[tuple[str, wire.Event]]) -> None:
        """Stamp events and keep them for `send`. Those of a request no longer held are void."""
        for request_id, event in events:
            held = self._held.get(request_id)
            if held is not None and not held.is_ended:
                held.add(event)
                self._behind[request_id] = held

    def send(self) -> list[Dropped]:
        """Store all that is not yet in Redis. Returns the requests that are no longer ours."""
        while self._behind:
            self._emit([*self._behind.values()])
        return self._take_dropped()

    def verify(self) -> list[Dropped]:
        """After doubt about what Redis kept: say all again, return what was lost on the way."""
        self._emit(list(self._held.values()))
        self._release("unheld", *self._held)
        return self.send()

    def renew(self) -> list[Dropped | wire.Cancel]:
        """Keep the leases. Tells of lost ones, and again of cancelled ones."""
        self._forget_long_ended()
        live = [held for held in self._held.values() if not held.is_ended]
        if not live:
            return []
        claims = [part for held in live for part in (held.request_id, held.fence)]
        cancelled = []
        for held, reply in zip(live, self._scripts("renew", _LEASE_MS, *claims), strict=True):
            if reply == _CANCELLED:
                cancelled.append(wire.Cancel(request_id=held.request_id))
            elif reply < 0:
                self._settle(held, reply)
        return [*cancelled, *self._take_dropped()]

    def give_back(self) -> None:
        """All leases return to the queue, no crash counted."""
        self._held.clear()
        self._behind.clear()
        self._release("unheld")

    def _emit(self, rows: Sequence[Held]) -> None:
        for batch in _batches([held for held in rows if not self._is_declined(held)]):
            arguments = [part for held, last in batch for part in _row_arguments(held, last)]
            replies = self._scripts("emit", *arguments)
            for (held, _), reply in zip(batch, replies, strict=True):
                self._settle(held, reply)

    def _is_declined(self, held: Held) -> bool:
        """Whether another engine can serve it, which nobody asks twice; then it waits for that."""
        if not held.may_be_declined:
            return False
        reply = self._scripts("decline", self._engine_name, held.request_id, held.fence)
        held.may_be_declined = False
        if reply == _GIVEN_BACK:
            self._behind.pop(held.request_id, None)
            del self._held[held.request_id]
        return bool(reply == _GIVEN_BACK)

    def _settle(self, held: Held, reply: int) -> None:
        if reply == _FORGOTTEN:
            reply = self._restore(held)
        if reply == _VOID:
            del self._held[held.request_id]
            self._behind.pop(held.request_id, None)
            if not held.is_ended:
                self._dropped.append(Dropped(request_id=held.request_id))
            return
        held.stored = min(reply, len(held.events))
        if held.is_behind:
            self._behind[held.request_id] = held
            return
        self._behind.pop(held.request_id, None)
        if held.is_ended:
            held.ended_at = held.ended_at or time.monotonic()

    def _take_dropped(self) -> list[Dropped]:
        dropped, self._dropped = self._dropped, []
        return dropped

    def _restore(self, held: Held) -> int:
        logger.warning("Redis forgot a running request", extra={"request_id": held.request_id})
        values = [
            *(part for pair in held.values.items() for part in pair),
            *("tokens", str(held.tokens)),
        ]
        reply: int = self._scripts(
            "restore",
            self._engine_name,
            _LEASE_MS,
            held.request_id,
            held.fence,
            int(held.is_ended),
            len(values),
            *values,
            *held.events,
        )
        return reply

    def _release(self, why: str, *known: str | int) -> None:
        released = self._scripts(
            "release", why, self._engine_name, _FINISHED_CANCELLED, _FAILED_POISON, *known
        )
        for request_id in released:
            logger.warning("a lease was released", extra={"request_id": request_id, "why": why})

    def _forget_long_ended(self) -> None:
        oldest = time.monotonic() - REMEMBER_ENDED_SECONDS
        for held in list(self._held.values()):
            if held.ended_at is not None and held.ended_at < oldest:
                del self._held[held.request_id]


def _pairs(flat: Sequence[str]) -> dict[str, str]:
    return dict(zip(flat[::2], flat[1::2], strict=True))


def _guest_arguments(model: str, invitation: Invitation) -> Iterator[str | int]:
    tenants = invitation.without_tenants
    yield from (model, invitation.lowest_class.value, len(tenants), *tenants)


def _row_arguments(held: Held, last: int) -> Iterator[str | float]:
    """`last`: the seq after the last event that this call stores."""
    ends = held.is_ended and last == len(held.events)
    yield from (held.request_id, held.fence, held.stored, held.tokens)
    yield held.prompt_cost if ends else -1
    yield last - held.stored
    yield from itertools.islice(held.events, held.stored, last)


def _batches(rows: Sequence[Held]) -> Iterator[list[tuple[Held, int]]]:
    """Rows with the end of what one call stores of them; calls stay short for Redis's sake."""
    batch: list[tuple[Held, int]] = []
    room = MAX_EVENTS_PER_CALL
    for held in rows:
        last = min(len(held.events), held.stored + MAX_EVENTS_PER_CALL)
        if batch and last - held.stored > room:
            yield batch
            batch, room = [], MAX_EVENTS_PER_CALL
        batch.append((held, last))
        room -= last - held.stored
    if batch:
        yield batch
