"""The body of POST /v1/responses: each field honoured, ignored or refused by name.

It is read as the chat completion that asks for the same; what is wrong is named as it is here.
"""

from __future__ import annotations

import dataclasses
import re
from typing import Any

from drf_spectacular.utils import extend_schema_field
from rest_framework import serializers

from hosting.api.chat_request import ChatRequest, ToolChoice, read_chat_request
from hosting.api.checked import checked
from hosting.api.dialect import Caller
from hosting.api.errors import ApiError, ErrorAnswer, invalid, openai_form, unsupported
from hosting.api.responses_input import chat_messages
from hosting.api.responses_reply import Shape
from hosting.api.responses_tools import (
    chat_tool_choice,
    chat_tools,
    echoed_tools,
    item_tools,
)
from hosting.api.sampling_fields import UNSERVED, deadline, optional, tier
from hosting.fields import Flag, Number, Text, Whole
from hosting.models import Generation

_SAME = (
    *("model", "stream", "temperature", "top_p", "top_k", "min_p", "presence_penalty"),
    *("frequency_penalty", "repetition_penalty", "seed", "stop", "logit_bias"),
    *("parallel_tool_calls", "chat_template_kwargs"),
    *("deadline_seconds", "service_tier", *UNSERVED),
)
_NAMED_HERE = {
    "max_completion_tokens": "max_output_tokens",
    "reasoning_effort": "reasoning.effort",
    "response_format": "text.format",
}
_NEEDS_STORE = {
    "previous_response_id": "Responses are not stored here: send the whole input.",
    "conversation": "Conversations are not stored here: send the whole input.",
    "prompt": "Prompts are not stored here: send instructions and input.",
    "background": "A response cannot be made in the background here: use the stream.",
}
_SEALED, _LOGPROBS = "reasoning.encrypted_content", "message.output_text.logprobs"


@extend_schema_field({"oneOf": [{"type": "string"}, {"type": "array", "items": {}, "minItems": 1}]})
class Input(serializers.JSONField):
    """Text, or items."""


class InputTokensRequest(serializers.Serializer[Any]):
    """Fields that are not listed are ignored, or mean what they mean for chat completions. Images
    are parts of a user's message, or of a call's output, of the type input_image with a data: URL
    in base64."""

    model = Text()
    input = Input()
    instructions = Text(**optional(allow_blank=True))
    tools = serializers.ListField(child=serializers.DictField(), **optional())
    tool_choice = ToolChoice(**optional())
    parallel_tool_calls = Flag(**optional())
    text = serializers.DictField(**optional())
    reasoning = serializers.DictField(**optional())
    truncation = serializers.ChoiceField(choices=("auto", "disabled"), **optional())


class ResponseRequest(InputTokensRequest):
    stream = Flag(**optional())
    max_output_tokens = Whole(**optional(min_value=1, max_value=10_000_000))
    temperature = Number(**optional(min_value=0, max_value=2))
    top_p = Number(**optional(min_value=0, max_value=1))
    top_logprobs = Whole(**optional(min_value=0, max_value=20))
    include = serializers.ListField(child=Text(), **optional())
    metadata = serializers.DictField(**optional())
    prompt_cache_key = Text(**optional(allow_blank=True))
    safety_identifier = Text(**optional(allow_blank=True))
    store = Flag(**optional())
    deadline_seconds = deadline()
    ignore_eos = Flag(**optional())
    min_tokens = Whole(**optional(min_value=0))
    service_tier = tier()


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class ReadResponse:
    """A checked body: the chat it stands for, and what its answer repeats."""

    chat: ChatRequest
    body: dict[str, Any]

    def shape(self, generation: Generation) -> Shape:
        include = self.body.get("include") or ()
        return Shape(
            key=generation.pk.hex,
            created_at=int(generation.created_at.timestamp()),
            echo=_echo(self.body, self.chat),
            tools=item_tools(self.body.get("tools") or []),
            seals_reasoning=_SEALED in include,
            wants_logprobs=self.chat.wants_logprobs,
        )


