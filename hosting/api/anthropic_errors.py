"""How Anthropic's messages API says no: its types, its statuses, its sentence for a long prompt."""

from __future__ import annotations

from typing import Any

from hosting.api.errors import ApiError, ErrorAnswer
from hosting.logs import request_id_of_this_task

_OVERLOADED = 529
# A message is read as the chat that asks for the same (anthropic_request.py)
_NAMED_HERE = {
    "max_completion_tokens": "max_tokens",
    "reasoning_effort": "output_config.effort",
    "response_format": "output_config.format",
    "parallel_tool_calls": "tool_choice.disable_parallel_tool_use",
    "stop": "stop_sequences",
}
_TYPES = {
    400: "invalid_request_error",
    401: "authentication_error",
    402: "billing_error",
    403: "permission_error",
    404: "not_found_error",
    413: "request_too_large",
    429: "rate_limit_error",
    _OVERLOADED: "overloaded_error",
}


def anthropic_form(error: ApiError) -> ErrorAnswer:
    status = _OVERLOADED if error.code == "server_is_overloaded" else error.status_code
    body: dict[str, Any] = {
        "type": "error",
        "error": {"type": _type(status), "message": _message(error)},
        "request_id": request_id_of_this_task.get(),
    }
    return ErrorAnswer(status=status, body=body)


def _type(status: int) -> str:
    return _TYPES.get(status, "api_error" if status >= 500 else "invalid_request_error")


def _message(error: ApiError) -> str:
    """There is no field for the parameter, so the message begins with it."""
    if error.code == "context_length_exceeded" and error.numbers:
        asked, limit = error.numbers["prompt_tokens"], error.numbers["limit_tokens"]
        # Claude Code reads both numbers, and shortens the conversation
        return f"prompt is too long: {asked:.0f} tokens > {limit:.0f} maximum"
    param = _NAMED_HERE.get(error.param or "", error.param)
    is_said = param is None or param in error.message
    return error.message if is_said else f"{param}: {error.message}"
