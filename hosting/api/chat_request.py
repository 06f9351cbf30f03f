"""The body of POST /v1/chat/completions: each field honoured, ignored or refused by name."""

from __future__ import annotations

import dataclasses
from typing import Any

from drf_spectacular.utils import extend_schema_field
from rest_framework import serializers

from accounts.models import ApiKey, User
from hosting.actions.conversations import get_servable_model
from hosting.actions.generations import Order, SamplingChoice
from hosting.api.answer_form import choose_tools, read_grammar
from hosting.api.messages import invalid, unsupported, wire_messages, wire_tools
from hosting.fields import Flag, Number, Text, Whole
from hosting.models import Generation

MAX_CHOICES = 8
MAX_STOP_STRINGS = 4
_NO_THINKING = ("none", "minimal")
_EFFORTS = (*_NO_THINKING, "low", "medium", "high", "xhigh", "max")


@extend_schema_field(
    {"oneOf": [{"type": "string"}, {"type": "array", "items": {"type": "string"}, "maxItems": 4}]}
)
class StopStrings(serializers.Field[Any, Any, Any, Any]):
    default_error_messages = {
        "invalid": f"This must be a string, or a list of 1 to {MAX_STOP_STRINGS} strings."
    }

    def to_internal_value(self, data: Any) -> tuple[str, ...]:
        texts = [data] if isinstance(data, str) else data
        if not isinstance(texts, list) or len(texts) > MAX_STOP_STRINGS:
            self.fail("invalid")
        if not all(isinstance(text, str) and text for text in texts):
            self.fail("invalid")
        return tuple(texts)


@extend_schema_field({"type": "object", "additionalProperties": {"type": "number"}})
class LogitBias(serializers.Field[Any, Any, Any, Any]):
    default_error_messages = {
        "invalid": "This must map token ids to numbers from -100 to 100.",
    }

    def to_internal_value(self, data: Any) -> tuple[tuple[int, float], ...]:
        if not isinstance(data, dict) or len(data) > 1024:
            self.fail("invalid")
        return tuple(self._entry(token, bias) for token, bias in data.items())

    def _entry(self, token: str, bias: Any) -> tuple[int, float]:
        is_number = isinstance(bias, (int, float)) and not isinstance(bias, bool)
        is_token = token.isascii() and token.isdigit() and len(token) < 10
        if not is_token or not is_number or not -100 <= bias <= 100:
            self.fail("invalid")
        return int(token), float(bias)


@extend_schema_field({"oneOf": [{"type": "string"}, {"type": "object"}]})
class ToolChoice(serializers.JSONField):
    """One of auto, none and required, or an object that names one function."""


class StreamOptions(serializers.Serializer[Any]):
    include_usage = Flag(required=False, allow_null=True)


def _optional(**limits: Any) -> dict[str, Any]:
    return {"required": False, "allow_null": True, **limits}


class ChatCompletionRequest(serializers.Serializer[Any]):
    """Fields that are not listed are ignored."""

    model = Text()
    messages = serializers.ListField(child=serializers.DictField())
    stream = Flag(**_optional())
    stream_options = StreamOptions(**_optional())
    n = Whole(**_optional(min_value=1, max_value=MAX_CHOICES))
    max_tokens = Whole(**_optional(min_value=1, max_value=10_000_000))
    max_completion_tokens = Whole(**_optional(min_value=1, max_value=10_000_000))
    temperature = Number(**_optional(min_value=0, max_value=2))
    top_p = Number(**_optional(min_value=0.000001, max_value=1))
    top_k = Whole(**_optional(min_value=-1, max_value=1_000_000))
    min_p = Number(**_optional(min_value=0, max_value=1))
    presence_penalty = Number(**_optional(min_value=-2, max_value=2))
    frequency_penalty = Number(**_optional(min_value=-2, max_value=2))
    repetition_penalty = Number(**_optional(min_value=0.01, max_value=10))
    seed = Whole(**_optional(min_value=-(2**63), max_value=2**63 - 1))
    stop = StopStrings(**_optional())
    logit_bias = LogitBias(**_optional())
    logprobs = Flag(**_optional())
    top_logprobs = Whole(**_optional(min_value=0, max_value=20))
    tools = serializers.ListField(child=serializers.DictField(), **_optional())
    tool_choice = ToolChoice(**_optional())
    parallel_tool_calls = Flag(**_optional())
    response_format = serializers.DictField(**_optional())
    structured_outputs = serializers.DictField(**_optional())
    guided_json = serializers.JSONField(**_optional())
    guided_regex = Text(**_optional())
    guided_choice = serializers.ListField(child=Text(), **_optional())
    guided_grammar = Text(**_optional())
    grammar = Text(**_optional())
    reasoning_effort = serializers.ChoiceField(choices=_EFFORTS, **_optional())
    chat_template_kwargs = serializers.DictField(**_optional())
    continue_final_message = Flag(**_optional())
    ignore_eos = Flag(**_optional())


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class ChatRequest:
    """A checked body: one order per choice, and how the answer is to look."""

    orders: tuple[Order, ...]
    is_stream: bool
    includes_usage: bool
    wants_logprobs: bool


