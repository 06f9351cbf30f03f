"""Requests as Claude Code sends them, turn by turn: its structure, made-up text."""

from __future__ import annotations

import json
from typing import Any

HEADERS = {
    "anthropic-version": "2023-06-01",
    "anthropic-beta": (
        "claude-code-20250219,interleaved-thinking-2025-05-14,context-management-2025-06-27,"
        "prompt-caching-scope-2026-01-05,effort-2025-11-24,advanced-tool-use-2025-11-20"
    ),
    "anthropic-dangerous-direct-browser-access": "true",
    "User-Agent": "claude-cli/2.1.197 (external, cli)",
    "x-app": "cli",
    "x-claude-code-session-id": "3a0f4a49-3d1d-4f0b-9a0e-0c8f3a4b5c6d",
    "x-stainless-retry-count": "0",
}
EPHEMERAL = {"type": "ephemeral"}
REMINDER = "<system-reminder>\nToday is a day.\n</system-reminder>\n"
SKILLS = "The following skills are available: none."
TOOLS: list[dict[str, Any]] = [
    {
        "name": name,
        "description": f"Does {name}.",
        "input_schema": {
            "$schema": "https://json-schema.org/draft/2020-12/schema",
            "type": "object",
            "properties": {"file_path": {"type": "string"}},
            "required": ["file_path"],
            "additionalProperties": False,
        },
        "eager_input_streaming": True,
    }
    for name in ("Read", "Write")
] + [{"type": "web_search_20250305", "name": "web_search", "max_uses": 8}]


def system(nonce: str) -> list[dict[str, Any]]:
    billing = f"x-anthropic-billing-header: cc_version=2.1.197.{nonce}; cc_entrypoint=cli;"
    return [
        {"type": "text", "text": billing},
        {"type": "text", "text": "You are a coding agent.", "cache_control": EPHEMERAL},
        {"type": "text", "text": "Be careful with files.", "cache_control": EPHEMERAL},
    ]


def request(messages: list[dict[str, Any]], *, nonce: str = "0df") -> dict[str, Any]:
    session = {"device_id": "d" * 64, "account_uuid": "", "session_id": "3a0f4a49"}
    return {
        "model": "demo",
        "messages": messages,
        "system": system(nonce),
        "tools": TOOLS,
        "metadata": {"user_id": json.dumps(session)},
        "max_tokens": 32000,
        "thinking": {"type": "adaptive"},
        "context_management": {"edits": [{"type": "clear_thinking_20251015", "keep": "all"}]},
        "output_config": {"effort": "high"},
        "stream": True,
    }


def first_turn() -> list[dict[str, Any]]:
    return [
        {
            "role": "user",
            "content": [
                {"type": "text", "text": REMINDER},
                {"type": "text", "text": "Read a.txt", "cache_control": EPHEMERAL},
            ],
        },
        {"role": "system", "content": SKILLS},
    ]


def second_turn() -> list[dict[str, Any]]:
    """After a call of two tools, one of which failed."""
    result = {"type": "tool_result", "tool_use_id": "toolu_1", "content": "1\talpha"}
    failure = {
        "type": "tool_result",
        "tool_use_id": "toolu_2",
        "content": [{"type": "text", "text": "<tool_use_error>no b</tool_use_error>"}],
        "is_error": True,
        "cache_control": EPHEMERAL,
    }
    calls = [
        {"type": "tool_use", "id": id, "name": "Read", "input": {"file_path": path}}
        for id, path in (("toolu_1", "a.txt"), ("toolu_2", "b.txt"))
    ]
    thought = {"type": "thinking", "thinking": "Two files.", "signature": "hearth"}
    said = {"type": "text", "text": "I read them."}
    return [
        *first_turn(),
        {"role": "assistant", "content": [thought, said, *calls]},
        {"role": "user", "content": [result, failure]},
    ]


def title_request() -> dict[str, Any]:
    """The second, smaller call, beside the first."""
    return {
        "model": "demo",
        "messages": [{"role": "user", "content": "Read a.txt"}],
        "system": [*system("d7d")[:1], {"type": "text", "text": "Write a title."}],
        "tools": [],
        "metadata": {"user_id": "{}"},
        "max_tokens": 512,
        "temperature": 1,
        "output_config": {"effort": "low"},
        "stream": True,
    }
