"""Makes sense of a recorded exchange: status, text, times, tokens as the server counted them."""

from __future__ import annotations

import dataclasses
import itertools
import json
from collections.abc import Iterator
from typing import Any

import h11

from tests.bench.exchange import Recording

TEXT_FIELDS = ("content", "reasoning", "reasoning_content")


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """`text_at`: when text came. One arrival counts once, however many tokens it brings."""

    status: int
    started_at: float
    ended_at: float
    text: str
    text_at: tuple[float, ...]
    prompt_tokens: int
    cached_tokens: int
    completion_tokens: int
    finish_reason: str | None
    error: str

    @property
    def ttft(self) -> float:
        """Seconds from before the connection to the first text."""
        return self.text_at[0] - self.started_at

    @property
    def gaps(self) -> list[float]:
        return [later - earlier for earlier, later in itertools.pairwise(self.text_at)]


def read_answer(recording: Recording) -> Answer:
    status, frames = read_frames(recording)
    deltas = [(at, text_of(frame)) for at, frame in frames]
    usage = _last(frame.get("usage") for _, frame in frames) or {}
    return Answer(
        status=status,
        started_at=recording.started_at,
        ended_at=recording.arrivals[-1][0] if recording.arrivals else recording.started_at,
        text="".join(text for _, text in deltas),
        text_at=tuple(dict.fromkeys(at for at, text in deltas if text)),
        prompt_tokens=usage.get("prompt_tokens", 0),
        cached_tokens=(usage.get("prompt_tokens_details") or {}).get("cached_tokens", 0),
        completion_tokens=usage.get("completion_tokens", 0),
        finish_reason=_last(_finish_reason(frame) for _, frame in frames),
        error=_last(_error_of(frame) for _, frame in frames) or "",
    )


def read_frames(recording: Recording) -> tuple[int, list[tuple[float, dict[str, Any]]]]:
    """The status (0: none came) and each frame's JSON with the time at which it was complete.

    The body of a refusal counts as one frame.
    """
    status, pieces = _http_body(recording)
    if status == 200:
        return status, list(_frames(pieces))
    body = b"".join(piece for _, piece in pieces).decode(errors="replace")
    return status, [(recording.started_at, {"error": f"status {status}: {body[:300]}"})]


def read_refusal(recording: Recording) -> tuple[int, dict[str, Any]]:
    """The status and the error's own object; empty where there is none."""
    status, pieces = _http_body(recording)
    try:
        body = json.loads(b"".join(piece for _, piece in pieces))
    except ValueError:
        return status, {}
    return status, body.get("error") or {}


def _http_body(recording: Recording) -> tuple[int, list[tuple[float, bytes]]]:
    """The status (0: none came) and the body's pieces with their times, transfer coding removed."""
    parser = h11.Connection(h11.CLIENT)
    parser.send(h11.Request(method="POST", target="/", headers=[("Host", "-")]))
    parser.send(h11.EndOfMessage())
    status, pieces = 0, []
    for at, data in [*recording.arrivals, (0.0, b"")]:
        try:
            parser.receive_data(data)
            for event in iter(parser.next_event, h11.NEED_DATA):
                if isinstance(event, h11.Response):
                    status = event.status_code
                elif isinstance(event, h11.Data):
                    pieces.append((at, bytes(event.data)))
                else:
                    return status, pieces
        except h11.RemoteProtocolError:  # the server hung up in the middle, or we did
            return status, pieces
    return status, pieces


def _frames(pieces: list[tuple[float, bytes]]) -> Iterator[tuple[float, dict[str, Any]]]:
    """The data of each server-sent event, with the time at which it was complete."""
    rest = b""
    for at, piece in pieces:
        *blocks, rest = (rest + piece).replace(b"\r\n", b"\n").split(b"\n\n")
        for block in blocks:
            data = b"".join(
                line[5:].strip() for line in block.split(b"\n") if line.startswith(b"data:")
            )
            if data and data != b"[DONE]":
                yield at, json.loads(data)


def text_of(frame: dict[str, Any]) -> str:
    delta = (frame.get("choices") or [{}])[0].get("delta") or {}
    return "".join(delta.get(field) or "" for field in TEXT_FIELDS)


def _finish_reason(frame: dict[str, Any]) -> str | None:
    reason: str | None = (frame.get("choices") or [{}])[0].get("finish_reason")
    return reason


def _error_of(frame: dict[str, Any]) -> str:
    error = frame.get("error")
    return json.dumps(error).strip('"') if error else ""


def _last(values: Iterator[Any]) -> Any:
    found = None
    for value in values:
        found = value or found
    return found
