"""Where models come from: a folder becomes a ModelHandle on the device. Decides nothing."""

from __future__ import annotations

import dataclasses
import gc
import json
from collections.abc import Callable, Collection, Iterator
from functools import partial
from pathlib import Path
from typing import Any, Protocol

from engine import wire
from engine.at_work import AtWork
from engine.cache.prefix import PrefixCache
from engine.core.answer import TextStream
from engine.core.blocks import root_key
from engine.core.constraint import PendingGrammar
from engine.core.encoder_config import is_bidirectional_decoder, is_encoder
from engine.core.pacing import TimeLedger
from engine.core.slicing import ANY_SHAPE_SCORES
from engine.estimates import Estimates
from engine.handle import ModelHandle
from engine.metrics import Vitals
from engine.model import direct_step, draft_loading, harmony, kernels
from engine.model.caches import Caches, new_caches
from engine.model.capability import check_batching
from engine.model.cpu_slices import BLOCK_SCORES
from engine.model.direct_step import Forward
from engine.model.draft_model import DraftModel
from engine.model.encoder import load_encoder
from engine.model.encoder_vectors import open_encoder
from engine.model.grammar import GrammarShop
from engine.model.load_faults import explain
from engine.model.loader import LoadedModel, LoadFailed, load, stored_weight_bytes
from engine.model.memory import DeviceMemory
from engine.model.outlets import device_reader
from engine.model.quantised import NotQuantisable, quantised_caches
from engine.model.rehearsal import rehearse, rehearse_vectors
from engine.model.runner import Runner
from engine.model.snapshots import needs_of
from engine.model.text import TextFactory
from engine.model.vectors import open_runner
from engine.model.verifying import TextDrafter
from engine.peaks import MeasuredComputer, MeasuredRunner, ModelPeaks
from engine.reuse import PrefixReuse
from engine.safe_reuse import SafeReuse
from engine.sizing.estimate import Estimate, Numbers
from engine.sizing.shape import UnreadableConfig
from engine.sizing.words import allowed_size, needed_size
from engine.vector_handle import Computer, VectorHandle

__all__ = ["DeviceShelf", "Handle", "LoadFailed", "Shelf"]

_CHECKING_FRACTION = 0.95  # of loading, when weights and batches have been seen to

Handle = ModelHandle | VectorHandle


class Shelf(Protocol):
    """Where models come from: model folders on a device, or a fake.

    `weight_bytes`, `estimate` and `load` may raise LoadFailed. `estimate` is None for what keeps no
    rows. `load` yields fractions, then the handle. `lasting_bytes`: in use, and not the prefix
    cache's, which gives way. `shrink_cache`: until no more is in use, as far as that cache has it.
    `keep_learned`: what estimates have learned, for the next process.
    """

    def weight_bytes(self, spec: wire.ModelSpec) -> int: ...
    def estimate(self, spec: wire.ModelSpec) -> Estimate | None: ...
    def load(self, spec: wire.ModelSpec) -> Iterator[float | Handle]: ...
    def lasting_bytes(self) -> int: ...
    def shrink_cache(self, most_bytes: int) -> None: ...
    def give_memory_back(self) -> None: ...
    def keep_learned(self) -> None: ...


