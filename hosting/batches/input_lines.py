"""The lines of a batch's file: read one by one, and looked through before anything is begun."""

from __future__ import annotations

import dataclasses
import hashlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from django.conf import settings

from hosting.actions.admission import check_may_use
from hosting.actions.conversations import get_servable_model
from hosting.actions.message_batches import ENDPOINT as MESSAGES
from hosting.actions.refusals import Refusal
from hosting.json_body import BadJson, read_json
from hosting.models import Batch

MAX_LINES = 50_000
MAX_NUMBER = 2 * MAX_LINES  # empty ones count: to pass by millions of them holds up other batches
MAX_ERRORS = 50  # told of one batch
MAX_ID_CHARACTERS = 512


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class RawLine:
    """`offset` and `end` are places in the file; `number` counts every line, from 1."""

    number: int
    offset: int
    end: int
    text: bytes


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class LineRequest:
    """What a line asks for."""

    custom_id: str
    body: dict[str, Any]


class LineError(Exception):
    """What is wrong with a line, as a batch tells it."""

    def __init__(self, code: str, message: str, param: str | None = None) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.param = param

    def told(self, number: int | None) -> dict[str, Any]:
        said = {"code": self.code, "message": self.message, "param": self.param}
        return said | {"line": number}


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """What was found. With errors nothing of the batch is begun."""

    errors: list[dict[str, Any]]
    num_lines: int
    model_name: str


def lines_from(path: Path, *, number: int = 1, offset: int = 0) -> Iterator[RawLine]:
    """From there to the end, but for empty ones. A line that is too long ends in its middle, and
    what has too many with the first that is too much."""
    limit = settings.DATA_UPLOAD_MAX_MEMORY_SIZE + 1
    with path.open("rb") as file:
        file.seek(offset)
        while number <= MAX_NUMBER + 1 and (text := file.readline(limit)):
            end = offset + len(text)
            if text.strip() or number > MAX_NUMBER:
                yield RawLine(number=number, offset=offset, end=end, text=text)
            number, offset = number + 1, end


def read_request(text: bytes, endpoint: str) -> LineRequest:
    """Raises LineError."""
    if len(text) > settings.DATA_UPLOAD_MAX_MEMORY_SIZE:
        raise LineError("line_too_long", "This line is longer than any request may be.")
    try:
        line = read_json(text)
    except BadJson as bad:
        message = str(bad).replace("The body", "This line")
        raise LineError("invalid_json_line", message) from None
    if not isinstance(line, dict):
        raise LineError("invalid_json_line", "Each line must be a JSON object.")
    _check_address(line, endpoint)
    custom_id, body = line.get("custom_id"), line.get("body")
    if not isinstance(custom_id, str) or not 0 < len(custom_id) <= MAX_ID_CHARACTERS:
        message = f"'custom_id' must be text of 1 to {MAX_ID_CHARACTERS} characters."
        raise LineError("invalid_custom_id", message, "custom_id")
    if not isinstance(body, dict):
        raise LineError("invalid_body", "'body' must be a JSON object.", "body")
    if body.get("stream"):
        raise LineError("invalid_value", "A batch does not stream.", "body.stream")
    return LineRequest(custom_id=custom_id, body=body)


def look_through(batch: Batch, path: Path) -> Verdict:
    """The whole file. Bodies are read as strictly as any call's when their turn has come."""
    checker = _Checker(batch)
    for line in lines_from(path):
        checker.check(line)
        if checker.is_enough:
            break
    if not checker.num_lines:
        checker.errors.append(LineError("empty_file", "The file has no lines.").told(None))
    return Verdict(
        errors=checker.errors, num_lines=checker.num_lines, model_name=checker.first_model
    )


class _Checker:
    """Of one file. Of each id only a hash is in memory."""

    def __init__(self, batch: Batch) -> None:
        self._batch = batch
        self._seen: set[bytes] = set()
        self._models: dict[str, LineError | None] = {}
        self.errors: list[dict[str, Any]] = []
        self.num_lines = 0

    @property
    def is_enough(self) -> bool:
        return len(self.errors) >= MAX_ERRORS or self.num_lines > MAX_LINES

    @property
    def first_model(self) -> str:
        return next(iter(self._models), "")[:100]

    def check(self, line: RawLine) -> None:
        self.num_lines += 1
        try:
            if line.number > MAX_NUMBER:
                message = f"A file may have {MAX_NUMBER:,} lines, empty ones among them."
                raise LineError("too_many_lines", message)
            if self.num_lines > MAX_LINES:
                raise LineError("too_many_lines", f"A batch may have {MAX_LINES:,} requests.")
            request = read_request(line.text, self._batch.endpoint)
            self._check_id(request.custom_id)
            self._check_model(request.body.get("model"))
        except LineError as error:
            self.errors.append(error.told(line.number))

    def _check_id(self, custom_id: str) -> None:
        digest = hashlib.blake2b(custom_id.encode(), digest_size=16).digest()
        if digest in self._seen:
            message = "Another line has the same 'custom_id'."
            raise LineError("duplicate_custom_id", message, "custom_id")
        self._seen.add(digest)

    def _check_model(self, name: Any) -> None:
        """Results of Anthropic's form tell of it themselves."""
        if not isinstance(name, str) or not name:
            error: LineError | None = LineError(
                "invalid_value", "'model' must be a model's name.", "body.model"
            )
        elif name not in self._models:
            error = self._models[name] = self._refused_model(name)
        else:
            error = self._models[name]
        if error is not None and self._batch.endpoint != MESSAGES:
            raise error

    def _refused_model(self, name: str) -> LineError | None:
        batch = self._batch
        try:
            check_may_use(batch.user, batch.api_key, get_servable_model(name))
        except Refusal as refusal:
            return LineError(refusal.code, refusal.message, "body.model")
        return None


def _check_address(line: dict[str, Any], endpoint: str) -> None:
    if line.get("method") != "POST":
        raise LineError("invalid_method", "'method' must be POST.", "method")
    if line.get("url") != endpoint:
        message = f"'url' must be the batch's endpoint, {endpoint}."
        raise LineError("invalid_url", message, "url")
