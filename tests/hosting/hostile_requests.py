"""Bodies that no route may take, each with the field that its refusal must name."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any

CHAT, COMPLETIONS, RESPONSES, MESSAGES, EMBEDDINGS, RERANK = (
    "/v1/chat/completions",
    "/v1/completions",
    "/v1/responses",
    "/v1/messages",
    "/v1/embeddings",
    "/v1/rerank",
)
HELLO = [{"role": "user", "content": "Hi"}]
GOOD: dict[str, dict[str, Any]] = {
    CHAT: {"model": "demo", "messages": HELLO},
    COMPLETIONS: {"model": "demo", "prompt": "Hi"},
    RESPONSES: {"model": "demo", "input": "Hi"},
    MESSAGES: {"model": "demo", "messages": HELLO, "max_tokens": 8},
    EMBEDDINGS: {"model": "demo", "input": "Hi"},
    RERANK: {"model": "demo", "query": "q", "documents": ["d"]},
}
# JSON for Python's reader, or nearly; not for a database or the wire
NOT_STORABLE = (
    *('{"a": NaN}', '{"a": 1e999}', '{"a": "\\ud800"}', '{"a": "\\u0000"}'),
    *('{"a": ' * 500 + "1" + "}" * 500, '{"a": ' * 5000 + "1" + "}" * 5000),
    *('{"a": ' + "9" * 30 + "}", '{"a": ' + "9" * 9000 + "}"),
)
NO_TEXT: tuple[Any, ...] = (7, True, [], {}, 1.5, ["x"])
NO_NUMBER: tuple[Any, ...] = ("7", True, [1], {}, 1e308, -1e308)
NO_FLAG: tuple[Any, ...] = ("true", 1, [], {})
NO_LIST: tuple[Any, ...] = ("x", 7, {}, True)
NO_OBJECT: tuple[Any, ...] = ("x", 7, [1], True)
NO_MESSAGES: tuple[Any, ...] = (
    *NO_LIST,
    [],
    [7],
    [None],
    ["x"],
    [{}],
    [{"role": 7, "content": "x"}],
    [{"role": ["user"], "content": "x"}],
    [{"role": "king", "content": "x"}],
    [{"role": "user", "content": 7}],
    [{"role": "user", "content": {"type": "text"}}],
    [{"role": "user", "content": [7]}],
    [{"role": "user", "content": [{"type": "text"}]}],
    [{"role": "user", "content": [{"type": "text", "text": 7}]}],
    [{"role": "user", "content": [{"type": "hologram"}]}],
    [{"role": "user", "content": [{"type": ["text"]}]}],
)
NO_CALLS: tuple[Any, ...] = (7, [7], [{}], [{"id": 7, "function": {"name": "f"}}])
NO_TOOLS: tuple[Any, ...] = (*NO_LIST, [7], [{"type": "function"}])
_OPTIONAL = {"max_tokens"}
NO_DEADLINE: tuple[Any, ...] = (*NO_NUMBER, 0, -1, 86_401)
_NUMBERS = ("temperature", "top_p", "presence_penalty", "frequency_penalty", "min_p")
_BAD: dict[str, dict[str, tuple[Any, ...]]] = {
    CHAT: {
        "model": (*NO_TEXT, "", "gone", "../../etc/passwd", "x" * 5000),
        "messages": NO_MESSAGES,
        **dict.fromkeys(_NUMBERS, NO_NUMBER),
        "n": (0, -1, 10**6, "2", 1.5),
        "max_tokens": (0, -1, 1.5, "8", 10**30),
        "seed": ("x", 1.5, 10**30),
        "stream": NO_FLAG,
        "stop": (7, [7], ["a"] * 99, {}, [""]),
        "logit_bias": (7, [1], {"x": 1}, {"1": "x"}, {"1": 1000}, {"-1": 1}),
        "top_logprobs": (21, -1, "x"),
        "tools": NO_TOOLS,
        "stream_options": NO_OBJECT,
        "response_format": NO_OBJECT,
        "chat_template_kwargs": NO_OBJECT,
        "reasoning_effort": (7, "heroic", []),
    },
    COMPLETIONS: {
        "model": (*NO_TEXT, "", "gone"),
        "prompt": (7, True, {}, [], [{}], [["x"]], [[]], [1.5]),
        **dict.fromkeys(_NUMBERS[:4], NO_NUMBER),
        "max_tokens": (-1, 1.5, "8"),
        "stream": NO_FLAG,
        "suffix": NO_TEXT,
    },
    RESPONSES: {
        "model": (*NO_TEXT, "", "gone"),
        "input": (7, True, [], {}, [7], [{}], [{"type": 7}], [{"type": ["message"]}]),
        "instructions": NO_TEXT,
        **dict.fromkeys(_NUMBERS[:2], NO_NUMBER),
        "max_output_tokens": (0, -1, 1.5, "8"),
        "stream": NO_FLAG,
        "tools": (*NO_LIST, [7], [{"type": "function"}], [{"type": "custom", "name": 7}]),
        "tool_choice": (7, [1], {"type": "function"}, {"type": 7}),
        "text": NO_OBJECT,
        "reasoning": NO_OBJECT,
        "include": (7, [7], {}),
        "metadata": NO_OBJECT,
    },
    MESSAGES: {
        "model": (*NO_TEXT, "", "gone"),
        "messages": NO_MESSAGES,
        "max_tokens": (-1, 1.5, "8", True),
        "temperature": NO_NUMBER,
        "stream": NO_FLAG,
        "stop_sequences": (7, "x", [7]),
        "system": (7, True, [7], [{}]),
        "tools": (*NO_LIST, [7]),
    },
    EMBEDDINGS: {
        "model": (*NO_TEXT, "", "gone"),
        "input": (7, True, {}, [], [{}], ["a", 7], [["x"]], [1.5], [[True]], ["a"] * 2049),
        "dimensions": (0, -1, 1.5, "8", 10**9),
        "encoding_format": (7, "hex", []),
    },
    RERANK: {
        "model": (*NO_TEXT, "", "gone"),
        "query": (*NO_TEXT, ""),
        "documents": (*NO_LIST, [], [7], [{}], [{"text": 7}], ["d"] * 1001),
        "top_n": (0, -1, 1.5, "8"),
        "return_documents": NO_FLAG,
    },
}


def hostile_requests() -> Iterator[tuple[str, dict[str, Any], str]]:
    """Route, body, and the field at fault."""
    for route, value in itertools.product(GOOD, NO_DEADLINE):
        yield route, GOOD[route] | {"deadline_seconds": value}, "deadline_seconds"
    for route, fields in _BAD.items():
        for name, values in fields.items():
            for value in values:
                yield route, GOOD[route] | {name: value}, name
        for name in GOOD[route].keys() - _OPTIONAL:
            yield route, {key: one for key, one in GOOD[route].items() if key != name}, name
    for calls in NO_CALLS:
        said = [*HELLO, {"role": "assistant", "content": None, "tool_calls": calls}]
        yield CHAT, {"model": "demo", "messages": said}, "messages"


def free_fields(value: Any) -> Iterator[tuple[str, str, dict[str, Any]]]:
    """Route, field, and a good body but for `value`, where a field may hold any JSON."""
    inside = {"type": "object", "properties": value}
    function = {"name": "look", "parameters": inside}
    form = {"name": "answer", "schema": inside}
    for route in GOOD:
        yield route, "unknown", GOOD[route] | {"unknown": value}
    for route, field, given in (
        (CHAT, "chat_template_kwargs", {"a": value}),
        (CHAT, "tools", [{"type": "function", "function": function}]),
        (CHAT, "response_format", {"type": "json_schema", "json_schema": form}),
        (RESPONSES, "tools", [{"type": "function", **function}]),
        (RESPONSES, "metadata", {"a": value}),
        (RESPONSES, "text", {"format": {"type": "json_schema", **form}}),
        (MESSAGES, "tools", [{"name": "look", "input_schema": inside}]),
    ):
        yield route, field, GOOD[route] | {field: given}
