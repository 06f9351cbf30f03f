"""Where models come from: a folder becomes a ModelHandle on the device. Decides nothing."""

from __future__ import annotations

import gc
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import Any, Protocol

from engine import wire
from engine.cache.prefix import PrefixCache
from engine.core.answer import TextStream
from engine.core.blocks import root_key
from engine.core.constraint import PendingGrammar
from engine.core.pacing import TimeLedger
from engine.handle import ModelHandle
from engine.metrics import Vitals
from engine.model.caches import new_caches
from engine.model.grammar import GrammarShop
from engine.model.loader import LoadedModel, LoadFailed, load, stored_weight_bytes
from engine.model.memory import DeviceMemory
from engine.model.runner import Runner
from engine.model.snapshots import needs_of
from engine.model.text import TextFactory
from engine.model.vectors import open_runner
from engine.reuse import PrefixReuse
from engine.sizing.estimate import Estimate, Numbers
from engine.sizing.shape import UnreadableConfig, read_shape
from engine.vector_handle import VectorHandle

__all__ = ["DeviceShelf", "Handle", "LoadFailed", "Shelf"]

Handle = ModelHandle | VectorHandle


class Shelf(Protocol):
    """All but the last two may raise LoadFailed; `load` yields fractions, then the handle.
    `estimate` is None for what keeps no rows."""

    def weight_bytes(self, spec: wire.ModelSpec) -> int: ...
    def estimate(self, spec: wire.ModelSpec) -> Estimate | None: ...
    def load(self, spec: wire.ModelSpec) -> Iterator[float | Handle]: ...
    def active_bytes(self) -> int: ...
    def give_memory_back(self) -> None: ...


class DeviceShelf:
    def __init__(
        self,
        memory: DeviceMemory,
        *,
        ledger: TimeLedger,
        vitals: Vitals,
        prefixes: PrefixCache,
        casts_to_float32: bool,
    ):
        self._prefixes = prefixes
        self._memory = memory
        self._ledger = ledger
        self._vitals = vitals
        self._casts_to_float32 = casts_to_float32

    def weight_bytes(self, spec: wire.ModelSpec) -> int:
        return stored_weight_bytes(Path(spec.path))

    def estimate(self, spec: wire.ModelSpec) -> Estimate | None:
        if spec.kind is not wire.ModelKind.GENERATE:
            return None
        numbers = Numbers(
            compute_bytes=4 if self._casts_to_float32 else 2, may_fuse=not self._memory.is_cpu
        )
        try:
            return Estimate(read_shape(Path(spec.path)), numbers)
        except UnreadableConfig as error:
            raise LoadFailed(str(error)) from error

    def active_bytes(self) -> int:
        return self._memory.read().active_bytes

    def load(self, spec: wire.ModelSpec) -> Iterator[float | Handle]:
        progress = load(Path(spec.path), casts_to_float32=self._casts_to_float32)
        for one in progress:
            yield one.fraction if one.loaded is None else self._handle(spec, one.loaded)

    def give_memory_back(self) -> None:
        """After a handle was dropped: its weights are freed now, not some time."""
        gc.collect()
        self._memory.clear_pool()

    def _handle(self, spec: wire.ModelSpec, loaded: LoadedModel) -> Handle:
        if spec.kind is not wire.ModelKind.GENERATE:
            return self._vector_handle(spec, loaded)
        voice = ModelVoice(loaded.tokenizer)
        runner = Runner(loaded.model, decode_token=voice.decode_token)
        return ModelHandle(
            spec,
            runner=runner,
            reuse=self._reuse(spec, loaded, runner),
            estimate=self.estimate(spec),
            voice=voice,
            ledger=self._ledger,
            vitals=self._vitals,
            weight_bytes=loaded.weight_bytes,
            context_limit_tokens=loaded.context_limit_tokens,
            is_batchable=loaded.is_batchable,
        )

    def _vector_handle(self, spec: wire.ModelSpec, loaded: LoadedModel) -> VectorHandle:
        return VectorHandle(
            spec,
            runner=open_runner(loaded.model, loaded.tokenizer, spec),
            ledger=self._ledger,
            vitals=self._vitals,
            weight_bytes=loaded.weight_bytes,
            context_limit_tokens=loaded.context_limit_tokens,
        )

    def _reuse(
        self, spec: wire.ModelSpec, loaded: LoadedModel, runner: Runner
    ) -> PrefixReuse | None:
        """None for models whose caches cannot be copied, and where prefixes are not kept."""
        needs = needs_of(new_caches(loaded.model))
        if needs is None or self._prefixes.memory.budget_bytes == 0:
            return None
        root = root_key(loaded.identity)
        return PrefixReuse(self._prefixes, runner, spec=spec, root=root, needs=needs)


class ModelVoice:
    """What a model's tokenizer knows about text."""

    def __init__(self, tokenizer: Any):
        self._tokenizer = tokenizer
        self._factory = TextFactory(tokenizer)
        self.end_token_ids: Collection[int] = frozenset(tokenizer.eos_token_ids)
        self._grammars = GrammarShop(tokenizer, end_token_ids=self.end_token_ids)

    def stream(self, work: wire.Work) -> TextStream:
        return self._factory.stream(work)

    def grammar(self, work: wire.Work) -> PendingGrammar | None:
        return self._grammars.order(work)

    def decode_token(self, token_id: int) -> str:
        text: str = self._tokenizer.decode([token_id])
        return text
