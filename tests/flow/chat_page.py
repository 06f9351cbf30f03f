"""The chat page as its script works: signs in, sends, follows the websocket, reconnects."""

from __future__ import annotations

import contextlib
import http.cookiejar
import json
import re
import time
import urllib.error
import urllib.request
from functools import partial
from types import TracebackType
from typing import Any
from urllib.parse import urlencode

from websockets.exceptions import ConnectionClosed, InvalidStatus
from websockets.sync.client import ClientConnection, connect

from tests.stack import Stack

MAX_TOKENS = 600
EVENT_SECONDS = 60.0
RECONNECT_SECONDS = 1.0
LOST_SECONDS = 1.5  # as the page's script waits before it asks again
TERMINAL = ("Finished", "Failed", "Refused")


class ChatPage:
    """One signed-in browser tab. Keeps every event it has seen, by generation and seq."""

    def __init__(self, stack: Stack, email: str | None = None) -> None:
        """Of the administrator; of somebody with the same password when `email` says whom."""
        self._stack = stack
        self._email = email or stack.admin_email
        self._cookies = http.cookiejar.CookieJar()
        self._opener = urllib.request.build_opener(
            urllib.request.ProxyHandler({}), urllib.request.HTTPCookieProcessor(self._cookies)
        )
        self._socket: ClientConnection | None = None
        self._sockets = contextlib.ExitStack()
        self._events: dict[str, list[tuple[int, dict[str, Any]]]] = {}
        self._conversations: dict[str, str] = {}  # by generation
        self._sign_in()

    def __enter__(self) -> ChatPage:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._sockets.close()

    def send(self, content: str, *, model: str, seed: int) -> str:
        """Ask in a new conversation; the id of the answer's generation."""
        options = {"temperature": 0.8, "seed": seed, "max_tokens": MAX_TOKENS}
        body = {"content": content, "model": model, "options": options}
        told = self.post("/chat/messages", body)
        generation = str(told["answer"]["generation"]["id"])
        self._conversations[generation] = told["conversation"]["id"]
        return generation

    def answer_of(self, generation: str) -> str:
        """The whole text, once the terminal event is there."""
        last = self.end_of(generation)
        assert last["type"] == "Finished", last
        deltas = [event for _, event in self._events[generation] if event["type"] == "Delta"]
        return "".join(event["text"] for event in deltas)

    def end_of(self, generation: str) -> dict[str, Any]:
        """The terminal event, once it is there."""
        if generation not in self._events:
            self.follow(generation)
        while not self._has_ended(generation):
            self._read_one()
        return self._events[generation][-1][1]

    def follow(self, generation: str) -> None:
        """From after the last event that this page has."""
        events = self._events.setdefault(generation, [])
        after = events[-1][0] if events else -1
        self._tell({"type": "follow", "generation": generation, "after": after})

    def read_events(self, count: int) -> None:
        for _ in range(count):
            self._read_one()

    def reconnect(self) -> None:
        """After the connection was cut: read what still arrived, connect, follow what is open."""
        with contextlib.suppress(ConnectionClosed):
            while self._socket is not None:
                self._read_one()
        self._socket = None
        for generation in self._events:
            if not self._has_ended(generation):
                self.follow(generation)

    def seqs(self, generation: str) -> list[int]:
        return [seq for seq, _ in self._events[generation]]

    def post(self, path: str, body: dict[str, Any]) -> dict[str, Any]:
        headers = {
            "Content-Type": "application/json",
            "X-CSRFToken": self._cookie("csrf"),
            "Referer": self._stack.base_url,
        }
        request = urllib.request.Request(
            self._stack.base_url + path, json.dumps(body).encode(), headers, method="POST"
        )
        with self._opener.open(request, timeout=60) as answer:
            return dict(json.load(answer))

    def submit(self, path: str, fields: dict[str, Any]) -> None:
        """Post a form, and follow where it leads."""
        body = urlencode(fields | {"csrfmiddlewaretoken": self._cookie("csrf")}).encode()
        headers = {"Referer": self._stack.base_url}
        request = urllib.request.Request(self._stack.base_url + path, body, headers)
        self._opener.open(request, timeout=60).close()

    def read(self, path: str) -> str:
        with self._opener.open(self._stack.base_url + path, timeout=60) as answer:
            return str(answer.read().decode())

    def status_of(self, path: str) -> int:
        try:
            with self._opener.open(self._stack.base_url + path, timeout=60) as answer:
                return int(answer.status)
        except urllib.error.HTTPError as refused:
            return refused.code

    def open_socket(self) -> None:
        self._tell({"type": "unfollow", "generation": ""})

    def close_code(self) -> int | None:
        """With which the server closed the socket, once it has."""
        assert self._socket is not None
        with contextlib.suppress(ConnectionClosed):
            while True:
                self._socket.recv(timeout=EVENT_SECONDS)
        return self._socket.close_code

    def _sign_in(self) -> None:
        url = f"{self._stack.base_url}/accounts/sign-in/"
        with self._opener.open(url, timeout=30) as page:
            form = page.read().decode()
        token = re.search(r'name="csrfmiddlewaretoken" value="([^"]+)"', form)
        assert token is not None, "no form to sign in with"
        fields = {
            "csrfmiddlewaretoken": token[1],
            "username": self._email,
            "password": self._stack.admin_password,
        }
        self._opener.open(url, urlencode(fields).encode(), timeout=30).close()
        assert self._cookie("session"), "no session"

    def _cookie(self, kind: str) -> str:
        return next(cookie.value or "" for cookie in self._cookies if kind in cookie.name)

    def _look_again(self, generation: str) -> None:
        """What has ended is read from its conversation, what has not is followed anew."""
        time.sleep(LOST_SECONDS)
        told = json.loads(self.read(f"/chat/conversations/{self._conversations[generation]}"))
        (answer,) = (one for one in told["messages"] if one["role"] == "assistant")
        self._events[generation].clear()
        if answer["generation"]["usage"] is None:
            return self.follow(generation)
        end = "Failed" if answer["generation"]["error"] else "Finished"
        events = ({"type": "Delta", "text": answer["content"]}, {"type": end})
        self._events[generation] += enumerate(events)

    def _has_text(self, generation: str) -> bool:
        return any(event["type"] == "Delta" for _, event in self._events[generation])

    def _has_ended(self, generation: str) -> bool:
        events = self._events[generation]
        return bool(events) and events[-1][1]["type"] in TERMINAL

    def _tell(self, message: dict[str, Any]) -> None:
        if self._socket is None:
            self._socket = self._sockets.enter_context(self._connected())
        self._socket.send(json.dumps(message))

    def _connected(self) -> ClientConnection:
        """A handshake that fails is tried once more, as the page's script does."""
        cookies = "; ".join(f"{one.name}={one.value}" for one in self._cookies)
        connecting = partial(
            connect,
            self._stack.base_url.replace("http", "ws") + "/ws/chat",
            origin=self._stack.base_url,
            additional_headers={"Cookie": cookies},
            proxy=None,
        )
        try:
            return connecting()
        except InvalidStatus as error:
            if error.response.status_code != 500:
                raise
            print(self._stack.output()[-4000:])
            time.sleep(RECONNECT_SECONDS)
            return connecting()

    def _read_one(self) -> None:
        assert self._socket is not None
        message = json.loads(self._socket.recv(timeout=EVENT_SECONDS))
        match message:
            case {"type": "event", "generation": str(generation), "seq": int(seq)}:
                self._events[generation].append((seq, message["event"]))
                if seq % 64 == 63:
                    self._tell({"type": "ack", "generation": generation, "seq": seq})
            case {"type": "lost", "generation": str(generation)} if not self._has_text(generation):
                self._look_again(generation)
            case {"type": "hint"}:
                pass
            case _:
                raise AssertionError(f"unexpected: {message}")
