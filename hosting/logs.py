"""Log lines that carry the id of the HTTP request or generation they belong to."""

from __future__ import annotations

import json
import logging
import re
from contextvars import ContextVar

request_id_of_this_task: ContextVar[str] = ContextVar("request_id", default="-")
_LINK = re.compile(r"(/(?:invitation|setup)/)[\w-]+")


class RequestIdFilter(logging.Filter):
    """Stamps every record; a record may bring its own `request_id` (a generation's)."""

    def filter(self, record: logging.LogRecord) -> bool:
        if not hasattr(record, "request_id"):
            record.request_id = request_id_of_this_task.get()
        return True


class ClosedLinks(logging.Filter):
    """Writes an address that opens a door once without what opens it: Django names the addresses
    of requests that it refuses."""

    def filter(self, record: logging.LogRecord) -> bool:
        record.msg, record.args = _LINK.sub(r"\1...", record.getMessage()), None
        return True


class OneWarning(logging.Filter):
    """For what any stranger's request can cause: no error of ours, and no traceback."""

    def filter(self, record: logging.LogRecord) -> bool:
        record.levelno, record.levelname = logging.WARNING, "WARNING"
        record.exc_info = None
        return logging.getLogger(record.name).isEnabledFor(logging.WARNING)


class JsonFormatter(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        line = {
            "at": self.formatTime(record, "%Y-%m-%dT%H:%M:%S%z"),
            "level": record.levelname,
            "logger": record.name,
            "request_id": getattr(record, "request_id", "-"),
            "message": record.getMessage(),
        }
        if record.exc_info:
            line["exception"] = self.formatException(record.exc_info)
        return json.dumps(line, ensure_ascii=False)
