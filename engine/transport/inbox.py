"""What the model thread receives and what it wants, handed over between threads.

It does not know Redis.
"""

from __future__ import annotations

import collections
import threading
from collections.abc import Iterable, Iterator, Mapping

from engine import wire
from engine.core.delivery import AnyDelivery, Dropped
from engine.core.guests import NO_INVITATIONS, Invitation

Received = AnyDelivery | Dropped | wire.Notice


class TransportDied(Exception):
    """A thread of the transport ended by an error; the engine cannot go on without it."""


class Inbox:
    """Any thread puts, the model thread takes. Nothing is handed out before the first Configure."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._messages: list[Received] = []
        self._is_obeying = False
        self._is_configured = False
        self._error: Exception | None = None
        self._wanted: dict[str, int] = {}
        self._invitations: Mapping[str, Invitation] = NO_INVITATIONS

    def put(self, messages: Iterable[Received]) -> None:
        with self._changed:
            self._messages.extend(messages)
            self._changed.notify()

    def configure(self, configure: wire.Configure) -> None:
        with self._changed:
            place = len(self._messages) if self._is_configured else 0
            self._messages.insert(place, configure)
            self._is_configured = True
            self._changed.notify()

    def fail(self, error: Exception) -> None:
        with self._changed:
            self._error = error
            self._changed.notify()

    @property
    def has_orders(self) -> bool:
        """Some that were not taken, or not obeyed: who takes has obeyed what was taken before."""
        with self._changed:
            return self._is_obeying or any(map(_is_order, self._messages))

    def take(self, wait_seconds: float) -> list[Received]:
        """Raises TransportDied."""
        with self._changed:
            self._is_obeying = False
            self._changed.wait_for(self._has_any, timeout=wait_seconds)
            if self._error is not None:
                raise TransportDied from self._error
            if not self._has_any():
                return []
            taken, self._messages = self._messages, []
            self._is_obeying = any(map(_is_order, taken))
            for model, n in _num_deliveries(taken).items():
                self._wanted[model] = self._wanted.get(model, 0) - n
            self._invitations = _for_others(self._invitations, taken)
            return taken

    def want(self, rows: Mapping[str, int], invitations: Mapping[str, Invitation]) -> bool:
        """Replace what is wanted beyond all that was taken. True when it may be found only now."""
        with self._changed:
            former, self._wanted = self._wanted, dict(rows)
            invited, self._invitations = self._invitations, invitations
            has_more = any(n > former.get(model, 0) for model, n in rows.items())
            return has_more or any(one != invited.get(model) for model, one in invitations.items())

    def wanted(self) -> tuple[dict[str, int], dict[str, Invitation]]:
        """How many deliveries of each model may still be put, and who may come beyond them when
        these are there."""
        with self._changed:
            pending = _num_deliveries(self._messages)
            room = {model: n - pending[model] for model, n in self._wanted.items()}
            invited = {m: one for m, one in self._invitations.items() if room.get(m) == 0}
            wanted = {model: n for model, n in room.items() if n > 0}
            return wanted, _for_others(invited, self._messages)

    def _has_any(self) -> bool:
        return self._error is not None or (self._is_configured and bool(self._messages))


def _is_order(message: Received) -> bool:
    return isinstance(message, wire.Notice)


def _num_deliveries(messages: Iterable[Received]) -> collections.Counter[str]:
    return collections.Counter(work.model for work in _works(messages))


def _for_others(
    invitations: Mapping[str, Invitation], messages: Iterable[Received]
) -> dict[str, Invitation]:
    """Than those whose requests are among the messages: they are no guests besides."""
    works = list(_works(messages))
    return {
        model: one.without(work.tenant for work in works if work.model == model)
        for model, one in invitations.items()
    }


def _works(messages: Iterable[Received]) -> Iterator[wire.Work | wire.VectorWork]:
    return (message.work for message in messages if isinstance(message, AnyDelivery))
