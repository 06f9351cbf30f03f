"""`python -m engine.intake [--name intake-1]`: the doorman's process. Ends on SIGTERM or SIGINT.

Exit codes: 0 then, 2 for settings that cannot work.
"""

from __future__ import annotations

import argparse
import gc
import logging
import os
import signal
import sys
import threading

from engine.config import BadConfig, read_log_level, read_redis_url
from engine.intake.door import Door
from engine.intake.doorman import Doorman
from engine.intake.grammar_desk import GrammarDesk
from engine.intake.limits import limit_memory
from engine.intake.model_folder import Library
from engine.transport import IntakeQueue


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m engine.intake", description=__doc__)
    parser.add_argument("--name", default="intake-1", help="of this intake, kept over restarts")
    name = parser.parse_args().name
    try:
        level = read_log_level(os.environ)
    except BadConfig as error:
        print(f"intake: {error}", file=sys.stderr)
        return 2
    logging.basicConfig(level=level, format="%(asctime)s %(levelname)s %(name)s: %(message)s")
    _serve(name, read_redis_url(os.environ))
    return 0


def _serve(name: str, redis_url: str) -> None:
    closing = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: closing.set())
    limit_memory()
    desk = GrammarDesk()
    desk.warm_up()
    gc.collect()
    gc.freeze()  # what is imported stays, and is not looked through for garbage
    Doorman(IntakeQueue(redis_url, name=name), Door(Library()), desk).run(closing)
    desk.close()


if __name__ == "__main__":
    sys.exit(main())
