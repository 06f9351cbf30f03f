"""`python -m hosting.beat`: the clock that starts scheduled tasks. Ends at SIGTERM or SIGINT.

Celery's own clock. Its command would load all of the web side, for three times the memory.
"""

from __future__ import annotations

import logging.config
import signal
import sys
from typing import Any

from celery.beat import PersistentScheduler, Service
from django.conf import settings

from hosting.celery import app

_AGAIN_SECONDS = 1.0  # an exception inside a destructor is swallowed: raise it once more


class Scheduler(PersistentScheduler):
    """Where the clock was set back, Celery's own starts nothing until the time of the last runs has
    come again. It keeps that time over restarts."""

    def tick(self, *args: Any, **kwargs: Any) -> float:
        now = self.app.now()
        for entry in self.schedule.values():
            if entry.last_run_at > now:
                entry.last_run_at = now
                self._heap = None  # made anew of the entries
        return float(super().tick(*args, **kwargs))


class Clock(Service):
    scheduler_cls = Scheduler


def main() -> None:
    logging.config.dictConfig(settings.LOGGING)
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGALRM):
        signal.signal(number, _end)
    Clock(app).start()
    signal.setitimer(signal.ITIMER_REAL, 0)


def _end(*_: object) -> None:
    signal.setitimer(signal.ITIMER_REAL, _AGAIN_SECONDS)
    sys.exit()


if __name__ == "__main__":
    main()
