"""The listen thread: one blocking read for commands to engines and for news that work waits.

Commands given while the engine was down are void, but for what is to be forgotten: of that it hears
when it starts. It does not know what commands do.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Any

from engine import wire
from engine.core.lives import KEPT_SECONDS
from engine.transport.connection import Connection, Outage, RedisAway
from engine.transport.inbox import Inbox

BLOCK_MS = 500  # also how long closing may take
RETRY_SECONDS = 0.25
LOOK_SECONDS = 1.0
_BEGINNING = "0-0"


class Listener:
    """Runs in a thread of its own."""

    def __init__(
        self,
        connection: Connection,
        *,
        engine_name: str,
        inbox: Inbox,
        on_work: Callable[[], None],
        is_clearing: Callable[[], bool],
        closing: threading.Event,
    ) -> None:
        self._redis = connection
        self._inbox = inbox
        self._on_work = on_work
        self._is_clearing = is_clearing
        self._closing = closing
        self._cursors: dict[str, str] = {}
        self._forgot_key = wire.Keys.engine_forgot(engine_name)
        self._forgot: str | None = None
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
            self._cursors = self._first_cursors()
        self._note_forgot()
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

    def _first_cursors(self) -> dict[str, str]:
        """What to forget is heard from where the former life was; all where Redis lost that."""
        self._forgot = self._redis.get(self._forgot_key)
        ends = {key: self._end_of(key) for key in (wire.Keys.CONTROL, wire.Keys.WORK)}
        return {**ends, wire.Keys.FORGET: self._forgot or _BEGINNING}

    def _end_of(self, key: str) -> str:
        last: list[tuple[str, object]] = self._redis.xrevrange(key, count=1)
        return last[0][0] if last else _BEGINNING

    def _note_forgot(self) -> None:
        """When it is gone: who dies before that hears it again."""
        has_news = self._forgot != self._cursors[wire.Keys.FORGET]
        if has_news and not self._inbox.has_orders and not self._is_clearing():
            self._forgot = self._cursors[wire.Keys.FORGET]
            self._redis.set(self._forgot_key, self._forgot, ex=KEPT_SECONDS)

    def _read_configure(self) -> None:
        """Every second at least, so that a Configure whose message was lost counts too."""
        self._looked_at = time.monotonic()
        line = self._redis.get(wire.Keys.MODELS)
        if line is not None and line != self._configure_line:
            self._configure_line = line
            self._inbox.configure(wire.decode(line))


def _commands_in(entries: list[tuple[str, dict[str, str]]]) -> list[Any]:
    return [wire.decode(fields["m"]) for _, fields in entries]
