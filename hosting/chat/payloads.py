"""Rows as the JSON that the chat page reads."""

from __future__ import annotations

from typing import Any

from hosting.models import (
    Conversation,
    Generation,
    HostedModel,
    Message,
    ToolCall,
    ToolServer,
)
from hosting.models.conversation import from_a_word


def conversation_line(conversation: Conversation) -> dict[str, Any]:
    """For the list. The row comes from `with_is_generating`, and `matching` where one searches."""
    snippet: str | None = getattr(conversation, "snippet", None)
    return {
        "id": str(conversation.pk),
        "title": conversation.title,
        "updated_at": conversation.updated_at.isoformat(),
        "is_pinned": conversation.is_pinned,
        "is_generating": getattr(conversation, "is_generating", False),
        "snippet": snippet and from_a_word(snippet),
    }


def conversation(row: Conversation) -> dict[str, Any]:
    leaf = row.active_leaf_id
    return conversation_line(row) | {
        "system_prompt": row.system_prompt,
        "model": row.model_name,
        "active_leaf": str(leaf) if leaf else None,
        "tool_servers": list(row.tool_servers.values_list("pk", flat=True)),
        "created_at": row.created_at.isoformat(),
    }


def message(row: Message) -> dict[str, Any]:
    made_by: Generation | None = getattr(row, "generation", None)
    return {
        "id": str(row.pk),
        "parent": str(row.parent_id) if row.parent_id else None,
        "role": row.role,
        "content": row.content,
        "reasoning": row.reasoning,
        "tool_calls": row.tool_calls,
        "created_at": row.created_at.isoformat(),
        "model": made_by.model_name if made_by else None,
        "generation": generation(made_by) if made_by else None,
        "images": _images(row),
        "calls": [call(one) for one in row.calls.all()] if row.role == Message.Role.TOOL else [],
    }


def call(row: ToolCall) -> dict[str, Any]:
    return {
        "id": str(row.pk),
        "server": row.server_name,
        "tool": row.tool_name or row.called_name,
        "arguments": row.arguments,
        "state": row.state,
        "result": row.result,
    }


def tool_server(row: ToolServer) -> dict[str, Any]:
    return {
        "id": row.pk,
        "name": row.name,
        "tools": [
            {name: one[name] for name in ("name", "description")} for one in row.usable_tools
        ],
    }


def generation(row: Generation) -> dict[str, Any]:
    """Usage and timings are there once it has ended."""
    ended = not row.is_open
    return {
        "id": str(row.pk),
        "state": row.state,
        "finish_reason": row.finish_reason or None,
        "error": {"code": row.error_code, "detail": row.error_detail} if row.error_code else None,
        "usage": _usage(row) if ended else None,
        "timings": _timings(row) if ended else None,
    }


def model(row: HostedModel, *, state: str) -> dict[str, Any]:
    return {
        "name": row.name,
        "display_name": row.display_name or row.name,
        "state": state,
        "context_limit_tokens": row.context_limit_tokens,
        "is_default": row.is_default,
        "supports_thinking": row.supports_thinking,
        "supports_tools": row.supports_tools,
        "supports_images": row.supports_images,
    }


def _images(row: Message) -> list[str]:
    """Their ids."""
    is_asked = row.role == Message.Role.USER
    return [str(one.image_id) for one in row.message_images.all()] if is_asked else []


def _usage(row: Generation) -> dict[str, int]:
    names = ("prompt_tokens", "cached_tokens", "completion_tokens", "reasoning_tokens")
    return {name: getattr(row, name) for name in names}


def _timings(row: Generation) -> dict[str, float | None]:
    names = ("queued_seconds", "ttft_seconds", "decode_seconds")
    return {name: getattr(row, name) for name in names}
