"""Requests as Codex sends them, turn by turn: its structure, made-up text."""

from __future__ import annotations

from typing import Any

SHELL: dict[str, Any] = {
    "type": "function",
    "name": "shell",
    "description": "Runs a command.",
    "strict": False,
    "parameters": {
        "type": "object",
        "properties": {"command": {"type": "array", "items": {"type": "string"}}},
        "required": ["command"],
        "additionalProperties": False,
    },
}
PATCH = {
    "type": "custom",
    "name": "apply_patch",
    "description": "Edits files.",
    "format": {"type": "grammar", "syntax": "lark", "definition": "start: X"},
}
FILES: dict[str, Any] = {  # a server of tools by the Model Context Protocol
    "type": "namespace",
    "name": "mcp__files",
    "description": "Tools in the mcp__files namespace.",
    "tools": [
        {
            "type": "function",
            "name": "read_file",
            "description": "Reads a file.",
            "strict": False,
            "parameters": {"type": "object", "properties": {"path": {"type": "string"}}},
        }
    ],
}
ARGUMENTS = '{"command":  ["ls", "-l"]}'  # as a model wrote it, with its odd space


def said(role: str, text: str) -> dict[str, Any]:
    kind = "output_text" if role == "assistant" else "input_text"
    return {"type": "message", "role": role, "content": [{"type": kind, "text": text}]}


def request(given: list[dict[str, Any]], *, instructions: str = "You code.") -> dict[str, Any]:
    return {
        "model": "demo",
        "instructions": instructions,
        "input": given,
        "tools": [
            SHELL,
            PATCH,
            FILES,
            {"type": "web_search", "external_web_access": False},
        ],
        "tool_choice": "auto",
        "parallel_tool_calls": True,
        "reasoning": {"effort": "medium", "summary": "auto"},
        "store": False,
        "stream": True,
        "include": ["reasoning.encrypted_content"],
        "service_tier": "priority",
        "prompt_cache_key": "019a0000-0000-7000-8000-000000000000",
        "text": {"verbosity": "medium"},
        "client_metadata": {"x-codex-installation-id": "1"},
    }


def first_turn() -> list[dict[str, Any]]:
    return [
        said("developer", "Permissions."),
        said("developer", "Mode."),
        said("user", "<environment_context/>"),
        said("user", "Fix it."),
    ]


def second_turn() -> list[dict[str, Any]]:
    """After a call; the person has changed the mode meanwhile."""
    return [
        *first_turn(),
        {"type": "reasoning", "summary": [], "content": None, "encrypted_content": "foreign"},
        {"type": "function_call", "name": "shell", "arguments": ARGUMENTS, "call_id": "call_1"},
        {"type": "function_call_output", "call_id": "call_1", "output": "a.txt"},
        said("developer", "Another mode."),
    ]


def third_turn() -> list[dict[str, Any]]:
    patch = {"type": "custom_tool_call", "name": "apply_patch", "input": "*** X", "call_id": "c2"}
    return [
        *second_turn(),
        said("assistant", "There is one file."),
        patch,
        {"type": "custom_tool_call_output", "call_id": "c2", "output": "Done."},
    ]
