"""The body of POST /v1/chat/completions: each field honoured, ignored or refused by name."""

from __future__ import annotations

import dataclasses
from typing import Any

from drf_spectacular.utils import extend_schema_field
from rest_framework import serializers

from hosting.actions.conversations import get_servable_model
from hosting.actions.image_parts import check_images
from hosting.actions.orders import Order
from hosting.api.answer_form import choose_tools, read_grammar
from hosting.api.dialect import Caller
from hosting.api.errors import invalid, unsupported
from hosting.api.messages import wire_messages, wire_tools
from hosting.api.sampling_fields import (
    SamplingFields,
    checked_body,
    numbered_choice,
    optional,
    refuse_unserved,
    sampling_choice,
    told_tier,
)
from hosting.fields import Flag, Text, Whole
from hosting.models import Generation

MAX_CHOICES = 8
_NO_THINKING = ("none", "minimal")
_EFFORTS = (*_NO_THINKING, "low", "medium", "high", "xhigh", "max")


@extend_schema_field({"oneOf": [{"type": "string"}, {"type": "object"}]})
class ToolChoice(serializers.JSONField):
    """One of auto, none and required, or an object that names one function."""


class ChatCompletionRequest(SamplingFields):
    """Fields that are not listed are ignored. Images are parts of a user's message, of the type
    image_url with a data: URL in base64."""

    messages = serializers.ListField(child=serializers.DictField())
    n = Whole(**optional(min_value=1, max_value=MAX_CHOICES))
    max_completion_tokens = Whole(**optional(min_value=1, max_value=10_000_000))
    logprobs = Flag(**optional())
    top_logprobs = Whole(**optional(min_value=0, max_value=20))
    tools = serializers.ListField(child=serializers.DictField(), **optional())
    tool_choice = ToolChoice(**optional())
    functions = serializers.JSONField(**optional())
    function_call = serializers.JSONField(**optional())
    parallel_tool_calls = Flag(**optional())
    response_format = serializers.DictField(**optional())
    structured_outputs = serializers.DictField(**optional())
    guided_json = serializers.JSONField(**optional())
    guided_regex = Text(**optional())
    guided_choice = serializers.ListField(child=Text(), **optional())
    guided_grammar = Text(**optional())
    grammar = Text(**optional())
    reasoning_effort = serializers.ChoiceField(choices=_EFFORTS, **optional())
    chat_template_kwargs = serializers.DictField(**optional())
    continue_final_message = Flag(**optional())
    chat_template = serializers.JSONField(**optional())
    documents = serializers.JSONField(**optional())
    modalities = serializers.JSONField(**optional())


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class ChatRequest:
    """A checked body: one order per choice, and how the answer is to look."""

    orders: tuple[Order, ...]
    is_stream: bool
    includes_usage: bool
    wants_logprobs: bool
    service_tier: str | None


def read_chat_request(body: dict[str, Any], caller: Caller) -> ChatRequest:
    """Raises ApiError, ValidationError or Refusal. Looks the model up in the registry."""
    data = checked_body(ChatCompletionRequest, body)
    _refuse_unsupported(data)
    chosen = choose_tools(
        body.get("tool_choice"),
        wire_tools(body.get("tools")),
        is_parallel=data.get("parallel_tool_calls", True),
    )
    model, messages = get_servable_model(data["model"]), wire_messages(body["messages"])
    check_images(model, messages)
    order = Order(
        user=caller.user,
        kind=Generation.Kind.API,
        model=model,
        messages=messages,
        sampling=sampling_choice(data),
        max_tokens=data.get("max_completion_tokens") or data.get("max_tokens"),
        stop=data.get("stop", ()),
        deadline_seconds=data.get("deadline_seconds"),
        can_wait=told_tier(data) == "flex",
        tools=chosen.tools,
        tool_choice=chosen.choice,
        grammar=read_grammar(body),
        template_options=_template_options(body, data),
        api_key=caller.api_key,
        client=caller.client,
    )
    is_begun = _continues(order, wanted=data.get("continue_final_message"))
    order = dataclasses.replace(order, continues_last=is_begun)
    return ChatRequest(
        orders=tuple(numbered_choice(order, number) for number in range(data.get("n", 1))),
        is_stream=data.get("stream", False),
        includes_usage=bool((data.get("stream_options") or {}).get("include_usage")),
        wants_logprobs=data.get("logprobs", False),
        service_tier=told_tier(data),
    )


def _refuse_unsupported(data: dict[str, Any]) -> None:
    refuse_unserved(data)
    if data.get("functions"):
        raise unsupported("functions", "Send 'tools' instead.")
    if isinstance(data.get("function_call"), dict):
        raise unsupported("function_call", "Send 'tool_choice' instead.")
    if data.get("chat_template"):
        raise unsupported("chat_template", "The model's own template is used.")
    if data.get("documents"):
        raise unsupported("documents", "Put them into a message.")
    if data.get("modalities") not in (None, [], ["text"]):
        raise unsupported("modalities", "Answers are text only.")
    if "top_logprobs" in data and not data.get("logprobs"):
        raise invalid("top_logprobs", "This needs 'logprobs': true.")


def _continues(order: Order, *, wanted: bool | None) -> bool:
    """Whether the answer is begun. Where nothing is said: if it ends with a text of the assistant's
    and is free to go on from there.
    """
    last = (order.messages or ({},))[-1]
    is_text = last["role"] == "assistant" and "tool_calls" not in last
    may_be = is_text and bool(last["content"].strip())
    if wanted and not may_be:
        raise invalid("continue_final_message", "The last message is no text of the assistant's.")
    is_free = order.grammar is None and not order.tool_choice.is_required
    return (may_be and is_free) if wanted is None else wanted


def _template_options(body: dict[str, Any], data: dict[str, Any]) -> dict[str, Any]:
    """What the caller gives the template himself wins over what the effort says."""
    options: dict[str, Any] = {}
    effort = data.get("reasoning_effort")
    if effort is not None:
        options["enable_thinking"] = effort not in _NO_THINKING
        if options["enable_thinking"]:
            options["reasoning_effort"] = effort
    return options | (body.get("chat_template_kwargs") or {})
