"""The words and small parts that commands and events are made of."""

from __future__ import annotations

from enum import StrEnum

from engine.wire.message import Part

SHARE_AFTER = 3  # people, unless a model says otherwise
MOST_DRAFT_TOKENS = 32


class Priority(StrEnum):
    INTERACTIVE = "interactive"
    API = "api"
    BATCH = "batch"


class ModelKind(StrEnum):
    """What a model makes of its prompts."""

    GENERATE = "generate"
    EMBED = "embed"
    RERANK = "rerank"


class Channel(StrEnum):
    CONTENT = "content"
    REASONING = "reasoning"
    TOOL_CALL = "tool_call"


class FinishReason(StrEnum):
    STOP = "stop"
    LENGTH = "length"
    TOOL_CALLS = "tool_calls"
    CANCELLED = "cancelled"


class Code(StrEnum):
    """Why a request was Refused (before it started) or Failed (afterwards)."""

    INVALID_VALUE = "invalid_value"
    CONTEXT_LENGTH_EXCEEDED = "context_length_exceeded"
    MODEL_NOT_FOUND = "model_not_found"
    MODEL_LOAD_FAILED = "model_load_failed"
    DOES_NOT_FIT = "does_not_fit"
    QUEUE_FULL = "queue_full"
    TENANT_QUEUE_FULL = "tenant_queue_full"
    BUDGET_EXCEEDED = "insufficient_quota"
    DEADLINE_EXCEEDED = "deadline_exceeded"
    POISON = "poison"
    ENGINE_ERROR = "engine_error"


class Level(StrEnum):
    """The memory guard's verdict. TIGHT: nothing more is taken in. CRITICAL: rows give way."""

    CALM = "calm"
    TIGHT = "tight"
    CRITICAL = "critical"


class CacheTier(StrEnum):
    MEMORY = "memory"
    DISK = "disk"


class Sampling(Part, frozen=True, kw_only=True):
    """How tokens are drawn. With the seed, always set, an answer repeats itself after a crash."""

    seed: int
    temperature: float = 1.0
    top_p: float = 1.0
    top_k: int = 0  # 0: all
    min_p: float = 0.0
    presence_penalty: float = 0.0
    frequency_penalty: float = 0.0
    repetition_penalty: float = 1.0
    logit_bias: tuple[tuple[int, float], ...] = ()  # (token id, added to its logit)
    top_logprobs: int | None = None  # None: no logprobs; n: of the drawn token and the n likeliest


class GrammarKind(StrEnum):
    JSON_OBJECT = "json_object"
    JSON_SCHEMA = "json_schema"
    REGEX = "regex"
    LARK = "lark"
    GBNF = "gbnf"
    CHOICE = "choice"


class Grammar(Part, frozen=True, kw_only=True):
    """What the answer must look like. `source`: a schema or a list of choices as JSON, a regular
    expression, or a grammar; empty for any JSON object. `param`: the request's field it stood in.
    """

    kind: GrammarKind
    param: str
    source: str = ""
    is_strict: bool = True  # False: what a schema says beyond what can be enforced is left out


class ToolChoice(Part, frozen=True, kw_only=True):
    """Whether tools must be called (`name`: this one), and whether several at once may be."""

    is_required: bool = False
    name: str | None = None
    is_parallel: bool = True


class ModelSpec(Part, frozen=True, kw_only=True):
    """A registered model as the engine needs it. `path` is the registry's, never a request's."""

    name: str
    path: str
    kind: ModelKind = ModelKind.GENERATE
    context_limit_tokens: int | None = None  # None: what the model's own config says
    max_rows: int = 16
    max_queue: int = 256
    max_queue_per_tenant: int = 64
    is_pinned: bool = False
    idle_unload_seconds: int | None = None  # None: keep until memory is wanted
    stall_ms: int = 250  # longest wait of running rows for one prefill slice
    share_after: int | None = SHARE_AFTER  # then a prefix is everybody's; None: never
    decode_share: float = 0.5  # part of the time that running rows keep while prompts wait
    cache_memory_share: float = 1.0  # most of the memory tier's budget that its prefixes may fill
    cache_disk_share: float = 1.0  # the same of the disk tier
    is_cached_on_disk: bool = True
    boundary_interval_tokens: int = 2048  # windowed and recurrent layers: copied so often
    most_slice_tokens: int = 2048  # of prompts computed in one step
    memory_ceiling_bytes: int | None = None  # of weights and rows together
    memory_share: float | None = None  # the same as a part of the engine's limit; the less counts
    kv_bits: int | None = None  # keys and values quantised; None: as computed
    draft_tokens: int = 0  # at most, of a row that decodes alone; they are verified together
    draft_path: str | None = None  # of a smaller model that drafts; None: the row's own text does
    clears_buffers: bool = False  # give unused buffers back after each step of a prompt

    def ceiling_bytes(self, limit_bytes: int) -> int:
        """What weights and rows of this model may take of `limit_bytes`."""
        ceiling = limit_bytes if self.memory_ceiling_bytes is None else self.memory_ceiling_bytes
        share = 1.0 if self.memory_share is None else self.memory_share
        return min(limit_bytes, ceiling, int(limit_bytes * share))


