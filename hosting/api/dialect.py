"""What a dialect gives: how a body is read, and what is sent for each event of the wire.

Everything else (starting, following, signs of life, errors, a client that leaves) is run.py's and
answer_view.py's, the same for all.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any, Protocol

from accounts.models import ApiKey, User
from engine import wire
from hosting.actions.orders import Order
from hosting.actions.repeats import RepeatKey
from hosting.api.errors import ApiError
from hosting.models import Generation

History = list[wire.Event]


class Reply(Protocol):
    """The answer to one call. Owner: one request.

    Stream   lines of each event, Accepted first, heartbeats between them · closing, or error
    Whole    whole, from the history of each choice; the last event of each is its Finished

    Refused, Failed and what was cancelled never arrive here: they are errors.
    """

    def lines(self, choice: int, event: wire.Event) -> str: ...
    def heartbeat(self) -> str: ...
    def closing(self) -> str: ...
    def error(self, error: ApiError) -> str: ...
    def whole(self, histories: Sequence[History]) -> dict[str, Any]: ...


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Caller:
    """Who asks, and with what program."""

    user: User
    api_key: ApiKey | None
    client: str


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """A checked body: one order per choice, and how they are answered.

    `repeat_key`: the name under which the client may send it again.
    """

    orders: tuple[Order, ...]
    is_stream: bool
    make_reply: Callable[[Sequence[Generation]], Reply]
    repeat_key: RepeatKey | None = None
