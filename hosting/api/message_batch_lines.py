"""A batch in Anthropic's form: its requests become lines of a file, and what was written of them
its results.

    requests [{custom_id, params}]  →  {custom_id, method, url, body}      each a line
    {custom_id, response, error}    →  {custom_id, result}                 each a line
"""

from __future__ import annotations

import json
import re
import uuid
from collections.abc import Iterator
from typing import Any

from rest_framework.renderers import JSONRenderer

from hosting.actions.file_bytes import path_of
from hosting.actions.message_batches import ENDPOINT
from hosting.api.anthropic_errors import anthropic_form
from hosting.api.errors import ApiError, invalid
from hosting.models import Batch

MAX_REQUESTS = 50_000
_ID = re.compile(r"[A-Za-z0-9_-]{1,64}")
_Result = dict[str, Any]


def lines_of(body: dict[str, Any]) -> list[bytes]:
    """Each `params` is read as strictly as any message when its turn has come. Raises ApiError."""
    requests = body.get("requests")
    if not isinstance(requests, list) or not 1 <= len(requests) <= MAX_REQUESTS:
        raise invalid("requests", f"There must be 1 to {MAX_REQUESTS:,} in a list.")
    seen: set[str] = set()
    lines = []
    for place, request in enumerate(requests):
        lines.append(_line(_checked(request, seen, f"requests.{place}")))
    return lines


def results_of(batch: Batch) -> Iterator[bytes]:
    """Of every request one, as a line. What was never answered comes last."""
    done: set[str] = set()
    for file_id in batch.written_files:
        for line in _read(file_id):
            done.add(line["custom_id"])
            yield _line({"custom_id": line["custom_id"], "result": _result(line)})
    if len(done) == batch.num_lines or not path_of(batch.input_file).exists():
        return
    rest = _result_of_rest(batch)
    for request in _read(batch.input_file):
        if request["custom_id"] not in done:
            yield _line({"custom_id": request["custom_id"], "result": rest})


def counts_of(batch: Batch) -> dict[str, int]:
    left = batch.num_lines - batch.num_done
    rest_is = {Batch.Status.CANCELLED: "canceled", Batch.Status.FAILED: "errored"}
    counts = {
        "processing": 0,
        "succeeded": batch.num_completed,
        "errored": batch.num_failed - batch.num_expired,
        "canceled": 0,
        "expired": batch.num_expired,
    }
    counts["processing" if batch.is_open else rest_is.get(batch.status, "expired")] += left
    return counts


def _checked(request: Any, seen: set[str], where: str) -> dict[str, Any]:
    if not isinstance(request, dict):
        raise invalid(where, "A request must be an object with a custom_id and its params.")
    custom_id, params = request.get("custom_id"), request.get("params")
    if not isinstance(custom_id, str) or not _ID.fullmatch(custom_id):
        message = "This must be 1 to 64 letters, digits, underscores or hyphens."
        raise invalid(f"{where}.custom_id", message)
    if custom_id in seen:
        raise invalid(f"{where}.custom_id", "Another request has the same one.")
    seen.add(custom_id)
    if not isinstance(params, dict):
        raise invalid(f"{where}.params", "This must be an object.")
    if params.get("stream"):
        raise invalid(f"{where}.params.stream", "A batch does not stream.")
    return {"custom_id": custom_id, "method": "POST", "url": ENDPOINT, "body": params}


def _result(line: dict[str, Any]) -> _Result:
    response = line["response"]
    if response is None:
        return {"type": "expired"}
    if response["status_code"] == 200:
        return {"type": "succeeded", "message": response["body"]}
    return _errored(response["body"], response["request_id"])


def _result_of_rest(batch: Batch) -> _Result:
    if batch.status == Batch.Status.CANCELLED:
        return {"type": "canceled"}
    if batch.status == Batch.Status.EXPIRED:
        return {"type": "expired"}
    message = batch.errors[0]["message"] if batch.errors else "This request was not answered."
    return _errored(anthropic_form(ApiError(500, "api_error", message)).body, batch.public_id)


def _errored(body: dict[str, Any], request_id: str) -> _Result:
    return {"type": "errored", "error": body | {"request_id": request_id}}


def _read(file_id: uuid.UUID) -> Iterator[dict[str, Any]]:
    with path_of(file_id).open("rb") as file:
        yield from map(json.loads, file)


def _line(value: dict[str, Any]) -> bytes:
    written: bytes = JSONRenderer().render(value)
    return written + b"\n"
