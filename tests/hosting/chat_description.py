"""The chat page's own JSON addresses, described so that a tester can ask them."""

from __future__ import annotations

from typing import Any

_TEXT, _FLAG, _ID = {"type": "string"}, {"type": "boolean"}, {"type": "string", "format": "uuid"}
_OPTIONS = {
    "type": "object",
    "properties": {
        "temperature": {"type": "number", "minimum": 0, "maximum": 2},
        "top_p": {"type": "number", "minimum": 0.001, "maximum": 1},
        "top_k": {"type": "integer", "minimum": 0},
        "max_tokens": {"type": "integer", "minimum": 1},
        "seed": {"type": "integer", "minimum": 0},
        "enable_thinking": _FLAG,
    },
}


def _object(required: tuple[str, ...] = (), **properties: Any) -> dict[str, Any]:
    return {"type": "object", "properties": properties, "required": list(required)}


def _operation(body: dict[str, Any] | None = None, **parameters: Any) -> dict[str, Any]:
    described: dict[str, Any] = {
        "parameters": [
            {
                "name": name,
                "in": "path" if name.endswith("_id") else "query",
                "required": name.endswith("_id"),
                "schema": schema,
            }
            for name, schema in parameters.items()
        ],
        "responses": {"default": {"description": "JSON", "content": {"application/json": {}}}},
    }
    if body is not None:
        described["requestBody"] = {"content": {"application/json": {"schema": body}}}
    return described


_SERVERS = {"type": "array", "items": {"type": "integer"}}
_MESSAGE = _object(
    ("content",),
    content=_TEXT,
    conversation=_ID,
    parent=_ID,
    model=_TEXT,
    system_prompt=_TEXT,
    options=_OPTIONS,
    tool_servers=_SERVERS,
)
_CHANGES = _object(
    title=_TEXT,
    is_pinned=_FLAG,
    system_prompt=_TEXT,
    model=_TEXT,
    active_leaf=_ID,
    tool_servers=_SERVERS,
)
_DECISION = _object(("decision",), decision={"enum": ["once", "conversation", "no"]})
CHAT_DESCRIPTION = {
    "openapi": "3.0.3",
    "info": {"title": "The chat page", "version": "1"},
    "paths": {
        "/chat/conversations": {"get": _operation(q=_TEXT, before=_TEXT)},
        "/chat/conversations/{conversation_id}": {
            "get": _operation(conversation_id=_ID),
            "patch": _operation(_CHANGES, conversation_id=_ID),
            "delete": _operation(conversation_id=_ID),
        },
        "/chat/conversations/{conversation_id}/export": {
            "get": _operation(conversation_id=_ID, format=_TEXT)
        },
        "/chat/messages": {"post": _operation(_MESSAGE)},
        "/chat/messages/{message_id}/regenerate": {
            "post": _operation(_object(model=_TEXT, options=_OPTIONS), message_id=_ID)
        },
        "/chat/generations/{generation_id}/cancel": {"post": _operation(generation_id=_ID)},
        "/chat/messages/{message_id}/stop": {"post": _operation(message_id=_ID)},
        "/chat/messages/{message_id}/go-on": {"post": _operation(message_id=_ID)},
        "/chat/tool-calls/{call_id}/decide": {"post": _operation(_DECISION, call_id=_ID)},
        "/chat/tool-servers": {"get": _operation()},
        "/chat/models": {"get": _operation()},
    },
}
