"""People who ask without end, each near a limit of another kind, whatever dies meanwhile."""

from __future__ import annotations

import contextlib
import dataclasses
import http.client
import json
import random
import re
import threading
import time
import urllib.error
from collections import Counter
from collections.abc import Iterator
from typing import Any

from websockets.exceptions import ConnectionClosed, InvalidHandshake

from tests.flow.chat_page import ChatPage
from tests.stack import Stack

PATIENCE_SECONDS = 120.0
_PAUSE_SECONDS = 0.2
_HAS_DATA = re.compile(rb"data: ").match
_CUT = (OSError, http.client.HTTPException)
_CHAT_CUT = (*_CUT, ConnectionClosed, InvalidHandshake)
# By name: fields of Quota, `share` of the requests in tokens for a budget that runs out
LIMITS: dict[str, dict[str, int]] = {
    "free": {"max_concurrent": 50},
    "crowded": {"max_concurrent": 3},
    "hasty": {"requests_per_minute": 60},
    "wordy": {"tokens_per_minute": 4000},
    "thrifty": {"tokens_per_day": 0},  # made of the number of requests
}
_ASKERS = {"free": 3, "crowded": 5, "hasty": 2, "wordy": 2, "thrifty": 2}
_TOKENS_A_REQUEST = 10  # of the thrifty one's budget, so that it is spent before the end
_ADD_PEOPLE = """
from accounts.keys import create_api_key
from accounts.models import Quota, User
made = []
for name, limits in {people!r}.items():
    person = User.objects.create_user(f"{{name}}@example.org")
    Quota.objects.create(user=person, **limits)
    made += [str(person.pk), create_api_key(user=person, name="faults")[1]]
print(*made)
"""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Person:
    pk: int
    api_key: str
    limits: dict[str, int]
    num_askers: int


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """What a client was told of one generation; `tokens` None: not to the end."""

    generation: str
    tokens: int | None


class Turnstile:
    """Counts the answered requests of all. May be used from any thread."""

    def __init__(self, num_requests: int) -> None:
        self.num_answered = self.num_refused = self.num_unserved = self.num_cut = 0
        self.errors: Counter[str] = Counter()  # by what was said of them
        self._num_requests = num_requests
        self._changed = threading.Condition()

    @property
    def is_open(self) -> bool:
        return self.num_answered < self._num_requests

    def note(self, *, answered: int = 0, refused: int = 0, unserved: int = 0, cut: int = 0) -> None:
        with self._changed:
            self.num_answered += answered
            self.num_refused += refused
            self.num_unserved += unserved
            self.num_cut += cut
            self._changed.notify_all()

    def note_error(self, what: str) -> None:
        """Accepted, and not answered."""
        with self._changed:
            self.errors[what] += 1

    def wait_for(self, count: int) -> bool:
        """False when all is asked before."""
        with self._changed:
            self._changed.wait_for(lambda: self.num_answered >= count or not self.is_open)
            return self.is_open


def make_people(stack: Stack, num_requests: int) -> list[Person]:
    """One for each kind of limit."""
    people = {
        name: {**limits, "tokens_per_day": _TOKENS_A_REQUEST * num_requests}
        if "tokens_per_day" in limits
        else limits
        for name, limits in LIMITS.items()
    }
    made = iter(stack.manage("shell", "-c", _ADD_PEOPLE.format(people=people)).split())
    return [
        Person(pk=int(next(made)), api_key=next(made), limits=limits, num_askers=_ASKERS[name])
        for name, limits in people.items()
    ]