def read_response_request(body: dict[str, Any], caller: Caller) -> ReadResponse:
    """Raises ApiError, ValidationError or Refusal."""
    checked(ResponseRequest, body)
    return ReadResponse(chat=_read_chat(body, caller), body=body)


def read_input_tokens_request(body: dict[str, Any], caller: Caller) -> ChatRequest:
    """Raises ApiError, ValidationError or Refusal."""
    checked(InputTokensRequest, body)
    return _read_chat(body, caller)


def error_form(error: ApiError) -> ErrorAnswer:
    """OpenAI's, with a chat's field named as the field of this body that it was made of."""
    answer = openai_form(error)
    if error.param:
        answer.body["error"]["param"] = _named_here(error.param)
    return answer


def _read_chat(body: dict[str, Any], caller: Caller) -> ChatRequest:
    for name, message in _NEEDS_STORE.items():
        if body.get(name):
            raise unsupported(name, message)
    return read_chat_request(_chat_body(body), caller)


def _chat_body(body: dict[str, Any]) -> dict[str, Any]:
    text, reasoning = body.get("text") or {}, body.get("reasoning") or {}
    chat = {name: body[name] for name in _SAME if name in body}
    chat["messages"] = chat_messages(body["input"], instructions=body.get("instructions"))
    chat["continue_final_message"] = False  # an item that is done
    chat["max_completion_tokens"] = body.get("max_output_tokens")
    chat["reasoning_effort"] = reasoning.get("effort")
    chat["tools"] = chat_tools(body.get("tools") or [])
    chat["tool_choice"] = chat_tool_choice(body.get("tool_choice"))
    chat["response_format"] = _response_format(text.get("format"))
    if body.get("top_logprobs") is not None or _LOGPROBS in (body.get("include") or ()):
        chat["logprobs"], chat["top_logprobs"] = True, body.get("top_logprobs") or 0
    return chat


def _response_format(given: Any) -> dict[str, Any] | None:
    if given is None:
        return None
    if not isinstance(given, dict):
        raise invalid("text.format", "This must be an object.")
    if given.get("type") != "json_schema":
        return given
    return {
        "type": "json_schema",
        "json_schema": {name: value for name, value in given.items() if name != "type"},
    }


def _named_here(param: str) -> str:
    first = re.split(r"[.\[]", param)[0]
    if first == "messages":
        return "input"
    named = _NAMED_HERE.get(first, first) + param.removeprefix(first)
    return named.replace(".json_schema", "").replace(".function.", ".")


def _echo(body: dict[str, Any], chat: ChatRequest) -> dict[str, Any]:
    order = chat.orders[0]
    reasoning, text = body.get("reasoning") or {}, body.get("text") or {}
    sampling, model = order.sampling, order.model
    return {
        "model": model.name,
        "instructions": body.get("instructions"),
        "max_output_tokens": body.get("max_output_tokens"),
        "max_tool_calls": None,
        "parallel_tool_calls": body.get("parallel_tool_calls") is not False,
        "previous_response_id": None,
        "background": False,
        "store": False,
        "truncation": "disabled",
        "service_tier": chat.service_tier or "default",
        "metadata": body.get("metadata") or {},
        "prompt_cache_key": body.get("prompt_cache_key"),
        "safety_identifier": body.get("safety_identifier"),
        "reasoning": {"effort": reasoning.get("effort"), "summary": reasoning.get("summary")},
        "text": {"format": text.get("format") or {"type": "text"}},
        "tools": echoed_tools(body.get("tools") or []),
        "tool_choice": body.get("tool_choice") or "auto",
        "temperature": _first(sampling.temperature, model.default_temperature, 1.0),
        "top_p": _first(sampling.top_p, model.default_top_p, 1.0),
        "top_logprobs": sampling.top_logprobs or 0,
        "presence_penalty": _first(sampling.presence_penalty, model.default_presence_penalty, 0.0),
        "frequency_penalty": _first(
            sampling.frequency_penalty, model.default_frequency_penalty, 0.0
        ),
    }


def _first(*values: float | None) -> float:
    return next(value for value in values if value is not None)
