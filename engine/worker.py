"""The loop of the engine: commands, models, one step of every model that has work, and again.

It does not know Redis (the transport does) nor tensors (model/ does). One thread runs it, the
model thread: everything that touches mlx happens in its turns.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Protocol

from engine import wire
from engine.cache.owners import OwnerKind, owner_name
from engine.cache.prefix import BOTH_TIERS, ModelRules, PrefixCache
from engine.cache.report import cache_status
from engine.core.delivery import AnyDelivery, Delivery, Dropped, VectorDelivery
from engine.core.guests import Invitation, most_guests
from engine.core.limits import Limits
from engine.core.pacing import Pace, strictest
from engine.core.suspects import SuspectGate
from engine.handle import Events, ModelHandle
from engine.memory_report import memory_status
from engine.metrics import Vitals
from engine.model.memory import Memory
from engine.model.reclaimer import Reclaimer
from engine.pool import ModelPool
from engine.relief import Relief
from engine.shelf import Handle

_IDLE_WAIT_SECONDS = 0.5
_BLOCKED_WAIT_SECONDS = 0.02
_SHORT_WAIT_SECONDS = 0.001  # for the disk, for a grammar
_SHOW_SECONDS = 0.25
_SHOW_LATEST_SECONDS = 0.75  # where somebody waits for a first token meanwhile
_PORTION_SECONDS = 15.0  # of a load, at most: CUDA compiles its kernels in one of them

Received = AnyDelivery | Dropped | wire.Notice


class WorkTransport(Protocol):
    """engine/transport, or a fake."""

    def receive(self, wait_seconds: float) -> Sequence[Received]: ...
    def want(self, rows: Mapping[str, int], invitations: Mapping[str, Invitation]) -> None: ...
    def publish(self, events: Sequence[tuple[str, wire.Event]]) -> None: ...


class Worker:
    def __init__(
        self,
        *,
        transport: WorkTransport,
        pool: ModelPool,
        vitals: Vitals,
        memory: Memory,
        prefixes: PrefixCache,
        clock: Callable[[], float] = time.monotonic,
        wall_clock: Callable[[], float] = time.time,
    ):
        self._transport = transport
        self._pool = pool
        self._vitals = vitals
        self._memory = memory
        self._prefixes = prefixes
        self._clock = clock
        self._wall_clock = wall_clock
        self._reclaimer = Reclaimer(memory.clear_buffers)
        self._relief = Relief(pool, memory, prefixes, clear_buffers=self._reclaimer.clear_now)
        self._suspects = SuspectGate()
        self._shown_at = float("-inf")

    def run(self, stopping: threading.Event) -> None:
        """Turn until told to stop. What is unfinished then goes on in another engine."""
        while not stopping.is_set():
            self.turn()

    def close(self) -> None:
        self._pool.close()

    def turn(self) -> None:
        for message in self._transport.receive(self._wait_seconds):
            self._publish(self._handle(message))
        is_awaited = self._is_awaited
        self._prefixes.go_on_clearing()
        self._end_overdue()
        self._advance_models()
        self._take_fetched()
        limits = self._guard_memory()
        for handle in self._pool.handles:
            if not handle.is_idle:
                self._publish(self._turn_of(handle, limits))
            handle.persist()
        self._admit_next_suspect()
        self._want_more()
        self._prefixes.hold_writes(self._is_pressed)
        # What this turn has told is on its way in another thread, which needs the interpreter too
        is_awaited = is_awaited or self._is_awaited
        self._reclaimer.after_step(now=self._clock(), awaits_first_token=is_awaited)
        self._show(_SHOW_LATEST_SECONDS if is_awaited else _SHOW_SECONDS)

    @property
    def _is_awaited(self) -> bool:
        """Somebody waits for a first token."""
        return any(handle.awaits_first_token for handle in self._pool.handles)

    @property
    def _is_pressed(self) -> bool:
        """The writer would slow requests down; but where memory is short it frees what it holds."""
        return not self._pool.is_idle and self._pool.guard.level is wire.Level.CALM

    @property
    def _wait_seconds(self) -> float:
        if self._prefixes.is_clearing:
            return 0.0
        if not self._pool.is_idle:
            return _SHORT_WAIT_SECONDS if self._only_waits else 0.0
        return _BLOCKED_WAIT_SECONDS if self._pool.has_waiting else _IDLE_WAIT_SECONDS

    @property
    def _only_waits(self) -> bool:
        busy = (handle for handle in self._pool.handles if not handle.is_idle)
        return not self._pool.is_loading and all(handle.only_waits for handle in busy)

    def _handle(self, message: Received) -> Events:
        match message:
            case Delivery() | VectorDelivery():
                self._drop(message.work.request_id)  # its lease may have been lost unnoticed
                return self._pool.deliver(message) if self._suspects.admit(message) else []
            case Dropped(request_id=request_id):
                self._drop(request_id)
            case wire.Cancel(request_id=request_id):
                return self._cancel(request_id)
            case wire.Configure(models=models, memory_limits=limits):
                self._set_cache_rules(models)
                self._pool.guard.set_limit(limits.get(self._vitals.engine_name))
                self._memory.set_limit(self._pool.guard.critical_bytes)
                return self._pool.configure(models)
            case wire.LoadModel(name=name):
                self._pool.want(name)
            case wire.UnloadModel(name=name):
                self._pool.unload(name)
            case wire.ClearCache(model=name, tier=tier):
                self._prefixes.clear(name, tiers=BOTH_TIERS if tier is None else (tier,))
            case wire.ForgetTenant(tenant=tenant):
                self._forget_owner(owner_name(OwnerKind.PERSON, tenant))
            case wire.Unpublish(publication=publication):
                self._forget_owner(owner_name(OwnerKind.PUBLICATION, publication))
        return []

    def _forget_owner(self, owner: bytes) -> None:
        """What is kept, and what would be of the requests that are worked on."""
        self._prefixes.forget_owner(owner)
        for handle in self._pool.handles:
            if isinstance(handle, ModelHandle):
                handle.forget_owner(owner)

    def _turn_of(self, handle: Handle, limits: Limits) -> Events:
        others = strictest(self._decoding_beside(handle))
        if isinstance(handle, ModelHandle):
            own_limits = self._relief.own_limits(handle, limits)
            events = handle.turn(others=others, limits=own_limits)
            if handle.spec.clears_buffers and _has_sliced(events):
                self._reclaimer.clear_now()
            return events
        return handle.turn(others=others, limits=limits)

    def _guard_memory(self) -> Limits:
        """Relieve the memory if it must be; what the models of this turn may use."""
        handles = self._pool.handles
        relief = self._relief
        for give_way in (relief.relieve, relief.hold_ceilings, relief.make_way):
            self._publish(give_way(handles))
        return self._relief.limits(self._pool.handles)

    def _set_cache_rules(self, models: tuple[wire.ModelSpec, ...]) -> None:
        for spec in models:
            rules = ModelRules(
                share_after=spec.share_after,
                memory_share=spec.cache_memory_share,
                disk_share=spec.cache_disk_share,
                is_on_disk=spec.is_cached_on_disk,
            )
            self._prefixes.set_rules(spec.name, rules)

    def _drop(self, request_id: str) -> None:
        if not self._suspects.drop(request_id):
            self._pool.drop(request_id)

    def _cancel(self, request_id: str) -> Events:
        held = [one for one in self._suspects.held if one.work.request_id == request_id]
        if held and self._suspects.drop(request_id):
            return self._pool.cancelled(held[0])
        return self._pool.cancel(request_id)

    def _end_overdue(self) -> None:
        """Requests that have not come to a model; who has is looked after there."""
        now = self._wall_clock()
        self._publish(self._pool.end_overdue(now))
        for delivery in self._suspects.take_overdue(now):
            self._publish(self._pool.overdue(delivery))

    def _publish(self, events: Events) -> None:
        if not events:
            return
        self._transport.publish(events)
        if any(isinstance(event, wire.TERMINAL_EVENTS) for _, event in events):
            self._reclaimer.want(now=self._clock())

    def _advance_models(self) -> None:
        if self._pool.is_loading:
            with self._vitals.stall.working(_PORTION_SECONDS):
                self._publish(self._pool.advance())
            self._vitals.note_progress()
        else:
            self._publish(self._pool.advance())
        self._vitals.stall.note_busy(not self._pool.is_idle and not self._only_waits)

    def _take_fetched(self) -> None:
        """Requests whose prefix has come from disk go on."""
        for request_id in self._prefixes.take_fetched():
            self._publish(self._pool.fetched(request_id))

    def _decoding_beside(self, handle: Handle) -> list[Pace]:
        return [one.pace for one in self._pool.handles if one is not handle and one.is_decoding]

    def _admit_next_suspect(self) -> None:
        inside = self._suspects.inside
        if inside is None or not self._pool.is_unproven(inside):
            while (delivery := self._suspects.clear()) is not None:
                self._publish(self._pool.deliver(delivery))
                if self._pool.is_unproven(delivery.work.request_id):
                    return

    def _want_more(self) -> None:
        """Free rows, and a few requests more so that a freed row is filled at once; beyond them
        guests. While memory is short the others keep their places in the queue."""
        is_short = self._pool.guard.level is not wire.Level.CALM
        wanted, invitations = {}, {}
        for name in self._pool.specs:
            max_rows = 1 if is_short else self._pool.max_rows(name)
            most, num_taken = max_rows + wire.look_ahead(max_rows), self._pool.num_taken(name)
            wanted[name] = max(0, most - num_taken)
            may_invite = max(0, num_taken - most) < most_guests(max_rows)
            if may_invite and (invitation := self._pool.invitation(name)) is not None:
                invitations[name] = invitation
        self._transport.want(wanted, invitations)

    def _show(self, after_seconds: float) -> None:
        """Refresh what the heartbeat shows, a few times a second."""
        now = self._clock()
        if now - self._shown_at < after_seconds:
            return
        self._shown_at = now
        rows = [row for handle in self._pool.handles for row in handle.row_statuses()]
        readings = self._memory.read()
        self._vitals.show(
            models=self._pool.statuses(),
            rows=tuple(rows),
            readings=readings,
            cache=cache_status(self._prefixes),
            guarded=memory_status(
                self._pool.guard,
                readings,
                weight_bytes=self._pool.weight_bytes,
                row_bytes=self._pool.row_bytes,
                tier_bytes=self._prefixes.memory.used_bytes,
                models=self._pool.memories(),
            ),
        )


def _has_sliced(events: Events) -> bool:
    return any(isinstance(event, wire.Prefilled) for _, event in events)
