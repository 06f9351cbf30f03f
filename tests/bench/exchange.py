"""One HTTP request on one connection, and which bytes came back when. Reads nothing into them.

The client shares the cores with the servers it measures, so while an answer runs it only notes the
time of each arrival; tests/bench/answers.py makes sense of them afterwards.
"""

from __future__ import annotations

import asyncio
import dataclasses
import json
import re
import time
from typing import Any

_READING = re.compile(rb": (?:prefill|keepalive) [1-9]")  # comments of ours and of mlx_lm.server
_TEXT = re.compile(rb'"(?:content|reasoning|reasoning_content)": ?"[^"]')


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """Where one contestant listens, and what it calls the model."""

    name: str
    port: int
    model: str
    api_key: str | None = None
    host: str = "127.0.0.1"
    path: str = "/v1/chat/completions"


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """A chat request of one user message. `more` is added to the body as it is."""

    prompt: str
    max_tokens: int
    temperature: float = 0.0
    more: dict[str, Any] = dataclasses.field(default_factory=dict)


@dataclasses.dataclass(slots=True)
class Recording:
    """Times are `time.perf_counter()`: one clock for all processes of a machine."""

    started_at: float
    arrivals: list[tuple[float, bytes]] = dataclasses.field(default_factory=list)


class Exchange(asyncio.Protocol):
    """Sends `request` once connected, then records until the server closes.

    `is_accepted` is set by the answer's first byte, `is_reading` when a part of the prompt has been
    read, `has_text` by the first text; all when the connection is gone: then waiting is in vain.
    """

    def __init__(self, request: bytes) -> None:
        self.recording = Recording(time.perf_counter())
        self.is_accepted = asyncio.Event()
        self.is_reading = asyncio.Event()
        self.has_text = asyncio.Event()
        self.is_over = asyncio.Event()
        self._request = request
        self._transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        transport.write(self._request)

    def data_received(self, data: bytes) -> None:
        self.recording.arrivals.append((time.perf_counter(), data))
        if not self.has_text.is_set():
            self._look_into(data)

    def connection_lost(self, exc: Exception | None) -> None:
        for event in (self.is_over, self.is_accepted, self.is_reading, self.has_text):
            event.set()

    def close(self) -> None:
        """Hang up now, whatever is still to come."""
        if self._transport is not None:
            self._transport.abort()

    def _look_into(self, data: bytes) -> None:
        self.is_accepted.set()
        if _READING.search(data):
            self.is_reading.set()
        if _TEXT.search(data):
            self.has_text.set()


async def open_exchange(target: Target, question: Question) -> Exchange:
    """Connect and send. The recording's start is the moment before the connection was asked for."""
    exchange = Exchange(request_bytes(target, question))
    loop = asyncio.get_running_loop()
    await loop.create_connection(lambda: exchange, target.host, target.port)
    return exchange


async def exchange_until_end(target: Target, question: Question, *, timeout: float) -> Recording:
    exchange = await open_exchange(target, question)
    try:
        await asyncio.wait_for(exchange.is_over.wait(), timeout)
    finally:
        exchange.close()
    return exchange.recording


def request_bytes(target: Target, question: Question) -> bytes:
    body = {
        "model": target.model,
        "messages": [{"role": "user", "content": question.prompt}],
        "max_tokens": question.max_tokens,
        "temperature": question.temperature,
        "stream": True,
        "stream_options": {"include_usage": True},
        **question.more,
    }
    content = json.dumps(body).encode()
    key = f"Authorization: Bearer {target.api_key}\r\n" if target.api_key else ""
    head = (
        f"POST {target.path} HTTP/1.1\r\nHost: {target.host}:{target.port}\r\n{key}"
        f"Content-Type: application/json\r\nContent-Length: {len(content)}\r\n"
        "Connection: close\r\n\r\n"
    )
    return head.encode() + content