class DeviceShelf:
    def __init__(
        self,
        memory: DeviceMemory,
        *,
        ledger: TimeLedger,
        vitals: Vitals,
        prefixes: PrefixCache,
        estimates: Estimates,
        casts_to_float32: bool,
        at_work: AtWork | None = None,
    ):
        self._prefixes = prefixes
        self._memory = memory
        self._ledger = ledger
        self._vitals = vitals
        self._estimates = estimates
        self._casts_to_float32 = casts_to_float32
        self._at_work = at_work

    def weight_bytes(self, spec: wire.ModelSpec) -> int:
        """What drafts for it included."""
        folders = [_folder(spec)]
        if spec.draft_path is not None:
            folders.append(Path(spec.draft_path))
        casts = self._casts_to_float32
        return sum(stored_weight_bytes(one, casts_to_float32=casts) for one in folders)

    def estimate(self, spec: wire.ModelSpec) -> Estimate | None:
        return self._peaks(spec).estimate

    def _peaks(self, spec: wire.ModelSpec) -> ModelPeaks:
        try:
            return self._estimates.get(
                _folder(spec),
                self._numbers(spec),
                makes_vectors=spec.kind is not wire.ModelKind.GENERATE,
                is_encoder=_is_encoder(spec),
            )
        except UnreadableConfig as error:
            raise LoadFailed(str(error)) from error

    def _peaks_of(self, spec: wire.ModelSpec, loaded: LoadedModel) -> ModelPeaks:
        peaks = self._peaks(spec)
        if loaded.layers is not None:
            peaks.know_layers(loaded.layers)
        return peaks

    def _numbers(self, spec: wire.ModelSpec) -> Numbers:
        is_in_blocks = kernels.is_x86_processor() and self._casts_to_float32
        return Numbers(
            compute_bytes=4 if self._casts_to_float32 else 2,
            may_fuse=not self._memory.is_cpu,
            kv_bits=spec.kv_bits,
            together_bytes=self._memory.together_bytes,
            composed_scores=ANY_SHAPE_SCORES if self._memory.kind == "cuda" else 0,
            block_scores=BLOCK_SCORES if is_in_blocks and not _is_encoder(spec) else 0,
        )

    def lasting_bytes(self) -> int:
        return self._memory.read_device().active_bytes - self._prefixes.memory.used_bytes

    def shrink_cache(self, most_bytes: int) -> None:
        """Until no more than this is in use, as far as the prefix cache has it."""
        tier_bytes = self._prefixes.memory.used_bytes
        if (excess_bytes := self._memory.read_device().active_bytes - most_bytes) > 0:
            self._prefixes.shrink(max(0, tier_bytes - excess_bytes))
            self._memory.clear_buffers()

    def load(self, spec: wire.ModelSpec) -> Iterator[float | Handle]:
        self._check_room(spec)
        try:
            yield from self._portions(spec)
        # What MLX says where the device takes no more, or does not compile what it is given.
        except (MemoryError, RuntimeError) as error:
            raise LoadFailed(explain(Path(spec.path), error)) from error

    def _check_room(self, spec: wire.ModelSpec) -> None:
        """Other programs may have what the limit allows."""
        room_bytes = self._memory.obtainable_bytes()
        if room_bytes is not None and (needed_bytes := self.weight_bytes(spec)) > room_bytes:
            others_bytes = self._memory.read().others_bytes
            raise LoadFailed(
                f"the weights need {needed_size(needed_bytes)} and the device has "
                f"{allowed_size(room_bytes)} left: other programs use {allowed_size(others_bytes)}"
            )

    def _portions(self, spec: wire.ModelSpec) -> Iterator[float | Handle]:
        opens = load_encoder if _is_encoder(spec) else load
        for one in opens(Path(spec.path), casts_to_float32=self._casts_to_float32):
            if one.loaded is None:
                yield one.fraction
            elif spec.kind is wire.ModelKind.GENERATE:
                yield from self._handles(spec, one.loaded)
            else:
                yield self._vector_handle(spec, one.loaded)

    def _handles(self, spec: wire.ModelSpec, loaded: LoadedModel) -> Iterator[float | Handle]:
        """The last one, when it is known how decode steps are called."""
        decode, new_caches = None, _caches_of(spec, loaded)
        if spec.kv_bits is None:
            for decode in direct_step.finding(  # noqa: B007 - the last one is it
                loaded.model, has_batches=loaded.is_batchable
            ):
                yield _CHECKING_FRACTION
        elif loaded.is_batchable:
            for is_batchable in check_batching(loaded.model, new_caches):
                loaded = dataclasses.replace(loaded, is_batchable=bool(is_batchable))
                yield _CHECKING_FRACTION
        if not self._memory.is_cpu:
            for _ in rehearse(loaded.model):
                yield _CHECKING_FRACTION
        draft_model = None
        if spec.draft_path is not None:
            for draft_model in draft_loading.loading(  # noqa: B007 - the last one is it
                Path(spec.draft_path), loaded, casts_to_float32=self._casts_to_float32
            ):
                yield _CHECKING_FRACTION
        yield self._handle(spec, loaded, decode, new_caches, draft_model)

    def give_memory_back(self) -> None:
        """After a handle was dropped: its weights are freed now, not some time."""
        gc.collect()
        self._memory.give_back()

    def keep_learned(self) -> None:
        self._estimates.save()

    def _handle(
        self,
        spec: wire.ModelSpec,
        loaded: LoadedModel,
        decode: Forward | None,
        new_caches: Callable[[], Caches],
        draft_model: DraftModel | None,
    ) -> ModelHandle:
        voice = ModelVoice(loaded.tokenizer)
        runner = Runner(
            loaded.model,
            decode=decode,
            token_bytes=voice.token_bytes,
            new_caches=new_caches,
            drafter=TextDrafter(draft_model),
            sight=loaded.sight,
            together_bytes=self._memory.together_bytes,
        )
        peaks = self._peaks_of(spec, loaded)
        return ModelHandle(
            spec,
            runner=self._measured(runner, peaks),
            reuse=self._reuse(spec, loaded, runner, new_caches()),
            estimate=peaks.estimate,
            cost=peaks.cost,
            voice=voice,
            ledger=self._ledger,
            vitals=self._vitals,
            weight_bytes=loaded.weight_bytes + (draft_model.weight_bytes if draft_model else 0),
            context_limit_tokens=loaded.context_limit_tokens,
            is_batchable=loaded.is_batchable,
            at_work=self._at_work,
        )

    def _measured(self, runner: Runner, peaks: ModelPeaks) -> MeasuredRunner:
        note_learned = self._estimates.note_learned
        if runner.slice_bytes is not None and peaks.estimate.computes_in_blocks:
            peaks.know_slices(runner.slice_bytes)
        return MeasuredRunner(runner, peaks, self._memory.peaks, note_learned=note_learned)

    def _vector_handle(self, spec: wire.ModelSpec, loaded: LoadedModel) -> VectorHandle:
        if _is_encoder(spec):
            runner: Computer = open_encoder(loaded.model, spec)
        else:
            runner = open_runner(loaded.model, loaded.tokenizer, spec)
        if not self._memory.is_cpu:
            rehearse_vectors(runner)
        peaks, note_learned = self._peaks_of(spec, loaded), self._estimates.note_learned
        return VectorHandle(
            spec,
            runner=MeasuredComputer(runner, peaks, self._memory.peaks, note_learned=note_learned),
            estimate=peaks.estimate,
            cost=peaks.cost,
            ledger=self._ledger,
            vitals=self._vitals,
            weight_bytes=loaded.weight_bytes,
            context_limit_tokens=loaded.context_limit_tokens,
            at_work=self._at_work,
        )

    def _reuse(
        self, spec: wire.ModelSpec, loaded: LoadedModel, runner: Runner, empty_row: Caches
    ) -> SafeReuse | None:
        """None for models whose caches cannot be copied, and where prefixes are not kept."""
        needs = needs_of(empty_row)
        if needs is None or self._prefixes.memory.budget_bytes == 0:
            return None
        device_reader()  # what has to be compiled for it is compiled now
        named = {"model": spec.name}  # rules, shares and clears are by name, so blocks are as well
        root = root_key(loaded.identity | _precision(spec) | named)
        reuse = PrefixReuse(self._prefixes, runner, spec=spec, root=root, needs=needs)
        return SafeReuse(reuse, note_fault=partial(self._prefixes.count_fault, spec.name))


