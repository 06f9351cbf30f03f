"""The models in Anthropic's dialect, for whoever sends `anthropic-version`."""

from __future__ import annotations

import datetime
from collections.abc import Iterable
from typing import Any

from rest_framework.request import Request

from hosting.api.anthropic_request import ALIAS
from hosting.models import HostedModel


def speaks_anthropic(http_request: Any) -> bool:
    """Whatever the version: clients send several, and none is refused."""
    return "anthropic-version" in http_request.headers


def model_list(rows: Iterable[HostedModel], http_request: Request) -> dict[str, Any]:
    """All at once, so that there is never a next page.

    Claude Code shows only names that begin with claude or anthropic: it gets the aliases.
    """
    is_claude_code = http_request.headers.get("User-Agent", "").startswith("claude-")
    data = [one_model(row, prefix=ALIAS if is_claude_code else "") for row in rows]
    return {
        "data": data,
        "has_more": False,
        "first_id": data[0]["id"] if data else None,
        "last_id": data[-1]["id"] if data else None,
    }


def one_model(row: HostedModel, *, prefix: str = "") -> dict[str, Any]:
    created_at = row.created_at.astimezone(datetime.UTC)
    return {
        "type": "model",
        "id": prefix + row.name,
        "display_name": str(row),
        "created_at": created_at.isoformat(timespec="seconds").replace("+00:00", "Z"),
        "lifecycle": "active",
        "max_input_tokens": row.context_limit_tokens,
        "max_tokens": row.context_limit_tokens,
    }
