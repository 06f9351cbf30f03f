"""The body of POST /v1/messages: each field honoured, ignored or refused by name.

It is read as the chat completion that asks for the same; what is wrong is named as it is here.
"""

from __future__ import annotations

import dataclasses
from typing import Any

from drf_spectacular.utils import extend_schema_field
from rest_framework import serializers

from engine import wire
from hosting.actions.conversations import get_servable_model
from hosting.actions.refusals import Refusal
from hosting.api.anthropic_messages import chat_messages
from hosting.api.chat_request import ChatRequest, read_chat_request
from hosting.api.checked import checked
from hosting.api.dialect import Caller
from hosting.api.errors import invalid
from hosting.api.sampling_fields import deadline, optional
from hosting.fields import Flag, Number, Text, Whole

ALIAS = "anthropic/"  # Claude Code's model list shows only names that begin so
_SAME = (
    *("stream", "temperature", "top_p", "top_k"),
    *("ignore_eos", "min_tokens", "deadline_seconds"),
)
_NO_THINKING = ("disabled", "between_tools")  # what is said between tools is text here
_THINKING = ("enabled", "adaptive", *_NO_THINKING)
_EFFORTS = ("low", "medium", "high", "xhigh", "max")
_TOOL_CHOICES = {"auto": "auto", "any": "required", "none": "none"}


@extend_schema_field({"oneOf": [{"type": "string"}, {"type": "array", "items": {}}]})
class TextOrBlocks(serializers.JSONField):
    """Text, or blocks of it."""


class TokenCountRequest(serializers.Serializer[Any]):
    """Fields that are not listed are ignored. Images are blocks of a user's message, or of a tool's
    result, with a source in base64."""

    model = Text()
    messages = serializers.ListField(child=serializers.DictField())
    system = TextOrBlocks(**optional())
    tools = serializers.ListField(child=serializers.DictField(), **optional())
    tool_choice = serializers.DictField(**optional())
    thinking = serializers.DictField(**optional())
    output_config = serializers.DictField(**optional())


class MessageRequest(TokenCountRequest):
    max_tokens = Whole(**optional(min_value=1, max_value=10_000_000))
    stream = Flag(**optional())
    stop_sequences = serializers.ListField(
        child=Text(max_length=wire.MAX_STOP_CHARACTERS), max_length=wire.MAX_STOPS, **optional()
    )
    temperature = Number(**optional(min_value=0, max_value=2))
    top_p = Number(**optional(min_value=0, max_value=1))
    top_k = Whole(**optional(min_value=-1, max_value=1_000_000))
    deadline_seconds = deadline()
    ignore_eos = Flag(**optional())
    min_tokens = Whole(**optional(min_value=0))


def read_message_request(body: dict[str, Any], caller: Caller) -> ChatRequest:
    """The chat that it stands for. Raises ApiError, ValidationError or Refusal."""
    checked(MessageRequest, body)
    chat = read_chat_request(_chat_body(body), caller)
    stops = tuple(body.get("stop_sequences") or ())
    orders = tuple(dataclasses.replace(order, stop=stops) for order in chat.orders)
    return dataclasses.replace(chat, orders=orders)


def read_count_request(body: dict[str, Any], caller: Caller) -> ChatRequest:
    """Raises ApiError, ValidationError or Refusal."""
    checked(TokenCountRequest, body)
    return read_chat_request(_chat_body(body), caller)


def _chat_body(body: dict[str, Any]) -> dict[str, Any]:
    output, choice = body.get("output_config") or {}, body.get("tool_choice") or {}
    chat = {name: body[name] for name in _SAME if name in body}
    chat["model"] = model_name(body["model"])
    chat["messages"] = chat_messages(body["messages"], system=body.get("system"))
    chat["max_completion_tokens"] = body.get("max_tokens")
    chat["tools"] = _tools(body.get("tools") or [])
    chat["tool_choice"] = _tool_choice(choice) if chat["tools"] else None
    if choice.get("disable_parallel_tool_use"):
        chat["parallel_tool_calls"] = False
    chat["chat_template_kwargs"] = _template_options(body.get("thinking"), output.get("effort"))
    chat["response_format"] = _response_format(output.get("format") or body.get("output_format"))
    return chat


def model_name(name: str) -> str:
    """A model that is really called so comes before the alias."""
    short = name.removeprefix(ALIAS)
    return short if name != short and not _is_servable(name) else name


def _is_servable(name: str) -> bool:
    try:
        get_servable_model(name)
    except Refusal:
        return False
    return True


def _tools(tools: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Those of the client's own making. Kinds that Anthropic's servers run are ignored.

    Deferred ones come last: more of them in a later turn leave the others' prefix as it was.
    """
    own = [
        (place, tool)
        for place, tool in enumerate(tools)
        if tool.get("type", "custom") in ("custom", None)
    ]
    own.sort(key=lambda placed: placed[1].get("defer_loading") is True)
    return [_tool(tool, f"tools.{place}") for place, tool in own]


def _tool(tool: dict[str, Any], where: str) -> dict[str, Any]:
    name, schema = tool.get("name"), tool.get("input_schema")
    if not isinstance(name, str) or not name:
        raise invalid(f"{where}.name", "A tool needs a name.")
    if not isinstance(schema, dict):
        raise invalid(f"{where}.input_schema", "This must be a JSON schema.")
    function: dict[str, Any] = {"name": name, "parameters": schema}
    if tool.get("strict") is True:
        function["strict"] = True
    if isinstance(tool.get("description"), str):
        function["description"] = tool["description"]
    return {"type": "function", "function": function}


def _tool_choice(choice: dict[str, Any]) -> Any:
    match choice.get("type", "auto"):
        case "auto" | "any" | "none" as kind:
            return _TOOL_CHOICES[kind]
        case "tool" if isinstance(choice.get("name"), str):
            return {"type": "function", "function": {"name": choice["name"]}}
    raise invalid("tool_choice", "This must be auto, any, none, or a tool by its name.")


def _template_options(thinking: Any, effort: Any) -> dict[str, Any]:
    """Without a word about thinking the template does what it does by itself."""
    options: dict[str, Any] = {}
    if (kind := (thinking or {}).get("type")) is not None:
        kind = _one_of(_THINKING, kind, "thinking.type")
        options["enable_thinking"] = kind not in _NO_THINKING
    if effort is not None:
        _one_of(_EFFORTS, effort, "output_config.effort")
        if options.get("enable_thinking", True):
            options["reasoning_effort"] = effort
    return options


def _one_of(known: tuple[str, ...], word: Any, where: str) -> Any:
    if word not in known:
        raise invalid(where, f"This must be one of {', '.join(known)}.")
    return word


def _response_format(given: Any) -> dict[str, Any] | None:
    if given is None:
        return None
    if not isinstance(given, dict) or given.get("type") != "json_schema":
        raise invalid("output_config.format", "The format must be of the type json_schema.")
    schema = {"name": "answer", "schema": given.get("schema"), "strict": True}
    return {"type": "json_schema", "json_schema": schema}
