"""`python -m engine.intake [--name intake-1]`: the doorman's process. Ends on SIGTERM or SIGINT."""

from __future__ import annotations

import argparse
import gc
import logging
import os
import signal
import threading
from pathlib import Path

from engine import wire
from engine.intake.door import Door
from engine.intake.doorman import Doorman
from engine.intake.grammar_desk import GrammarDesk
from engine.intake.limits import limit_memory
from engine.intake.model_folder import Library
from engine.transport import IntakeQueue

_DEFAULT_DATA_DIR = Path(__file__).resolve().parent.parent.parent / "data"


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m engine.intake", description=__doc__)
    parser.add_argument("--name", default="intake-1", help="of this intake, kept over restarts")
    name = parser.parse_args().name
    logging.basicConfig(
        level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s: %(message)s"
    )
    closing = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: closing.set())
    data_dir = os.environ.get("HEARTH_DATA_DIR", str(_DEFAULT_DATA_DIR))
    redis_url = os.environ.get("REDIS_URL") or wire.default_redis_url(data_dir)
    limit_memory()
    desk = GrammarDesk()
    desk.warm_up()
    gc.collect()
    gc.freeze()  # what is imported stays, and is not looked through for garbage
    Doorman(IntakeQueue(redis_url, name=name), Door(Library()), desk).run(closing)
    desk.close()


if __name__ == "__main__":
    main()
