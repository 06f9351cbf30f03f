"""`manage.py consume_ledger`: settles what ended, brings Redis in line with the rows, and records
how the engines are.
"""

from __future__ import annotations

import logging
import signal
import threading
import time
from collections.abc import Callable
from typing import Any

from django.core.management.base import BaseCommand
from django.db import Error as DatabaseError
from django.db import InterfaceError, OperationalError, close_old_connections

from hosting.actions.history import FINEST_SECONDS, record_readings
from hosting.actions.reconcile import reconcile
from hosting.actions.repeats import RENEW_SECONDS, hold_all
from hosting.actions.settling import settle_generations
from hosting.engine_client import EngineUnavailable, TerminalFeed
from hosting.sqlite.log import move_early

_RECONCILE_SECONDS = 2.0
_TELL_SECONDS = 60.0
_TOGETHER_SECONDS = 0.1  # what ends in such a time costs little more than one; limits do not wait

logger = logging.getLogger(__name__)


class Command(BaseCommand):
    help = "Writes answers, usage and ends from the engines' events into the database."

    def handle(self, *args: Any, **options: Any) -> None:
        move_early()
        consumer = LedgerConsumer(TerminalFeed())
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, lambda *_: consumer.stop())
        consumer.run()


class LedgerConsumer:
    """One loop, one thread. What is not settled is not acknowledged, and comes again."""

    def __init__(
        self,
        feed: TerminalFeed,
        *,
        pause_seconds: float = 1.0,
        wall_clock: Callable[[], float] = time.time,
    ) -> None:
        self._feed = feed
        self._pause_seconds = pause_seconds
        self._wall_clock = wall_clock
        self._is_stopped = threading.Event()
        self._reconcile_at = 0.0
        self._reconciled_at = 0.0  # by the wall clock, which goes on while the machine sleeps
        self._recorded_slot = 0
        self._told, self._tell_at = "", 0.0

    def stop(self) -> None:
        self._is_stopped.set()

    def run(self) -> None:
        while not self._is_stopped.is_set():
            try:
                if self.turn():
                    self._is_stopped.wait(_TOGETHER_SECONDS)
            except (EngineUnavailable, DatabaseError) as error:
                self._tell(str(error))
                close_old_connections()
                self._feed.begin()
                self._is_stopped.wait(self._pause_seconds)

    def _tell(self, reason: str) -> None:
        """Once a minute, and when it is another: what is away may be so for a night."""
        if reason != self._told or time.monotonic() >= self._tell_at:
            self._told, self._tell_at = reason, time.monotonic() + _TELL_SECONDS
            logger.warning("ledger waits: %s", reason)

    def turn(self) -> bool:
        """Whether something had ended."""
        settled = self._settled(self._feed.read(block_ms=1000))
        if settled:
            self._feed.ack(settled)
        if time.monotonic() >= self._reconcile_at:
            self._reconcile_at = time.monotonic() + _RECONCILE_SECONDS
            self._reconcile(self._wall_clock())
        self._record(self._wall_clock())
        return bool(settled)

    def _reconcile(self, now: float) -> None:
        """Where it was not done a moment ago the machine slept, something was away or the clock was
        set: then who follows could not say so, and gets another while."""
        if not 0 <= now - self._reconciled_at <= RENEW_SECONDS:
            hold_all()
        reconcile()
        self._reconciled_at = now

    def _record(self, now: float) -> None:
        """Once in every slot of the history: by the clock, for a period would miss some."""
        slot = int(now) // FINEST_SECONDS
        if slot != self._recorded_slot:
            record_readings(now)
            self._recorded_slot = slot

    def _settled(self, entries: list[tuple[str, str]]) -> list[str]:
        """The entries that are dealt with: all together, or else each by itself."""
        if self._settle([request_id for _, request_id in entries]):
            return [entry_id for entry_id, _ in entries]
        return [entry_id for entry_id, request_id in entries if self._settle([request_id])]

    def _settle(self, request_ids: list[str]) -> bool:
        try:
            settle_generations(request_ids)
        except (EngineUnavailable, InterfaceError, OperationalError):
            raise
        except Exception:
            # One request that cannot be stored must not hold up all others; it comes again
            logger.exception("not settled", extra={"request_id": " ".join(request_ids)})
            return False
        return True