def _folder(spec: wire.ModelSpec) -> Path:
    """Raises LoadFailed."""
    folder = Path(spec.path)
    if not folder.is_dir():
        raise LoadFailed("the model's folder is not on the machine of this engine")
    return folder


def _is_encoder(spec: wire.ModelSpec) -> bool:
    """Raises LoadFailed for a model that cannot do what its kind says."""
    config = _read_config(Path(spec.path))
    makes_vectors = spec.kind is not wire.ModelKind.GENERATE
    if is_encoder(config) and not makes_vectors:
        raise LoadFailed("this model reads texts for vectors or scores; it cannot answer")
    if is_bidirectional_decoder(config) and makes_vectors:
        raise LoadFailed("a decoder whose tokens look both ways is not supported")
    return is_encoder(config)


def _read_config(path: Path) -> dict[str, Any]:
    try:
        config = json.loads((path / "config.json").read_text("utf-8"))
    except (OSError, ValueError) as error:
        raise LoadFailed(f"config.json cannot be read: {error}") from error
    if not isinstance(config, dict):
        raise LoadFailed("config.json holds no object")
    return config


def _caches_of(spec: wire.ModelSpec, loaded: LoadedModel) -> Callable[[], Caches]:
    """How an empty row is made. Raises LoadFailed."""
    if spec.kv_bits is None:
        return partial(new_caches, loaded.model)
    try:
        return quantised_caches(loaded.model, spec.kv_bits)
    except NotQuantisable as error:
        raise LoadFailed(str(error)) from error


def _precision(spec: wire.ModelSpec) -> dict[str, str]:
    """Blocks of another precision never match."""
    return {} if spec.kv_bits is None else {"kv_bits": str(spec.kv_bits)}


class ModelVoice:
    """What a model's tokenizer knows about text."""

    def __init__(self, tokenizer: Any):
        self._factory = TextFactory(tokenizer)
        ends = frozenset(tokenizer.eos_token_ids) | harmony.end_token_ids(tokenizer)
        self.end_token_ids: Collection[int] = ends
        self._grammars = GrammarShop(tokenizer, end_token_ids=self.end_token_ids)

    def stream(self, work: wire.Work) -> TextStream:
        return self._factory.stream(work)

    def grammar(self, work: wire.Work) -> PendingGrammar | None:
        return self._grammars.order(work)

    def token_bytes(self, token_id: int) -> bytes:
        return self._factory.vocabulary.token_bytes(token_id)
