"""Which models are in memory: loaded on demand, portion by portion, unloaded when in the way.

    configured --wanted--> loading --> loaded --idle, replaced or in the way--> configured
                                 `--> failed (tried again after a while, when somebody asks)

It does not know the transport nor how a model computes. Owner: the model thread.
"""

from __future__ import annotations

import contextlib
import logging
import time
from collections.abc import Callable

from engine import wire
from engine.at_work import AtWork
from engine.core.delivery import AnyDelivery, Delivery, VectorDelivery, is_overdue
from engine.core.guests import Invitation
from engine.guard import MemoryGuard
from engine.handle import Events, ModelHandle
from engine.load_failures import LoadFailures
from engine.loading import Load, LoadGate, load_failed
from engine.memory_report import ModelSize, model_memories
from engine.model_folders import ModelFolders
from engine.residents import Residents
from engine.shelf import Handle, LoadFailed, Shelf
from engine.vector_handle import VectorHandle
from engine.waiting_room import WaitingRoom

_FIND_SECONDS = 10.0
logger = logging.getLogger(__name__)


class ModelPool:
    """Invariant: a delivery waits here only while its model is not loaded."""

    def __init__(
        self,
        shelf: Shelf,
        guard: MemoryGuard,
        *,
        at_work: AtWork | None = None,
        folders: ModelFolders | None = None,
        clock: Callable[[], float] = time.monotonic,
    ):
        self._shelf = shelf
        self._guard = guard
        self._at_work = at_work or AtWork()
        self._folders = folders or ModelFolders()
        self._clock = clock
        self._measured_at = clock()
        self._specs: dict[str, wire.ModelSpec] = {}
        self.residents = Residents(clock=clock)
        self._waiting = WaitingRoom(clock=clock)
        self._wanted: dict[str, float] = {}  # commanded or pinned, since when
        self._failures = LoadFailures(clock)
        self._sizes: dict[str, ModelSize] = {}
        self._gate = LoadGate(shelf, guard, self.residents, clock=clock)
        self._load: Load | None = None

    def close(self) -> None:
        """The process ends: what was learned stays."""
        self._shelf.keep_learned()

    @property
    def guard(self) -> MemoryGuard:
        return self._guard

    @property
    def weight_bytes(self) -> int:
        return sum(handle.weight_bytes for handle in self.handles)

    @property
    def row_bytes(self) -> int:
        return sum(handle.row_bytes for handle in self.handles)

    @property
    def specs(self) -> dict[str, wire.ModelSpec]:
        return self._specs

    @property
    def handles(self) -> list[Handle]:
        """Every model that may still compute something."""
        return self.residents.all

    @property
    def is_idle(self) -> bool:
        """Nothing can move: no rows, nothing loading."""
        return self._load is None and all(handle.is_idle for handle in self.handles)

    @property
    def is_loading(self) -> bool:
        return self._load is not None

    def statuses(self) -> tuple[wire.ModelStatus, ...]:
        statuses = [handle.status for handle in self.residents]
        if (load := self._load) is not None:
            statuses.append(load.status)
        return (*statuses, *self._failures.statuses())

    @property
    def has_waiting(self) -> bool:
        """Requests or commands wait for a model that could not be loaded yet."""
        return bool(self._waiting.models or self._wanted)

    def is_unproven(self, request_id: str) -> bool:
        """It is here and may still be what kills."""
        if any(request_id == one.work.request_id for one in self._waiting):
            return True
        live = (handle.get_live(request_id) for handle in self.handles)
        return any(one is not None and not one.is_proven for one in live)

    def num_taken(self, name: str) -> int:
        handles = (handle for handle in self.handles if handle.spec.name == name)
        return sum(handle.num_live for handle in handles) + len(self._waiting.of_model(name))

    def max_rows(self, name: str) -> int:
        handle = self.residents.get(name)
        return handle.pace.max_rows if handle is not None else self._specs[name].max_rows

    def invitation(self, name: str) -> Invitation | None:
        """Whom a row beyond `max_rows` is for."""
        handle = self.residents.get(name)
        return handle.scheduler.invitation if isinstance(handle, ModelHandle) else None

    def configure(self, specs: tuple[wire.ModelSpec, ...]) -> Events:
        """All models that may be served from now on. Running rows of others end normally."""
        self._specs = {spec.name: self._folders.locate(spec) for spec in specs}
        self._failures.clear()
        self._measure()
        for handle in list(self.residents):
            if self._is_served(handle.spec):
                handle.configure(self._as_loaded(self._specs[handle.spec.name]))
            else:
                self.residents.dismiss(handle.spec.name)
        for spec in specs:
            if spec.is_pinned:
                self._wanted.setdefault(spec.name, self._clock())
        self._wanted = {one: since for one, since in self._wanted.items() if self._may_come(one)}
        gone = [name for name in self._waiting.models if name not in self._specs]
        return [event for name in gone for event in self._refuse_waiting(name, _not_found(name))]

    def _measure(self) -> None:
        """How large each model is, before anybody asks for it; who cannot be read has failed."""
        self._measured_at = self._clock()
        self._sizes = {}
        for name, spec in self._specs.items():
            try:
                self._sizes[name] = self._size(spec)
            except LoadFailed as error:
                self._failures.note(name, load_failed(str(error)))

    def _size(self, spec: wire.ModelSpec) -> ModelSize:
        """Raises LoadFailed."""
        handle = self.residents.get(spec.name)
        return ModelSize(
            weight_bytes=handle.weight_bytes if handle else self._shelf.weight_bytes(spec),
            estimate=self._shelf.estimate(self._as_loaded(spec)),
        )

    def _find_missing(self) -> None:
        """Folders that were not there may be there now: nobody asks an engine for a model that it
        has not, while another has it."""
        if self._clock() - self._measured_at < _FIND_SECONDS:
            return
        self._measured_at = self._clock()
        for name in self._specs.keys() - self._sizes.keys():
            spec = self._folders.locate(self._specs[name])
            with contextlib.suppress(LoadFailed):
                self._sizes[name] = self._size(spec)
                self._specs[name] = spec
                self._failures.forget(name)

    def _as_loaded(self, spec: wire.ModelSpec) -> wire.ModelSpec:
        """What counts at the next load only is as it was at the last."""
        handle = self.residents.get(spec.name)
        if handle is None:
            return spec
        loaded = handle.spec
        return wire.replace(spec, kv_bits=loaded.kv_bits, draft_path=loaded.draft_path)

    def memories(self) -> tuple[wire.ModelMemory, ...]:
        """What every model needs and has room for, loaded or not."""
        loaded = {handle.spec.name: handle.weight_bytes for handle in self.residents}
        return model_memories(self._specs, self._sizes, loaded, limit_bytes=self._guard.limit_bytes)

    def _is_pinned(self, name: str) -> bool:
        return name in self._specs and self._specs[name].is_pinned

    def _pinned_bytes(self, *, besides: str) -> int:
        """Of what is loaded and stays."""
        pinned = (one for one in self.residents if self._is_pinned(one.spec.name))
        return sum(one.weight_bytes for one in pinned if one.spec.name != besides)

    def want(self, name: str) -> None:
        """Load this model even if nobody asks for an answer."""
        self._failures.forget(name)
        if self._may_come(name):
            self._wanted.setdefault(name, self._clock())

    def _may_come(self, name: str) -> bool:
        return name in self._specs and name not in self.residents

    def unload(self, name: str) -> None:
        """Once its rows have ended, also those of who waits while it is being loaded. Who asks for
        it next loads it again."""
        self._wanted.pop(name, None)
        self.residents.dismiss(name)
        if self._load is not None and self._load.spec.name == name:
            self._load.is_to_leave = True

    def deliver(self, delivery: AnyDelivery) -> Events:
        name, request_id = delivery.work.model, delivery.work.request_id
        if (handle := self.residents.get(name)) is not None:
            return _give(handle, delivery)
        if name not in self._specs:
            return [(request_id, _not_found(name))]
        if (failed := self._failures.recent(name)) is not None:
            return [(request_id, failed)]
        self._waiting.add(delivery)
        return [(request_id, wire.Loading(fraction=0.0))]

    def cancel(self, request_id: str) -> Events:
        if (delivery := self._waiting.take(request_id)) is not None:
            return self.cancelled(delivery)
        return [event for handle in self.handles for event in handle.cancel(request_id)]

    def cancelled(self, delivery: AnyDelivery) -> Events:
        """The end of a request that has not begun here."""
        finished = wire.Finished(
            reason=wire.FinishReason.CANCELLED, usage=delivery.usage, timings=wire.Timings()
        )
        return [(delivery.work.request_id, finished)]

    def overdue(self, delivery: AnyDelivery) -> Events:
        """The same for one whose deadline has passed."""
        return [(delivery.work.request_id, _too_late(delivery))]

    def end_overdue(self, now: float) -> Events:
        """Requests whose model has not come by their deadline. `now` is Unix time."""
        overdue = [one for one in self._waiting if is_overdue(one, now)]
        for one in overdue:
            self._waiting.take(one.work.request_id)
        return [event for one in overdue for event in self.overdue(one)]

    def fetched(self, request_id: str) -> Events:
        return [event for handle in self.handles for event in handle.fetched(request_id)]

    def drop(self, request_id: str) -> None:
        self._waiting.take(request_id)
        for handle in self.handles:
            handle.drop(request_id)

    def advance(self) -> Events:
        """One portion of a load, or the next decision about what to load or unload."""
        self._unload_departed()
        self._find_missing()
        return self._begin_next() if self._load is None else self._go_on(self._load)

    def _begin_next(self) -> Events:
        since = self._wanted | self._waiting.since
        if not since:
            self.residents.dismiss_unused()
            return []
        if not self._gate.may_look:
            return []
        name = min(since, key=lambda one: since[one])
        begun = self._gate.begin(
            self._specs[name],
            pinned_bytes=self._pinned_bytes(besides=name),
            waits_since=since[name],
        )
        if isinstance(begun, wire.Failed):
            return self._fail(name, begun)
        self._load = begun
        return []

    def _go_on(self, load: Load) -> Events:
        waiting = [one.work.request_id for one in self._waiting.of_model(load.spec.name)]
        self._at_work.note_load(frozenset(waiting))
        progress = load.advance()
        if progress is None:
            return []
        if isinstance(progress, float):
            return [(request_id, wire.Loading(fraction=progress)) for request_id in waiting]
        self._load = None
        self._at_work.note_load(None)
        if isinstance(progress, wire.Failed):
            return self._fail(load.spec.name, progress) if self._is_served(load.spec) else []
        return self._welcome(progress, is_to_leave=load.is_to_leave)

    def _welcome(self, handle: Handle, *, is_to_leave: bool) -> Events:
        name = handle.spec.name
        logger.info("model loaded", extra={"model": name})
        self._guard.note("load", model=name, num_bytes=handle.weight_bytes)
        self.residents.add(handle)
        if not self._is_served(handle.spec):
            self.residents.dismiss(name)
            return []
        self._failures.forget(name)
        handle.configure(self._as_loaded(self._specs[name]))
        self._measure()
        if is_to_leave:
            self.residents.dismiss(name)  # who has asked for it since loads it again
        else:
            self._wanted.pop(name, None)
        return [
            event
            for delivery, seconds in self._waiting.take_all(name)
            for event in _give(handle, delivery, load_seconds=seconds)
        ]

    def _is_served(self, loaded: wire.ModelSpec) -> bool:
        """As it is, or was to be, loaded: it may have moved or gone meanwhile."""
        spec = self._specs.get(loaded.name)
        return spec is not None and (spec.path, spec.kind) == (loaded.path, loaded.kind)

    def _fail(self, name: str, failed: wire.Failed) -> Events:
        logger.error("model not loaded", extra={"model": name, "detail": failed.detail})
        self._wanted.pop(name, None)
        self._failures.note(name, failed)
        return self._refuse_waiting(name, failed)

    def _refuse_waiting(self, name: str, failed: wire.Failed) -> Events:
        return [(one.work.request_id, failed) for one, _ in self._waiting.take_all(name)]

    def set_aside(self) -> bool:
        """Whether one could go at once whose requests have no rows; they wait here."""
        given_back = self.residents.set_aside()
        for delivery in given_back or ():
            self._waiting.add(delivery)
        return given_back is not None

    def _unload_departed(self) -> None:
        departed = self.residents.take_departed()
        if not departed:
            return
        for handle in departed:
            handle.persist()  # what was kept in its last turn
            logger.info("model unloaded", extra={"model": handle.spec.name})
            self._guard.note("unload", model=handle.spec.name, num_bytes=handle.weight_bytes)
        del departed, handle
        self._shelf.give_memory_back()


def _give(handle: Handle, delivery: AnyDelivery, *, load_seconds: float = 0.0) -> Events:
    match handle, delivery:
        case ModelHandle(), Delivery():
            return handle.add(delivery, load_seconds=load_seconds)
        case VectorHandle(), VectorDelivery():
            return handle.add(delivery, load_seconds=load_seconds)
    detail = f"The model {handle.spec.name!r} does not do this any more."
    failed = wire.Failed(code=wire.Code.INVALID_VALUE, detail=detail)
    return [(delivery.work.request_id, failed)]


def _too_late(delivery: AnyDelivery) -> wire.Failed:
    detail = "The request's deadline has passed before it began."
    return wire.Failed(code=wire.Code.DEADLINE_EXCEEDED, detail=detail, usage=delivery.usage)


def _not_found(name: str) -> wire.Failed:
    code = wire.Code.MODEL_NOT_FOUND
    return wire.Failed(code=code, detail=f"The model {name!r} is not served any more.")