def read_chat_request(body: Any, *, user: User, api_key: ApiKey | None, client: str) -> ChatRequest:
    """Raises ApiError, ValidationError or Refusal. Looks the model up in the registry."""
    checked = ChatCompletionRequest(data=body)
    checked.is_valid(raise_exception=True)
    data = {name: value for name, value in checked.validated_data.items() if value is not None}
    _refuse_unsupported(data)
    chosen = choose_tools(
        body.get("tool_choice"),
        wire_tools(body.get("tools")),
        is_parallel=data.get("parallel_tool_calls", True),
    )
    order = Order(
        user=user,
        kind=Generation.Kind.API,
        model=get_servable_model(data["model"]),
        messages=wire_messages(body["messages"]),
        sampling=sampling_choice(data),
        max_tokens=data.get("max_completion_tokens") or data.get("max_tokens"),
        stop=data.get("stop", ()),
        tools=chosen.tools,
        tool_choice=chosen.choice,
        grammar=read_grammar(body),
        template_options=_template_options(body, data),
        api_key=api_key,
        client=client,
    )
    is_begun = _continues(order, wanted=data.get("continue_final_message"))
    order = dataclasses.replace(order, continues_last=is_begun)
    return ChatRequest(
        orders=tuple(numbered_choice(order, number) for number in range(data.get("n", 1))),
        is_stream=data.get("stream", False),
        includes_usage=bool((data.get("stream_options") or {}).get("include_usage")),
        wants_logprobs=data.get("logprobs", False),
    )


def _refuse_unsupported(data: dict[str, Any]) -> None:
    if data.get("ignore_eos"):
        raise unsupported("ignore_eos", "The end of an answer cannot be ignored.")
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


def sampling_choice(data: dict[str, Any]) -> SamplingChoice:
    plain = (
        "temperature", "top_p", "min_p", "presence_penalty", "frequency_penalty",
        "repetition_penalty", "logit_bias",
    )  # fmt: skip
    chosen = {name: data[name] for name in plain if name in data}
    if "top_k" in data:
        chosen["top_k"] = max(0, data["top_k"])  # some clients say -1 for all
    if "seed" in data:
        chosen["seed"] = data["seed"] % 2**63
    if data.get("logprobs"):
        chosen["top_logprobs"] = data.get("top_logprobs", 0)
    return SamplingChoice(**chosen)


def _template_options(body: dict[str, Any], data: dict[str, Any]) -> dict[str, Any]:
    """What the caller gives the template himself wins over what the effort says."""
    options: dict[str, Any] = {}
    effort = data.get("reasoning_effort")
    if effort is not None:
        options["enable_thinking"] = effort not in _NO_THINKING
        if options["enable_thinking"]:
            options["reasoning_effort"] = effort
    return options | (body.get("chat_template_kwargs") or {})


def numbered_choice(order: Order, number: int) -> Order:
    """Choices of one request differ by their seed only."""
    seed = order.sampling.seed
    if number == 0 or seed is None:
        return order
    sampling = dataclasses.replace(order.sampling, seed=(seed + number) % 2**63)
    return dataclasses.replace(order, sampling=sampling)
