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


def main() -> None:
    logging.config.dictConfig(settings.LOGGING)
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: sys.exit())
    Service(app).start()


if __name__ == "__main__":
    main()
