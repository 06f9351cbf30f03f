"""Three calls of the protocol: initialize, tools/list, tools/call. What a server says is untrusted:
everything is bounded, and comes out as plain text.

The official SDK would bring a web server and an async runtime of its own, and follows addresses in
its own way; these calls are all that is needed of it.
"""

from __future__ import annotations

import contextlib
import dataclasses
import json
import re
from collections.abc import Iterator
from http.client import HTTPResponse
from typing import Any

from engine import wire
from hosting.mcp.errors import ServerRefused, ToolServerError
from hosting.mcp.http import Exchange
from hosting.mcp.results import Result, read_result
from hosting.mcp.texts import cleaned

PROTOCOL = "2025-06-18"
MAX_ANSWER_BYTES = 4 * 1024 * 1024
MAX_TOOLS = 200
MAX_NAME = 128
MAX_DESCRIPTION = 4_000
MAX_SCHEMA = 20_000
_MAX_PAGES = 20
_MAX_LINE = MAX_ANSWER_BYTES
_VISIBLE = re.compile(r"\A[\x21-\x7e]{1,500}\Z")


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class ListedTool:
    name: str
    description: str
    input_schema: dict[str, Any]


class Session:
    """From `initialize` on, in one exchange."""

    def __init__(self, exchange: Exchange, *, token: str = "") -> None:
        self._exchange = exchange
        self._headers = {
            "Content-Type": "application/json",
            "Accept": "application/json, text/event-stream",
            "Accept-Encoding": "identity",
            "User-Agent": "hearth",
            "Connection": "close",
        }
        if token:
            self._headers["Authorization"] = f"Bearer {token}"
        self._last_id = 0

    def begin(self) -> None:
        params = {
            "protocolVersion": PROTOCOL,
            "capabilities": {},
            "clientInfo": {"name": "hearth", "version": "1"},
        }
        told = self._ask("initialize", params)
        version = told.get("protocolVersion")
        if isinstance(version, str) and _VISIBLE.match(version):
            self._headers["MCP-Protocol-Version"] = version
        self._notify("notifications/initialized")

    def list_tools(self) -> list[ListedTool]:
        found: dict[str, ListedTool] = {}
        params: dict[str, Any] = {}
        for _ in range(_MAX_PAGES):
            told = self._ask("tools/list", params)
            listed = told.get("tools")
            for plain in listed if isinstance(listed, list) else []:
                if (tool := _listed_tool(plain)) is not None and len(found) < MAX_TOOLS:
                    found.setdefault(tool.name, tool)
            cursor = told.get("nextCursor")
            if not isinstance(cursor, str) or not cursor:
                break
            params = {"cursor": cursor}
        return list(found.values())

    def call_tool(self, name: str, arguments: dict[str, Any]) -> Result:
        """Raises ToolServerError; from here on the call may have run."""
        try:
            return read_result(self._ask("tools/call", {"name": name, "arguments": arguments}))
        except ToolServerError as error:
            error.may_have_run = True
            raise

    def end(self, exchange: Exchange) -> None:
        """Out of politeness, in a short exchange of its own; that it fails is nobody's matter."""
        if "Mcp-Session-Id" not in self._headers:
            return
        with contextlib.suppress(ToolServerError), exchange.request("DELETE", self._headers):
            pass

    def _ask(self, method: str, params: dict[str, Any]) -> dict[str, Any]:
        self._last_id += 1
        message = {"jsonrpc": "2.0", "id": self._last_id, "method": method, "params": params}
        with self._exchange.request("POST", self._headers, _encoded(message)) as response:
            _check_status(response)
            self._note_session(response)
            for told in _messages(response):
                if told.get("id") == self._last_id and ("result" in told or "error" in told):
                    return _result_of(told)
        raise ToolServerError("The tool server ended its answer too early.")

    def _notify(self, method: str) -> None:
        message = {"jsonrpc": "2.0", "method": method}
        with self._exchange.request("POST", self._headers, _encoded(message)) as response:
            _check_status(response)

    def _note_session(self, response: HTTPResponse) -> None:
        session = response.headers.get("Mcp-Session-Id")
        if session and _VISIBLE.match(session):
            self._headers["Mcp-Session-Id"] = session


def _encoded(message: dict[str, Any]) -> bytes:
    return json.dumps(message).encode()


def _check_status(response: HTTPResponse) -> None:
    status = response.status
    if 300 <= status < 400:
        raise ToolServerError(f"The tool server sends elsewhere ({status}). That is not followed.")
    if status in (401, 403):
        raise ToolServerError(f"The tool server does not let us in ({status}).")
    if not 200 <= status < 300:
        raise ToolServerError(f"The tool server answered with status {status}.")
    if response.headers.get("Content-Encoding", "identity") != "identity":
        raise ToolServerError("The tool server packed its answer, which is not unpacked.")


def _messages(response: HTTPResponse) -> Iterator[dict[str, Any]]:
    kind = response.headers.get_content_type()
    if kind == "text/event-stream":
        yield from map(_message, _event_data(response))
    elif kind == "application/json":
        body = response.read(MAX_ANSWER_BYTES + 1)
        if len(body) > MAX_ANSWER_BYTES:
            raise _too_long()
        yield _message(body)
    else:
        raise ToolServerError("The tool server's answer is neither JSON nor a stream of events.")


def _event_data(response: HTTPResponse) -> Iterator[bytes]:
    """The data of each event of a stream."""
    num_bytes, data = 0, []
    while line := response.readline(_MAX_LINE):
        num_bytes += len(line)
        if num_bytes > MAX_ANSWER_BYTES:
            raise _too_long()
        line = line.rstrip(b"\r\n")
        if line.startswith(b"data:"):
            data.append(line[5:].removeprefix(b" "))
        elif not line and data:
            yield b"\n".join(data)
            data = []
    if data:
        yield b"\n".join(data)


def _message(body: bytes) -> dict[str, Any]:
    if not body.strip():  # some begin a stream with an empty event
        return {}
    try:
        told = json.loads(body)
    except (ValueError, RecursionError):
        raise ToolServerError("The tool server's answer is not JSON.") from None
    return told if isinstance(told, dict) else {}


def _result_of(told: dict[str, Any]) -> dict[str, Any]:
    if isinstance(result := told.get("result"), dict):
        return result
    error = told.get("error")
    message = error.get("message") if isinstance(error, dict) else None
    words = cleaned(message, most=500) if isinstance(message, str) else "no reason given"
    raise ServerRefused(f"The tool server refused: {words}")


def _listed_tool(plain: Any) -> ListedTool | None:
    """None for what cannot be offered to a model."""
    if not isinstance(plain, dict) or not isinstance(name := plain.get("name"), str):
        return None
    schema = plain.get("inputSchema", {"type": "object"})
    if not isinstance(schema, dict) or wire.is_deeper(schema, wire.MAX_DEPTH):
        return None
    if not 0 < len(name) <= MAX_NAME or cleaned(name, most=MAX_NAME) != name:
        return None
    try:
        text = json.dumps(schema, allow_nan=False, ensure_ascii=False)
        text.encode()
    except ValueError:  # Infinity, NaN and half a character, which no database takes
        return None
    if len(text) > MAX_SCHEMA or "\\u0000" in text:
        return None
    description = plain.get("description")
    words = cleaned(description, most=MAX_DESCRIPTION) if isinstance(description, str) else ""
    return ListedTool(name=name, description=words, input_schema=schema)


def _too_long() -> ToolServerError:
    return ToolServerError(
        f"The tool server's answer is longer than {MAX_ANSWER_BYTES // 1024**2} MiB."
    )