class Asker:
    """One script: whole answers, streams, and streams that it leaves."""

    def __init__(
        self, stack: Stack, person: Person, model: str, turnstile: Turnstile, *, seed: int
    ) -> None:
        self.seen: list[Seen] = []
        self._stack = stack
        self._person = person
        self._model = model
        self._turnstile = turnstile
        self._chance = random.Random(seed)

    def run(self) -> None:
        while self._turnstile.is_open:
            try:
                self._ask()
            except _CUT:
                self._turnstile.note(cut=1)
                time.sleep(_PAUSE_SECONDS)  # the web process is starting again

    def _ask(self) -> None:
        is_stream = self._chance.random() < 0.6
        leave_after = self._chance.randint(1, 5) if self._chance.random() < 0.3 else None
        body = {
            "model": self._model,
            "messages": [{"role": "user", "content": f"Tell {self._chance.getrandbits(64):x}."}],
            "max_tokens": self._chance.randint(1, 40),
            "temperature": 0,
            **({"stream": True, "stream_options": {"include_usage": True}} if is_stream else {}),
        }
        connection = http.client.HTTPConnection(
            "127.0.0.1", self._stack.port, timeout=PATIENCE_SECONDS
        )
        with contextlib.closing(connection):
            headers = {
                "Authorization": f"Bearer {self._person.api_key}",
                "Content-Type": "application/json",
            }
            connection.request("POST", "/v1/chat/completions", json.dumps(body), headers)
            answer = connection.getresponse()
            if answer.status != 200:
                self._refused(answer)
            elif is_stream:
                self._read_stream(answer, leave_after)
            else:
                self._note(json.loads(answer.read()))

    def _refused(self, answer: http.client.HTTPResponse) -> None:
        told = json.loads(answer.read())["error"]["code"]
        if answer.status in (429, 503):
            self._turnstile.note(refused=answer.status == 429, unserved=answer.status == 503)
        else:
            self._turnstile.note_error(f"{answer.status} {told}")
        time.sleep(_PAUSE_SECONDS)

    def _read_stream(self, answer: http.client.HTTPResponse, leave_after: int | None) -> None:
        generation, tokens = "", None
        for place, line in enumerate(filter(_HAS_DATA, _lines(answer))):
            if line.startswith(b"data: [DONE]"):
                break
            chunk = json.loads(line.removeprefix(b"data: "))
            if error := chunk.get("error"):
                return self._turnstile.note_error(f"{error['code']} after {place} chunks")
            generation = chunk.get("id", generation)
            if chunk.get("usage"):
                tokens = chunk["usage"]["completion_tokens"]
            if leave_after is not None and place >= leave_after:
                break
        else:
            return self._turnstile.note_error("no end")
        self._note({"id": generation, "usage": {"completion_tokens": tokens}})

    def _note(self, told: dict[str, Any]) -> None:
        generation = told["id"].removeprefix("chatcmpl-")
        self.seen.append(Seen(generation=generation, tokens=told["usage"]["completion_tokens"]))
        self._turnstile.note(answered=1)


class ChatAsker:
    """The administrator at the chat page, who also presses stop."""

    def __init__(self, stack: Stack, model: str, turnstile: Turnstile, *, seed: int) -> None:
        self.seen: list[Seen] = []
        self._stack = stack
        self._model = model
        self._turnstile = turnstile
        self._chance = random.Random(seed)

    def run(self) -> None:
        while self._turnstile.is_open:
            try:
                with ChatPage(self._stack) as page:
                    self._sit(page)
            except urllib.error.HTTPError as refusal:
                self._turnstile.note_error(f"chat: {refusal.code}")
            except _CHAT_CUT:
                self._turnstile.note(cut=1)
                time.sleep(_PAUSE_SECONDS)
            except AssertionError as error:
                self._turnstile.note_error(f"chat: {error}")

    def _sit(self, page: ChatPage) -> None:
        while self._turnstile.is_open:
            generation = page.send("Hello", model=self._model, seed=self._chance.getrandbits(16))
            if self._chance.random() < 0.5:
                page.post(f"/chat/generations/{generation}/cancel", {})
            page.answer_of(generation)
            seqs = page.seqs(generation)
            assert seqs == list(range(len(seqs))), f"events {seqs} of one answer"
            self.seen.append(Seen(generation=generation.replace("-", ""), tokens=None))
            self._turnstile.note(answered=1)


def _lines(answer: http.client.HTTPResponse) -> Iterator[bytes]:
    """Raises IncompleteRead where the connection was cut: there, http.client's own just end."""
    rest = b""
    while part := answer.read1():
        *whole, rest = (rest + part).split(b"\n")
        yield from whole
