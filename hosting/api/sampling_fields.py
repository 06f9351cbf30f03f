"""The fields by which a body says how tokens are drawn: those of chats and of completions."""

from __future__ import annotations

import dataclasses
import re
from typing import Any

from drf_spectacular.utils import extend_schema_field
from rest_framework import serializers

from engine import wire
from hosting.actions.orders import Order, SamplingChoice
from hosting.api.checked import checked
from hosting.api.errors import unsupported
from hosting.fields import Flag, Number, Text, Whole

_TOKEN_ID = re.compile(r"0|[1-9][0-9]{0,8}")  # "05" would count beside "5"
_STRINGS = {"type": "array", "items": {"type": "string"}, "maxItems": wire.MAX_STOPS}
# Each would change the answer, and none can be had
UNSERVED = {
    "ignore_eos": "The end of an answer cannot be ignored.",
    "min_tokens": "An answer cannot be kept from ending early.",
    "stop_token_ids": "Token ids cannot end an answer: send texts in 'stop'.",
    "allowed_token_ids": "An answer cannot be held to some tokens.",
    "bad_words": "Words cannot be forbidden, only tokens, by 'logit_bias'.",
    "prompt_logprobs": "There are no logprobs of a prompt.",
}


def optional(**limits: Any) -> dict[str, Any]:
    return {"required": False, "allow_null": True, **limits}


def deadline() -> Number:
    """The field deadline_seconds, which all dialects have."""
    return Number(
        **optional(min_value=0.001, max_value=86_400),
        help_text="So long after it came, the request ends with the error deadline_exceeded if it "
        "is not done: while it waits, or in the middle of its answer.",
    )


def tier() -> Text:
    """The field service_tier, which OpenAI's dialects have."""
    return Text(
        **optional(allow_blank=True),
        help_text='With "flex" the request has the lowest priority: it comes behind what anybody '
        "waits for. Anything else changes nothing.",
    )


def told_tier(data: dict[str, Any]) -> str | None:
    """What the answer says of its tier; None where nothing was said."""
    if "service_tier" not in data:
        return None
    return "flex" if data["service_tier"] == "flex" else "default"


@extend_schema_field({"oneOf": [{"type": "string"}, _STRINGS]})
class StopStrings(serializers.Field[Any, Any, Any, Any]):
    default_error_messages = {
        "invalid": f"This must be a string, or a list of 1 to {wire.MAX_STOPS} strings."
    }

    def to_internal_value(self, data: Any) -> tuple[str, ...]:
        texts = [data] if isinstance(data, str) else data
        if not isinstance(texts, list) or len(texts) > wire.MAX_STOPS:
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
        if not _TOKEN_ID.fullmatch(token) or not is_number or not -100 <= bias <= 100:
            self.fail("invalid")
        return int(token), float(bias)


class StreamOptions(serializers.Serializer[Any]):
    include_usage = Flag(required=False, allow_null=True)


class SamplingFields(serializers.Serializer[Any]):
    model = Text()
    stream = Flag(**optional())
    stream_options = StreamOptions(**optional())
    max_tokens = Whole(**optional(min_value=1, max_value=10_000_000))
    temperature = Number(**optional(min_value=0, max_value=2))
    top_p = Number(**optional(min_value=0, max_value=1))
    top_k = Whole(**optional(min_value=-1, max_value=1_000_000))
    min_p = Number(**optional(min_value=0, max_value=1))
    presence_penalty = Number(**optional(min_value=-2, max_value=2))
    frequency_penalty = Number(**optional(min_value=-2, max_value=2))
    repetition_penalty = Number(**optional(min_value=0.01, max_value=10))
    seed = Whole(**optional(min_value=-(2**63), max_value=2**63 - 1))
    stop = StopStrings(**optional())
    logit_bias = LogitBias(**optional())
    deadline_seconds = deadline()
    ignore_eos = Flag(**optional())
    min_tokens = Whole(**optional(min_value=0))
    stop_token_ids = serializers.JSONField(**optional())
    allowed_token_ids = serializers.JSONField(**optional())
    bad_words = serializers.JSONField(**optional())
    prompt_logprobs = serializers.JSONField(**optional())
    service_tier = tier()


def checked_body(shape: type[serializers.Serializer[Any]], body: Any) -> dict[str, Any]:
    """What is given, without what is null. Raises ValidationError."""
    return {name: value for name, value in checked(shape, body).items() if value is not None}


def refuse_unserved(data: dict[str, Any]) -> None:
    """Raises ApiError."""
    for name, message in UNSERVED.items():
        if data.get(name):
            raise unsupported(name, message)


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


def numbered_choice(order: Order, number: int) -> Order:
    """Choices of one request differ by their seed only."""
    seed = order.sampling.seed
    if number == 0 or seed is None:
        return order
    sampling = dataclasses.replace(order.sampling, seed=(seed + number) % 2**63)
    return dataclasses.replace(order, sampling=sampling)
