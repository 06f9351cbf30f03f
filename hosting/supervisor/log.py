"""One readable log of all processes: coloured on a terminal, complete in data/logs/hearth.log.

The terminal has a thread of its own, so that a stopped one (Ctrl-S, a full pipe) stops nobody else;
what it misses meanwhile is in the file.
"""

from __future__ import annotations

import contextlib
import datetime
import json
import logging
import logging.handlers
import queue
import threading
from pathlib import Path
from typing import TextIO

FILE_BYTES = 10 * 1024 * 1024
NUM_OLD_FILES = 5
MAX_TERMINAL_LINES = 10_000
NAME_WIDTH = 8
COLOURS = {
    "up": "\033[1m",
    "redis": "\033[31m",
    "web": "\033[36m",
    "intake": "\033[33m",
    "engine": "\033[35m",
    "celery": "\033[32m",
    "beat": "\033[32m",
    "ledger": "\033[34m",
}
PLAIN = "\033[0m"


class CombinedLog:
    """Owner: the supervisor's main thread; the terminal thread only reads the queue."""

    def __init__(self, *, path: Path, terminal: TextIO, is_json: bool = False) -> None:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._file = logging.handlers.RotatingFileHandler(
            path, maxBytes=FILE_BYTES, backupCount=NUM_OLD_FILES, encoding="utf-8"
        )
        self._file.setFormatter(logging.Formatter("%(message)s"))
        self._is_json = is_json
        self._is_coloured = terminal.isatty()
        self._terminal = terminal
        self._lines: queue.Queue[str | None] = queue.Queue(MAX_TERMINAL_LINES)
        self._thread = threading.Thread(target=self._show, name="terminal", daemon=True)
        self._thread.start()

    def write(self, name: str, text: str) -> None:
        if self._is_json:
            line = shown = json_line(name, text)
        else:
            line = f"{name:<{NAME_WIDTH}}| {text}"
            shown = self._coloured(name, line)  # most lines carry a time of their own
            line = f"{datetime.datetime.now():%Y-%m-%d %H:%M:%S} {line}"
        self._to_file(line)
        with contextlib.suppress(queue.Full):
            self._lines.put_nowait(f"{shown}\n")

    def say(self, text: str) -> None:
        """A line of the supervisor itself."""
        self.write("up", text)

    def close(self) -> None:
        with contextlib.suppress(queue.Full):
            self._lines.put_nowait(None)
        self._thread.join(timeout=1.0)
        self._file.close()

    def _to_file(self, line: str) -> None:
        with contextlib.suppress(OSError):  # a full disk must not end the supervisor
            if self._file.stream is None:
                self._file.stream = self._file._open()
            record = logging.makeLogRecord({"msg": line})
            if self._file.shouldRollover(record):
                self._file.doRollover()
            self._file.stream.write(line + "\n")
            self._file.stream.flush()

    def _coloured(self, name: str, line: str) -> str:
        if not self._is_coloured:
            return line
        return f"{COLOURS.get(name, '')}{line[: NAME_WIDTH + 1]}{PLAIN}{line[NAME_WIDTH + 1 :]}"

    def _show(self) -> None:
        while (line := self._lines.get()) is not None:
            with contextlib.suppress(OSError, ValueError):
                self._terminal.write(line)
                self._terminal.flush()


def json_line(name: str, text: str) -> str:
    """One object, also of what is no JSON: the engine's lines, a traceback, Redis' words."""
    try:
        told = json.loads(text)
    except (ValueError, RecursionError):
        told = None
    if not isinstance(told, dict):
        told = {
            "at": datetime.datetime.now().astimezone().isoformat("T", "seconds"),
            "message": text,
        }
    return json.dumps({"process": name, **told})
