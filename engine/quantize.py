"""`python -m engine.quantize SOURCE TARGET`: a quantised copy of a model folder, on the CPU.

Who starts it reads a line of JSON for each step: {"fraction": 0.5}, and {"error": "..."} where it
fails. It ends with whoever started it: when its standard input does.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import threading
from collections.abc import Callable
from pathlib import Path

import mlx.core as mx

from engine.model.quantising import QuantisingFailed, write_quantised_copy
from engine.sizing.quantising import WAYS, Way

_NICE = 19  # whatever anybody waits for comes first
_ORPHANED = 3

Tell = Callable[[dict[str, float | str]], None]


def main() -> int:
    tell = _teller()
    arguments = _arguments()
    way = Way(mode=arguments.mode, bits=arguments.bits, group_size=arguments.group_size)
    if way not in WAYS:
        return _fail(tell, f"there is no such way: {way}")
    threading.Thread(target=_end_with_parent, daemon=True).start()
    os.nice(_NICE)
    mx.set_default_device(mx.cpu)
    mx.set_cache_limit(0)
    try:
        for fraction in write_quantised_copy(arguments.source, arguments.target, way):
            tell({"fraction": fraction})
    except QuantisingFailed as error:
        return _fail(tell, str(error))
    return 0


def _fail(tell: Tell, reason: str) -> int:
    tell({"error": reason})
    return 1


def _teller() -> Tell:
    """What mlx-lm prints goes to the log, beside what is told here."""
    lines = os.fdopen(os.dup(sys.stdout.fileno()), "w")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    return lambda told: print(json.dumps(told), file=lines, flush=True)


def _end_with_parent() -> None:
    while os.read(sys.stdin.fileno(), 1):  # sys.stdin's own lock would be in the way of our end
        pass
    os._exit(_ORPHANED)


def _arguments() -> argparse.Namespace:
    usual = Way()
    parser = argparse.ArgumentParser(prog="engine.quantize")
    parser.add_argument("source", type=Path)
    parser.add_argument("target", type=Path, help="a folder that is not there yet")
    parser.add_argument("--mode", default=usual.mode)
    parser.add_argument("--bits", type=int, default=usual.bits)
    parser.add_argument("--group-size", type=int, default=usual.group_size)
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
