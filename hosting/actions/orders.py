"""What a new generation is told, and the engine's command made of it. It starts nothing."""

from __future__ import annotations

import dataclasses
import secrets
import time
from typing import Any

from accounts.models import ApiKey, User
from engine import wire
from hosting.actions.admission import Terms
from hosting.actions.image_parts import wire_form
from hosting.models import Conversation, Generation, HostedModel, Message

# What a model may have a default for: HostedModel.default_*
_WITH_DEFAULTS = (
    *("temperature", "top_p", "top_k", "min_p"),
    *("presence_penalty", "frequency_penalty", "repetition_penalty"),
)

Submitted = wire.Generate | wire.Embed | wire.Rerank


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class SamplingChoice:
    """What the caller chose. None: the model's default; a seed is drawn where none is given."""

    temperature: float | None = None
    top_p: float | None = None
    top_k: int | None = None
    min_p: float | None = None
    presence_penalty: float | None = None
    frequency_penalty: float | None = None
    repetition_penalty: float | None = None
    seed: int | None = None
    logit_bias: tuple[tuple[int, float], ...] = ()
    top_logprobs: int | None = None


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Order:
    """Everything that a new generation needs to know. Messages are OpenAI's, as on the wire, but
    with each image itself among the parts (image_parts.py); with `continues_last` the answer goes
    on where the last one ends. What `can_wait` has the lowest priority.

    A raw text to continue has `prompt` (with a `suffix`, the gap before it is filled) or
    `prompt_token_ids` instead of messages.
    """

    user: User
    kind: Generation.Kind
    model: HostedModel
    messages: tuple[dict[str, Any], ...] | None = None
    continues_last: bool = False
    prompt: str | None = None
    prompt_token_ids: tuple[int, ...] | None = None
    suffix: str | None = None
    sampling: SamplingChoice = dataclasses.field(default_factory=SamplingChoice)
    max_tokens: int | None = None
    stop: tuple[str, ...] = ()
    deadline_seconds: float | None = None
    can_wait: bool = False
    tools: tuple[dict[str, Any], ...] = ()
    tool_choice: wire.ToolChoice = dataclasses.field(default_factory=wire.ToolChoice)
    grammar: wire.Grammar | None = None
    template_options: dict[str, Any] = dataclasses.field(default_factory=dict)
    api_key: ApiKey | None = None
    client: str = ""
    conversation: Conversation | None = None
    message: Message | None = None

    @property
    def content(self) -> tuple[Any, ...]:
        """Everything that becomes prompt."""
        raw = (self.template_options, self.prompt, self.suffix, self.prompt_token_ids)
        return (*(self.messages or ()), *self.tools, *filter(None, raw))

    @property
    def num_prompts(self) -> int:
        return 1

    @property
    def most_answer_tokens(self) -> int | None:
        return self.max_tokens or self.model.default_max_tokens

    def command(self, generation: Generation, terms: Terms) -> Submitted:
        return _command(generation, self, terms)


def _command(generation: Generation, order: Order, terms: Terms) -> wire.Generate:
    return wire.Generate(
        request_id=str(generation.pk),
        model=order.model.name,
        tenant=generation.tenant,
        cache_teams=_teams_of(order),
        priority=wire.Priority(generation.priority),
        submitted_at=time.time(),
        sampling=_sampling(order.model, order.sampling),
        **wire_form(order.messages),
        continues_last=order.continues_last,
        prompt=order.prompt,
        prompt_token_ids=order.prompt_token_ids,
        suffix=order.suffix,
        tools=order.tools,
        tool_choice=order.tool_choice,
        grammar=order.grammar,
        template_options=order.model.template_options | order.template_options,
        max_tokens=terms.max_tokens,
        max_context_tokens=terms.limits.max_context_tokens,
        budget_tokens=terms.budget_tokens,
        weight=terms.limits.weight,
        stop=order.stop,
        deadline_seconds=order.deadline_seconds,
    )


def _teams_of(order: Order) -> tuple[str, ...]:
    """Whose prefixes the request shares beside the person's own, where the model's mode says so.
    Benchmarks are nobody's, and forgotten when they end."""
    is_benchmark = order.kind == Generation.Kind.BENCH
    if is_benchmark or order.model.cache_sharing != HostedModel.CacheSharing.TEAM:
        return ()
    ids = order.user.groups.order_by("pk").values_list("pk", flat=True)
    return tuple(f"group:{pk}" for pk in ids)


def _sampling(model: HostedModel, choice: SamplingChoice) -> wire.Sampling:
    """The caller's value, else the model's, else the wire's own default."""
    chosen = {
        name: value
        for name in _WITH_DEFAULTS
        for value in (_first(getattr(choice, name), getattr(model, f"default_{name}")),)
        if value is not None
    }
    return wire.Sampling(
        seed=secrets.randbits(32) if choice.seed is None else choice.seed,
        logit_bias=choice.logit_bias,
        top_logprobs=choice.top_logprobs,
        **chosen,
    )


def _first(*values: Any) -> Any:
    return next((value for value in values if value is not None), None)