def look_ahead(max_rows: int) -> int:
    """So many requests an engine takes beyond its rows, to fill a freed row at once. Whoever comes
    later waits behind them, so with few rows there are none: the queue then says who is next."""
    return max_rows // 8


class TokenLogprob(Part, frozen=True, kw_only=True):
    """`split_bytes`: of a token that begins or ends within a character, which no text can show."""

    token_id: int
    text: str
    logprob: float
    split_bytes: bytes = b""

    @classmethod
    def of(cls, token_id: int, content: bytes, logprob: float) -> TokenLogprob:
        text = content.decode(errors="replace")
        split_bytes = b"" if text.encode() == content else content
        return cls(token_id=token_id, text=text, logprob=logprob, split_bytes=split_bytes)

    @property
    def content(self) -> bytes:
        return self.split_bytes or self.text.encode()


class PositionLogprobs(Part, frozen=True, kw_only=True):
    """The drawn token of one position and the likeliest alternatives, best first."""

    token: TokenLogprob
    top: tuple[TokenLogprob, ...] = ()


class ToolCallPart(Part, frozen=True, kw_only=True):
    """Which tool call a fragment belongs to. `name` comes with a call's first fragment only."""

    index: int
    call_id: str
    name: str | None = None


class PromptImage(Part, frozen=True, kw_only=True):
    """An image among a prompt's tokens: so many from `start` on stand for it. `digest`: the SHA-256
    of what the model sees of it, in hex."""

    start: int
    num_tokens: int
    digest: str


class Usage(Part, frozen=True, kw_only=True):
    prompt_tokens: int
    cached_tokens: int = 0
    completion_tokens: int = 0  # reasoning included
    reasoning_tokens: int = 0


class PrefixUse(Part, frozen=True, kw_only=True):
    """How a prompt fared in the prefix cache. For administrators only: it tells of others' prompts.

    `nearest_tokens`: where it left the nearest stored prefix, whoever computed that. `miss`: why
    Usage.cached_tokens are not more (engine/cache/plan.py). `disk_tokens`: how many came from disk.
    """

    nearest_tokens: int
    miss: str = "none"
    disk_tokens: int = 0


class Timings(Part, frozen=True, kw_only=True):
    """Seconds. `ttft`: from acceptance to the first token; `decode`: from there to the last."""

    queued_seconds: float = 0.0
    load_seconds: float = 0.0
    prefill_seconds: float = 0.0
    ttft_seconds: float | None = None
    decode_seconds: float = 0.0


class Correction(Part, frozen=True, kw_only=True):
    """Factors on what engine/sizing says a model computes with: activations, attention scores, one
    layer's caches; of prompts' slices, and of steps that draw tokens."""

    slices: tuple[float, ...] = (1.0, 1.0, 1.0)
    steps: tuple[float, ...] = (1.0, 1.0, 1.0)


class RowNeeds(Part, frozen=True, kw_only=True):
    """Memory that one row of a model needs by its length, alone and in the smallest slices.

    `windows`: (tokens, bytes each) of layers that keep only so many tokens. `image_bytes`: what
    looking at an image takes besides.
    """

    fixed_bytes: int
    token_bytes: int
    windows: tuple[tuple[int, int], ...] = ()
    image_bytes: int = 0

    def bytes_for(self, num_tokens: int) -> int:
        windowed = sum(min(num_tokens, most) * each for most, each in self.windows)
        return self.fixed_bytes + num_tokens * self.token_bytes + windowed

    def most_tokens(self, room_bytes: int, *, at_most: int) -> int:
        """The longest row that fits into `room_bytes`; 0 if none does."""
        fewest, most = 0, at_most
        while fewest < most:
            middle = (fewest + most + 1) // 2
            if self.bytes_for(middle) <= room_bytes:
                fewest = middle
            else:
                most = middle - 1
        return fewest
