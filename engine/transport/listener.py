"""The listen thread: one blocking read for commands to engines and for news that work waits.

It does not know what commands do.
"""

from __future__ import annotations

import threading
from collections.abc import Callable

from engine import wire
from engine.transport.connection import Connection, Outage, RedisAway
from engine.transport.inbox import Inbox

BLOCK_MS = 500  # also how long closing may take
RETRY_SECONDS = 0.25


class Listener:
    """Runs in a thread of its own."""

    def __init__(
        self,
        connection: Connection,
        *,
        inbox: Inbox,
        on_work: Callable[[], None],
        closing: threading.Event,
    ) -> None:
        self._redis = connection
        self._inbox = inbox
        self._on_work = on_work
        self._closing = closing
        self._cursors: dict[str, str] = {}
        self._configure_line: str | None = None

    def run(self) -> None:
        outage = Outage()
        while not self._closing.is_set():
            try:
                self._turn()
                outage.end()
            except RedisAway as error:
                outage.note(error)
                self._closing.wait(RETRY_SECONDS)

    def _turn(self) -> None:
        if not self._cursors:
            # Cursors first: what is configured between the two is then read twice, not missed.
            self._cursors = {key: self._end_of(key) for key in (wire.Keys.CONTROL, wire.Keys.WORK)}
        self._read_configure()
        for key, entries in self._redis.xread(self._cursors, block=BLOCK_MS) or ():
            self._cursors[key] = entries[-1][0]
            if key == wire.Keys.WORK:
                self._on_work()
            else:
                self._take_commands([fields["m"] for _, fields in entries])

    def _end_of(self, key: str) -> str:
        last: list[tuple[str, object]] = self._redis.xrevrange(key, count=1)
        return last[0][0] if last else "0-0"

    def _read_configure(self) -> None:
        """Each turn, so that a Configure whose message was lost counts too."""
        line = self._redis.get(wire.Keys.MODELS)
        if line is not None and line != self._configure_line:
            self._configure_line = line
            self._inbox.configure(wire.decode(line))

    def _take_commands(self, lines: list[str]) -> None:
        commands = [wire.decode(line) for line in lines]
        self._inbox.put(one for one in commands if not isinstance(one, wire.Configure))
