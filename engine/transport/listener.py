"""The listen thread: one blocking read for commands to engines and for news that work waits.

Commands given while the engine was down are void, but for those about what lies on its disk: these
it hears when it starts. It does not know what commands do.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Any

from engine import wire
from engine.transport.connection import Connection, Outage, RedisAway
from engine.transport.inbox import Inbox

BLOCK_MS = 500  # also how long closing may take
RETRY_SECONDS = 0.25
LOOK_SECONDS = 1.0
LASTING = (wire.ForgetTenant, wire.ClearCache, wire.Unpublish)


class Listener:
    """Runs in a thread of its own."""

    def __init__(
        self,
        connection: Connection,
        *,
        engine_name: str,
        inbox: Inbox,
        on_work: Callable[[], None],
        closing: threading.Event,
    ) -> None:
        self._redis = connection
        self._inbox = inbox
        self._on_work = on_work
        self._closing = closing
        self._cursors: dict[str, str] = {}
        self._done_key = wire.Keys.engine_control(engine_name)
        self._done: str | None = None
        self._configure_line: str | None = None
        self._next_look = self._looked_at = 0.0

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
            cursors = {key: self._end_of(key) for key in (wire.Keys.CONTROL, wire.Keys.WORK)}
            self._catch_up(cursors[wire.Keys.CONTROL])
            self._cursors = cursors
        self._note_done()
        if time.monotonic() >= self._next_look:
            self._read_configure()
        self._next_look = 0.0
        answer = self._redis.xread(self._cursors, block=BLOCK_MS) or ()
        if [key for key, _ in answer] == [wire.Keys.WORK]:  # for which an engine is waited for
            self._next_look = self._looked_at + LOOK_SECONDS
        for key, entries in answer:
            self._cursors[key] = entries[-1][0]
            if key == wire.Keys.WORK:
                self._on_work()
            else:
                commands = _commands_in(entries)
                self._inbox.put(one for one in commands if not isinstance(one, wire.Configure))

    def _end_of(self, key: str) -> str:
        last: list[tuple[str, object]] = self._redis.xrevrange(key, count=1)
        return last[0][0] if last else "0-0"

    def _catch_up(self, end: str) -> None:
        """With what was said between two lives: all of it where Redis has lost what it knew."""
        self._done = self._redis.get(self._done_key)
        begin = "-" if self._done is None else f"({self._done}"
        missed = self._redis.xrange(wire.Keys.CONTROL, min=begin, max=end)
        self._inbox.put(one for one in _commands_in(missed) if isinstance(one, LASTING))

    def _note_done(self) -> None:
        """A turn after they were handed over: who dies before that hears them again."""
        if self._done != self._cursors[wire.Keys.CONTROL]:
            self._done = self._cursors[wire.Keys.CONTROL]
            self._redis.set(self._done_key, self._done)

    def _read_configure(self) -> None:
        """Every second at least, so that a Configure whose message was lost counts too."""
        self._looked_at = time.monotonic()
        line = self._redis.get(wire.Keys.MODELS)
        if line is not None and line != self._configure_line:
            self._configure_line = line
            self._inbox.configure(wire.decode(line))


def _commands_in(entries: list[tuple[str, dict[str, str]]]) -> list[Any]:
    return [wire.decode(fields["m"]) for _, fields in entries]
