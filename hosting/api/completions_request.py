"""The body of POST /v1/completions: each field honoured, ignored or refused by name."""

from __future__ import annotations

import dataclasses
from typing import Any

from drf_spectacular.utils import extend_schema_field
from rest_framework import serializers

from hosting.actions.conversations import get_servable_model
from hosting.actions.orders import Order
from hosting.api.dialect import Caller
from hosting.api.errors import invalid, unsupported
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

MAX_CHOICES = 32  # of all prompts together
DEFAULT_MAX_TOKENS = 16  # what OpenAI's own answers have, and scripts rely on
_TOKEN = {"type": "integer"}
_PROMPT_SHAPES = [
    {"type": "string"},
    {"type": "array", "items": {"type": "string"}},
    {"type": "array", "items": _TOKEN},
    {"type": "array", "items": {"type": "array", "items": _TOKEN}},
]


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Prompt:
    """One of the two is set."""

    text: str | None = None
    token_ids: tuple[int, ...] | None = None


@extend_schema_field({"oneOf": _PROMPT_SHAPES})
class Prompts(serializers.Field[Any, Any, Any, Any]):
    default_error_messages = {
        "invalid": "This must be text, token ids, or a list of one of them.",
    }

    def to_internal_value(self, data: Any) -> list[Prompt]:
        if isinstance(data, str) or _is_token_list(data):
            data = [data]
        if not isinstance(data, list) or not data:
            self.fail("invalid")
        return [self._prompt(one) for one in data]

    def _prompt(self, one: Any) -> Prompt:
        if isinstance(one, str):
            return Prompt(text=one)
        if not _is_token_list(one):
            self.fail("invalid")
        return Prompt(token_ids=tuple(one))


class CompletionRequest(SamplingFields):
    """Fields that are not listed are ignored."""

    prompt = Prompts()
    suffix = Text(**optional(allow_blank=True))
    echo = Flag(**optional())
    n = Whole(**optional(min_value=1, max_value=MAX_CHOICES))
    best_of = Whole(**optional(min_value=1, max_value=MAX_CHOICES))
    logprobs = Whole(**optional(min_value=0, max_value=20))


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class CompletionOrder:
    """A checked body: `num_per_prompt` orders for each prompt, side by side.

    `echoed`: what each choice begins with; empty without echo.
    """

    orders: tuple[Order, ...]
    num_per_prompt: int
    echoed: tuple[str, ...]
    is_stream: bool
    includes_usage: bool
    wants_logprobs: bool


def read_completion_request(body: dict[str, Any], caller: Caller) -> CompletionOrder:
    """Raises ApiError, ValidationError or Refusal. Looks the model up in the registry."""
    data = checked_body(CompletionRequest, body)
    _check_together(data)
    count, prompts = data.get("n", 1), data["prompt"]
    model = get_servable_model(data["model"])
    orders = [
        Order(
            user=caller.user,
            kind=Generation.Kind.API,
            model=model,
            prompt=prompt.text,
            prompt_token_ids=prompt.token_ids,
            suffix=data.get("suffix") or None,
            sampling=sampling_choice(_chat_names(data)),
            max_tokens=data.get("max_tokens", DEFAULT_MAX_TOKENS),
            stop=data.get("stop", ()),
            deadline_seconds=data.get("deadline_seconds"),
            can_wait=told_tier(data) == "flex",
            api_key=caller.api_key,
            client=caller.client,
        )
        for prompt in prompts
    ]
    is_echoed = data.get("echo", False)
    return CompletionOrder(
        orders=tuple(numbered_choice(one, number) for one in orders for number in range(count)),
        num_per_prompt=count,
        echoed=tuple(one.prompt or "" for one in orders for _ in range(count) if is_echoed),
        is_stream=data.get("stream", False),
        includes_usage=bool((data.get("stream_options") or {}).get("include_usage")),
        wants_logprobs="logprobs" in data,
    )


def _check_together(data: dict[str, Any]) -> None:
    """What is right by itself and wrong with something else."""
    count, prompts = data.get("n", 1), data["prompt"]
    if count * len(prompts) > MAX_CHOICES:
        raise invalid("prompt", f"At most {MAX_CHOICES} answers can be asked for at once.")
    if data.get("best_of", count) != count:
        raise unsupported("best_of", "Ask for all the answers with 'n'; none is chosen here.")
    refuse_unserved(data)
    has_token_ids = any(prompt.token_ids is not None for prompt in prompts)
    if data.get("echo") and has_token_ids:
        raise unsupported("echo", "A prompt of token ids cannot be echoed, only text.")
    if data.get("echo") and "logprobs" in data:
        raise unsupported("logprobs", "There are no logprobs together with 'echo'.")
    if data.get("echo") and data.get("suffix"):
        raise unsupported("echo", "A prompt with a suffix cannot be echoed.")
    if data.get("suffix") and has_token_ids:
        raise invalid("suffix", "A suffix needs a prompt that is text.")


def _chat_names(data: dict[str, Any]) -> dict[str, Any]:
    """Here `logprobs` is their number."""
    if "logprobs" not in data:
        return data
    return data | {"logprobs": True, "top_logprobs": data["logprobs"]}


def _is_token_list(data: Any) -> bool:
    return (
        isinstance(data, list)
        and bool(data)
        and all(isinstance(one, int) and not isinstance(one, bool) for one in data)
    )
