"""`python -m hosting.beat`: the clock that starts scheduled tasks. Ends at SIGTERM or SIGINT.

Celery's own clock. Its command would load all of the web side, for three times the memory.
"""

from __future__ import annotations

import logging.config
import signal
import sys

from celery.beat import Service
from django.conf import settings

from hosting.celery import app

_AGAIN_SECONDS = 1.0  # an exception inside a destructor is swallowed: raise it once more


def main() -> None:
    logging.config.dictConfig(settings.LOGGING)
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGALRM):
        signal.signal(number, _end)
    Service(app).start()
    signal.setitimer(signal.ITIMER_REAL, 0)


def _end(*_: object) -> None:
    signal.setitimer(signal.ITIMER_REAL, _AGAIN_SECONDS)
    sys.exit()


if __name__ == "__main__":
    main()
