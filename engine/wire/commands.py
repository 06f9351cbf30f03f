"""What can be asked of intake and engine: imperative, frozen."""

from __future__ import annotations

from typing import Any

import msgspec

from engine.wire.message import Message
from engine.wire.parts import (
    CacheTier,
    Grammar,
    ModelSpec,
    Priority,
    PromptImage,
    Sampling,
    ToolChoice,
)

# What templates get from us, or never: no template option may be called so
RESERVED_TEMPLATE_OPTIONS = frozenset({"messages", "tools", "documents", "add_generation_prompt"})
MAX_STOPS = 16
MAX_STOP_CHARACTERS = 512


def is_template_option(name: str) -> bool:
    """Whether a template option may have this name."""
    is_name = name.isidentifier() and not name.startswith("_")
    return is_name and name not in RESERVED_TEMPLATE_OPTIONS


class Generate(Message, frozen=True, kw_only=True):
    """Answer a conversation (`messages`) or continue a text (`prompt`, `prompt_token_ids`);
    exactly one of the three is set. With `suffix`, the answer is what belongs between prompt and
    suffix.

    Messages are OpenAI chat messages: role, content, and where used tool_calls, tool_call_id,
    name, reasoning_content. Content is text, or a list of parts in the order in which they are
    read: {"type": "text", "text"} and, of users, {"type": "image", "digest"}. With `continues_last`
    the last one is an assistant's that is begun: the answer is what follows its text.
    `submitted_at` is Unix time.

    Whose prefixes it uses and leaves: its tenant's; with `cache_teams` also those of everybody who
    sends one of these names; with `publication` (an administrator's act) only its system prompt is
    computed, and that is everybody's until Unpublish of the same name.
    """

    request_id: str
    model: str
    tenant: str
    priority: Priority
    submitted_at: float
    sampling: Sampling
    messages: tuple[dict[str, Any], ...] | None = None
    # What image parts name: JPEG, PNG, WebP or GIF by the SHA-256 of the file, in hex
    images: dict[str, bytes] = msgspec.field(default_factory=dict)
    continues_last: bool = False
    prompt: str | None = None
    prompt_token_ids: tuple[int, ...] | None = None
    suffix: str | None = None
    tools: tuple[dict[str, Any], ...] = ()
    tool_choice: ToolChoice = msgspec.field(default_factory=ToolChoice)
    grammar: Grammar | None = None
    # What the chat template understands beyond messages and tools, e.g. enable_thinking.
    template_options: dict[str, Any] = msgspec.field(default_factory=dict)
    max_tokens: int | None = None  # None: up to the context limit
    max_context_tokens: int | None = None  # a narrower context than the model's own
    budget_tokens: int | None = None  # what prompt and answer together may cost
    weight: float = 1.0  # the tenant's share of the engine while others wait, 1 is usual
    stop: tuple[str, ...] = ()
    deadline_seconds: float | None = None
    cache_teams: tuple[str, ...] = ()
    publication: str | None = None


class Work(Message, frozen=True, kw_only=True):
    """A Generate as intake hands it to the engine: checked, templated, tokenized, its end known.

    `boundaries`: token positions, ascending, where other prompts will leave this one: the end of
    the system prompt and of each turn. `images`: ascending; what they show is in `pixels`, by
    digest, at the model's own size (engine/core/pixels.py).
    """

    request_id: str
    model: str
    tenant: str
    priority: Priority
    submitted_at: float
    accepted_at: float
    sampling: Sampling
    prompt_token_ids: tuple[int, ...]
    max_tokens: int
    stop: tuple[str, ...] = ()
    tools: tuple[dict[str, Any], ...] = ()
    tool_choice: ToolChoice = msgspec.field(default_factory=ToolChoice)
    grammar: Grammar | None = None
    is_raw: bool = False  # a prompt without a template: nothing in its answer is a marker
    continues_last: bool = False  # the answer's text goes on where the last message ends
    starts_in_reasoning: bool = False  # the template has already opened the thinking
    has_thought: bool = False  # the template has already closed it again
    deadline_at: float | None = None
    boundaries: tuple[int, ...] = ()
    images: tuple[PromptImage, ...] = ()
    pixels: dict[str, bytes] = msgspec.field(default_factory=dict)
    cache_teams: tuple[str, ...] = ()
    publication: str | None = None


class CountTokens(Message, frozen=True, kw_only=True):
    """How many tokens this prompt would have. Nothing is generated."""

    generate: Generate


class Embed(Message, frozen=True, kw_only=True):
    """Turn each of `texts`, or of `inputs` (token ids), into a vector; exactly one is set.

    `dimensions`: only so many, for models that were trained to bear that.
    """

    request_id: str
    model: str
    tenant: str
    priority: Priority
    submitted_at: float
    texts: tuple[str, ...] = ()
    inputs: tuple[tuple[int, ...], ...] = ()
    dimensions: int | None = None
    max_context_tokens: int | None = None  # of each
    budget_tokens: int | None = None  # what all of them together may cost
    weight: float = 1.0
    deadline_seconds: float | None = None


class Rerank(Message, frozen=True, kw_only=True):
    """Say how well each document answers the query, from 0 to 1."""

    request_id: str
    model: str
    tenant: str
    priority: Priority
    submitted_at: float
    query: str
    documents: tuple[str, ...]
    max_context_tokens: int | None = None  # of the query with each
    budget_tokens: int | None = None  # what all of them together may cost
    weight: float = 1.0
    deadline_seconds: float | None = None


class VectorWork(Message, frozen=True, kw_only=True):
    """An Embed or a Rerank as intake hands it to the engine: one row of tokens per place."""

    request_id: str
    model: str
    tenant: str
    priority: Priority
    submitted_at: float
    accepted_at: float
    inputs: tuple[tuple[int, ...], ...]
    dimensions: int | None = None
    deadline_at: float | None = None

    @property
    def num_tokens(self) -> int:
        return sum(map(len, self.inputs))


class Cancel(Message, frozen=True, kw_only=True):
    request_id: str


class LoadModel(Message, frozen=True, kw_only=True):
    name: str


class UnloadModel(Message, frozen=True, kw_only=True):
    name: str


class ClearCache(Message, frozen=True, kw_only=True):
    """Forget what is kept of this model's prompts and answers, in one tier or (None) in both."""

    model: str
    tier: CacheTier | None = None


class ForgetTenant(Message, frozen=True, kw_only=True):
    """Delete what the prefix caches keep of this tenant alone."""

    tenant: str


class Unpublish(Message, frozen=True, kw_only=True):
    """A published prompt is nobody's any more: delete what was kept for it alone."""

    publication: str


class Configure(Message, frozen=True, kw_only=True):
    """All models that may be served, with their settings. Replaces what was configured before.

    `memory_limits`: bytes by engine name; an engine without one keeps the limit it started with.
    """

    models: tuple[ModelSpec, ...]
    memory_limits: dict[str, int] = msgspec.field(default_factory=dict)


Command = (
    Generate
    | CountTokens
    | Work
    | Embed
    | Rerank
    | VectorWork
    | Cancel
    | LoadModel
    | UnloadModel
    | ClearCache
    | ForgetTenant
    | Unpublish
    | Configure
)
# What every engine hears
Notice = Cancel | LoadModel | UnloadModel | ClearCache | ForgetTenant | Unpublish | Configure
