"""A tool's result as text: what is no text is told by its kind."""

from __future__ import annotations

import dataclasses
import json
from typing import Any

from hosting.mcp.texts import cleaned

MAX_TEXT = 32_000  # characters: what a model reads of a result, and a person


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    text: str
    is_error: bool


def read_result(told: dict[str, Any]) -> Result:
    content = told.get("content")
    parts = [_part(one) for one in content] if isinstance(content, list) else []
    text = "\n".join(filter(None, parts))
    if not text and isinstance(structured := told.get("structuredContent"), dict):
        text = json.dumps(structured, ensure_ascii=False)
    return Result(text=cleaned(text, most=MAX_TEXT), is_error=told.get("isError") is True)


def _part(part: Any) -> str:
    match part:
        case {"type": "text", "text": str(text)}:
            return text
        case {"type": "resource", "resource": {"text": str(text)}}:
            return text
        case {"type": "resource_link", "uri": str(uri)}:
            return f"[a link: {uri}]"
        case {"type": str(kind)}:
            return f"[{kind[:40]}: not shown]"
    return ""
