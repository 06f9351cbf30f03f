"""An engine's connection to everybody else: threads that keep Redis's pace off the model thread.

    model thread  -- publish, want -->  exchange thread  -- emit, pull, renew -->  Redis
                  <-- receive --        listen thread    <-- control, forget, work --
                                        side thread      -- heartbeat, expired leases -->

Redis may be away for any time: the exchange keeps every event of a live request and catches up.
It does not know rows, tokens or models.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Mapping, Sequence

from engine import wire
from engine.core.guests import NO_INVITATIONS, Invitation
from engine.core.lives import UNKNOWN_LIVES, Lives
from engine.transport.bundle import Haste, Published
from engine.transport.choice import Weigh
from engine.transport.connection import Outage, RedisAway, connect
from engine.transport.exchange import LEASE_SECONDS, Exchange
from engine.transport.heartbeat import Heartbeat
from engine.transport.inbox import Inbox, Received
from engine.transport.listener import BLOCK_MS, Listener
from engine.transport.outbox import Outbox

RENEW_SECONDS = LEASE_SECONDS / 4
POLL_SECONDS = 0.5  # should a wake-up be lost
RETRY_SECONDS = 0.25
CLOSE_SECONDS = 3.0
YIELD_SECONDS = 20e-6
MOST_STILL_BEATS = 30  # the exchange turns twice a second, or as often as Redis fails to answer
logger = logging.getLogger(__name__)


class ExchangeStuck(Exception):
    """Its thread hangs: nothing that the engine computes goes out, and its leases are lost."""


class Transport:
    """All methods may be called from the model thread; only `close` waits for Redis, a while."""

    def __init__(
        self,
        *,
        redis_url: str,
        engine_name: str,
        status: Callable[[], wire.EngineStatus],
        is_clearing: Callable[[], bool],
        weigh: Weigh,
        lives: Lives = UNKNOWN_LIVES,
    ) -> None:
        """`is_clearing`: whether something that was ordered to go is not gone. `weigh`: how much of
        a waiting prompt is in memory. Both are asked in other threads, like `status`."""
        self._inbox = Inbox()
        self._outbox = Outbox()
        self._wake = threading.Event()
        self._is_urgent = threading.Event()
        self._closing = threading.Event()
        self._is_doubtful = threading.Event()
        self._may_find_work = threading.Event()
        self._next_renewal = 0.0
        self._next_poll = 0.0
        self._has_turned = True  # the exchange, since the last heartbeat
        self._num_still_beats = 0
        self._exchange = Exchange(
            connect(redis_url), engine_name=engine_name, lives=lives, weigh=weigh
        )
        listener = Listener(
            connect(redis_url, block_ms=BLOCK_MS),
            engine_name=engine_name,
            inbox=self._inbox,
            on_work=self._look_for_work,
            is_clearing=is_clearing,
            closing=self._closing,
        )
        heartbeat = Heartbeat(
            redis_url,
            engine_name=engine_name,
            status=status,
            on_doubt=self._doubt,
            on_beat=self._watch_exchange,
            closing=self._closing,
        )
        self._threads = [
            threading.Thread(target=self._run, args=(run,), name=f"transport-{name}", daemon=True)
            for name, run in (
                ("exchange", self._run_exchange),
                ("listen", listener.run),
                ("side", heartbeat.run),
            )
        ]

    def start(self) -> None:
        for thread in self._threads:
            thread.start()

    def close(self) -> None:
        """Store what was published; give the leases back so that requests go on elsewhere."""
        self._closing.set()
        self._wake_urgently()
        deadline = time.monotonic() + CLOSE_SECONDS
        for thread in self._threads:
            thread.join(timeout=max(0.0, deadline - time.monotonic()))

    def receive(self, wait_seconds: float) -> list[Received]:
        """What arrived, at once or within `wait_seconds`. The first message is the Configure.

        Raises TransportDied.
        """
        received = self._inbox.take(wait_seconds)
        self._outbox.note_taken(received)
        return received

    def want(
        self, rows: Mapping[str, int], invitations: Mapping[str, Invitation] = NO_INVITATIONS
    ) -> None:
        """How many more requests of each model the engine would take beyond all it has received,
        and whom besides where that is none."""
        if self._inbox.want(rows, invitations):
            self._look_for_work()

    def publish(self, events: Sequence[Published]) -> None:
        """Send (request_id, event) pairs in this order; all rows' events of a step in one call.

        A first token goes before anything else: the exchange thread needs the interpreter to send
        it, and would get it only when the model thread next waits for something.
        """
        if not events:
            return
        haste = self._outbox.put(events)
        if haste:
            self._wake_urgently()
        elif not self._wake.is_set():
            self._wake.set()
        if haste is Haste.FIRST:
            time.sleep(YIELD_SECONDS)

    def _look_for_work(self) -> None:
        self._may_find_work.set()
        self._wake_urgently()

    def _doubt(self) -> None:
        self._is_doubtful.set()
        self._wake_urgently()

    def _wake_urgently(self) -> None:
        self._is_urgent.set()
        self._wake.set()

    def _run(self, thread: Callable[[], None]) -> None:
        try:
            thread()
        except Exception as error:
            logger.exception("a transport thread died")
            self._inbox.fail(error)

    def _run_exchange(self) -> None:
        """The exchange thread. It ends when the engine closes."""
        turn, outage = self._open, Outage()
        while not self._closing.is_set():
            self._has_turned = True
            try:
                turn()
                turn = self._turn
                outage.end()
            except RedisAway as error:
                outage.note(error)
                self._is_doubtful.set()
                self._closing.wait(RETRY_SECONDS)
        self._hand_over()

    def _watch_exchange(self) -> None:
        """In the side thread: who only beats would be taken for a living engine for ever."""
        self._num_still_beats = 0 if self._has_turned else self._num_still_beats + 1
        self._has_turned = False
        if self._num_still_beats > MOST_STILL_BEATS:
            raise ExchangeStuck

    def _open(self) -> None:
        self._exchange.release_former_life()
        self._is_doubtful.clear()

    def _turn(self) -> None:
        self._wake.wait(timeout=self._seconds_to_wait())
        self._is_urgent.wait(timeout=self._outbox.seconds_until_all)
        self._is_urgent.clear()
        self._wake.clear()
        self._send(self._outbox.take())
        if self._is_doubtful.is_set():
            self._is_doubtful.clear()
            self._check_all()
        if time.monotonic() >= self._next_renewal:
            self._inbox.put(self._exchange.renew())
            self._next_renewal = time.monotonic() + RENEW_SECONDS
        self._pull()

    def _seconds_to_wait(self) -> float:
        due_at = min(self._next_renewal, self._next_poll)
        return min(max(0.0, due_at - time.monotonic()), self._outbox.seconds_left)

    def _check_all(self) -> None:
        try:
            self._inbox.put(self._exchange.verify())
        except RedisAway:
            self._is_doubtful.set()
            raise

    def _send(self, events: Sequence[Published]) -> None:
        self._exchange.add(events)
        self._inbox.put(self._exchange.send())

    def _pull(self) -> None:
        if not self._may_find_work.is_set() and time.monotonic() < self._next_poll:
            return
        self._may_find_work.clear()
        self._next_poll = time.monotonic() + POLL_SECONDS
        deliveries = self._exchange.pull(*self._inbox.wanted())
        if (seconds := self._exchange.look_again_seconds) is not None:
            self._next_poll = min(self._next_poll, time.monotonic() + seconds)
        self._outbox.expect(deliveries)
        self._inbox.put(deliveries)

    def _hand_over(self) -> None:
        try:
            self._send(self._outbox.take_all())
            self._exchange.give_back()
        except RedisAway as error:
            logger.warning("Redis is away at the end, leases will expire: %s", error)
