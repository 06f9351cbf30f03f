"""The text of a tool call into its name and arguments, by mlx-lm's parser for the model's dialect.

A call that does not parse is no call: it comes out as the text that it is.
"""

from __future__ import annotations

import hashlib
import json
import logging
from typing import Any

from engine import wire
from engine.core.answer import Piece

# The parsers are other people's code on a model's output: they raise what comes.
_PARSER_ERRORS = (
    ValueError,
    LookupError,
    TypeError,
    AttributeError,
    SyntaxError,
    RecursionError,
)

logger = logging.getLogger(__name__)


class ToolCallReader:
    def __init__(self, tokenizer: Any, *, request_id: str, tools: tuple[dict[str, Any], ...]):
        self._tokenizer = tokenizer
        self._request_id = request_id
        self._tools = list(tools)
        self.num_calls = 0

    def read(self, text: str, *, is_complete: bool) -> list[Piece]:
        """The calls in the text between two markers; `is_complete`: the end marker was there."""
        try:
            parsed = self._tokenizer.tool_parser(text, self._tools)
            calls = [_name_and_arguments(one) for one in _as_list(parsed)]
        except _PARSER_ERRORS as error:
            logger.warning(
                "tool call not understood",
                extra={"request_id": self._request_id, "error": type(error).__name__},
            )
            return [self._as_text(text, is_complete=is_complete)]
        return [self._piece(name, arguments) for name, arguments in calls]

    def _as_text(self, text: str, *, is_complete: bool) -> Piece:
        end = self._tokenizer.tool_call_end if is_complete else ""
        whole = self._tokenizer.tool_call_start + text + end
        return Piece(channel=wire.Channel.CONTENT, text=whole)

    def _piece(self, name: str, arguments: str) -> Piece:
        index, self.num_calls = self.num_calls, self.num_calls + 1
        # Not random: a resumed answer must give the same call the same id.
        digest = hashlib.sha256(f"{self._request_id}:{index}".encode()).hexdigest()
        call = wire.ToolCallPart(index=index, call_id=f"call_{digest[:24]}", name=name)
        return Piece(channel=wire.Channel.TOOL_CALL, text=arguments, tool_call=call)


def _as_list(parsed: Any) -> list[Any]:
    return parsed if isinstance(parsed, list) else [parsed]


def _name_and_arguments(call: dict[str, Any]) -> tuple[str, str]:
    name, arguments = call["name"], call.get("arguments", {})
    if not isinstance(name, str) or not name:
        raise ValueError("a tool call without a name")
    if isinstance(arguments, str):
        arguments = json.loads(arguments)
    if not isinstance(arguments, dict):
        raise ValueError("arguments that are no object")
    return name, json.dumps(arguments, ensure_ascii=False)
