"""Requests as OpenCode sends them (AI SDK, openai-compatible): its structure, made-up text."""

from __future__ import annotations

from typing import Any

ARGUMENTS = '{"filePath": "a.txt",  "offset":0}'  # as a model wrote it, with its odd spaces
TOOLS = [
    {
        "type": "function",
        "function": {
            "name": name,
            "description": f"Does {name}.",
            "parameters": {
                "$schema": "https://json-schema.org/draft/2020-12/schema",
                "type": "object",
                "properties": {"filePath": {"type": "string"}, "offset": {"type": "number"}},
                "required": ["filePath"],
            },
        },
    }
    for name in ("read", "write")
]


def request(messages: list[dict[str, Any]], *, system: str = "You code.") -> dict[str, Any]:
    return {
        "model": "demo",
        "max_tokens": 32000,
        "top_p": 1,
        "messages": [{"role": "system", "content": system}, *messages],
        "tools": TOOLS,
        "tool_choice": "auto",
        "stream": True,
        "stream_options": {"include_usage": True},
    }


def first_turn() -> list[dict[str, Any]]:
    return [{"role": "user", "content": [{"type": "text", "text": "Read a.txt"}]}]


def second_turn() -> list[dict[str, Any]]:
    function = {"name": "read", "arguments": ARGUMENTS}
    call = {"id": "call_1", "type": "function", "function": function}
    return [
        *first_turn(),
        {
            "role": "assistant",
            "content": "",
            "reasoning_content": "A file.",
            "tool_calls": [call],
        },
        {"role": "tool", "tool_call_id": "call_1", "content": "alpha"},
        {"role": "system", "content": "The person has opened b.txt."},
    ]


def third_turn() -> list[dict[str, Any]]:
    return [
        *second_turn(),
        {"role": "assistant", "content": "It says alpha."},
        {"role": "user", "content": "And b.txt?"},
    ]
