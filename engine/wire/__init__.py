"""The contract between the web side and the engine: messages, codes, names, queue scripts.

Besides the standard library it needs msgspec alone. It does not know who sends a message or how it
travels; engine/transport and hosting/engine_client do.

Laws (tests/engine/test_wire_laws.py holds them against random histories):
1. Every request is answered by
   (Refused
    | Accepted (Queued|Loading|Started|Prefilled|Delta|Embedded|Scored|Paused|Resumed)*
      (Finished | Failed)).
   Never silence. One cancelled before intake saw it is answered by Finished(cancelled) alone,
   CountTokens by (Refused | Counted).
2. `seq` counts 0, 1, 2 ... without gaps, whoever emits. The Delta texts joined are the answer,
   the token ids joined are the tokens.
3. Refused or Accepted comes from intake, before any HTTP header is sent. Waiting afterwards is
   events.
4. A request delivered to a second engine continues: the delivered token ids become a suffix of the
   prompt, sampling is a pure function of (seed, position), and the client sees one Resumed, no text
   twice, none missing. A stale engine's events are void (fencing). A request that kills its engine
   twice without a token that the batch drew in between ends in Failed(poison).
5. Cancel frees the row before the next step, in prefill at the next slice, in the queue at once.
"""

from engine.wire.codec import WIRE_VERSION, WireError, decode, encode, to_plain
from engine.wire.commands import (
    MAX_STOP_CHARACTERS,
    MAX_STOPS,
    Cancel,
    ClearCache,
    Command,
    Configure,
    CountTokens,
    Embed,
    ForgetTenant,
    Generate,
    LoadModel,
    Notice,
    Rerank,
    UnloadModel,
    Unpublish,
    VectorWork,
    Work,
    is_template_option,
)
from engine.wire.events import (
    CANCELLED_UNBEGUN,
    TERMINAL_EVENTS,
    Accepted,
    Counted,
    Delta,
    Embedded,
    Event,
    Failed,
    Finished,
    Loading,
    Paused,
    Prefilled,
    Queued,
    Refused,
    Resumed,
    Scored,
    Started,
)
from engine.wire.message import as_dict, replace
from engine.wire.names import Keys, default_redis_url, entry_born, entry_id, entry_seq
from engine.wire.nesting import MAX_DEPTH, is_deeper
from engine.wire.parts import (
    SHARE_AFTER,
    CacheTier,
    Channel,
    Code,
    Correction,
    FinishReason,
    Grammar,
    GrammarKind,
    Level,
    ModelKind,
    ModelSpec,
    PositionLogprobs,
    PrefixUse,
    Priority,
    RowNeeds,
    Sampling,
    Timings,
    TokenLogprob,
    ToolCallPart,
    ToolChoice,
    Usage,
    look_ahead,
)
from engine.wire.scripts import script_text
from engine.wire.status import (
    CacheStatus,
    DiskTierStatus,
    EngineStatus,
    MemoryMark,
    MemoryStatus,
    MemoryTierStatus,
    ModelCacheStatus,
    ModelMemory,
    ModelStatus,
    RowStatus,
)

__all__ = [
    "CANCELLED_UNBEGUN",
    "MAX_DEPTH",
    "MAX_STOPS",
    "MAX_STOP_CHARACTERS",
    "SHARE_AFTER",
    "TERMINAL_EVENTS",
    "WIRE_VERSION",
    "Accepted",
    "CacheStatus",
    "CacheTier",
    "Cancel",
    "Channel",
    "ClearCache",
    "Code",
    "Command",
    "Configure",
    "Correction",
    "CountTokens",
    "Counted",
    "Delta",
    "DiskTierStatus",
    "Embed",
    "Embedded",
    "EngineStatus",
    "Event",
    "Failed",
    "FinishReason",
    "Finished",
    "ForgetTenant",
    "Generate",
    "Grammar",
    "GrammarKind",
    "Keys",
    "Level",
    "LoadModel",
    "Loading",
    "MemoryMark",
    "MemoryStatus",
    "MemoryTierStatus",
    "ModelCacheStatus",
    "ModelKind",
    "ModelMemory",
    "ModelSpec",
    "ModelStatus",
    "Notice",
    "Paused",
    "PositionLogprobs",
    "Prefilled",
    "PrefixUse",
    "Priority",
    "Queued",
    "Refused",
    "Rerank",
    "Resumed",
    "RowNeeds",
    "RowStatus",
    "Sampling",
    "Scored",
    "Started",
    "Timings",
    "TokenLogprob",
    "ToolCallPart",
    "ToolChoice",
    "UnloadModel",
    "Unpublish",
    "Usage",
    "VectorWork",
    "WireError",
    "Work",
    "as_dict",
    "decode",
    "default_redis_url",
    "encode",
    "entry_born",
    "entry_id",
    "entry_seq",
    "is_deeper",
    "is_template_option",
    "look_ahead",
    "replace",
    "script_text",
    "to_plain",
]
