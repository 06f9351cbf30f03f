"""What answers of vectors and scores have in common: they come in one piece."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from engine import wire
from hosting.api import sse
from hosting.api.dialect import History
from hosting.api.errors import ApiError, openai_form


class WholeReply:
    """A Reply (dialect.py) that is never streamed."""

    def lines(self, choice: int, event: wire.Event) -> str:
        return ""

    def heartbeat(self) -> str:
        return ""

    def closing(self) -> str:
        return ""

    def error(self, error: ApiError) -> str:
        return sse.data(openai_form(error).body)

    def whole(self, histories: Sequence[History]) -> dict[str, Any]:
        raise NotImplementedError


def usage_tokens(histories: Sequence[History]) -> int:
    finished = [one[-1] for one in histories if isinstance(one[-1], wire.Finished)]
    return sum(one.usage.prompt_tokens for one in finished)
