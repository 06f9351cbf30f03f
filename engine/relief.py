"""What is done when memory gets short, gentlest first: unused buffers, the prefix cache's memory,
idle models, the newest row, models whose requests all wait, and only then one request that holds
the memory alone.

It decides by the guard's level, after every measure again. Owner: the model thread.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence

from engine import wire
from engine.cache.prefix import PrefixCache
from engine.core.limits import Limits
from engine.core.turnstile import Turnstile
from engine.handle import Events, ModelHandle
from engine.live_request import LiveRequest
from engine.model.memory import Memory
from engine.pool import ModelPool
from engine.shelf import Handle
from engine.sizing.words import allowed_size, needed_size
from engine.wire import Level

UNUSED_SECONDS = 30.0  # rows wait beside a model that was used later: it may be wanted again
_TURNS_TO_WAIT = 3  # the device works one step ahead: so long until a row's memory is free


class Relief:
    def __init__(
        self,
        pool: ModelPool,
        memory: Memory,
        prefixes: PrefixCache,
        *,
        clear_buffers: Callable[[], None],
    ) -> None:
        self._pool = pool
        self._guard = pool.guard
        self._memory = memory
        self._prefixes = prefixes
        self._clear_buffers = clear_buffers
        self._turns_to_wait = 0
        self._turnstile = Turnstile()

    def relieve(self, handles: Sequence[Handle]) -> Events:
        """Once a turn, before anything is computed."""
        self._turns_to_wait = max(0, self._turns_to_wait - 1)
        self._guard.weight_bytes = self._pool.weight_bytes
        used_bytes = self._memory.read_device().active_bytes
        self._hold_copies(used_bytes)
        excess_bytes = used_bytes - self._guard.critical_bytes
        self._memory.bound_buffers(-excess_bytes)
        if excess_bytes > 0:
            self._shrink_tier(excess_bytes)
        if self._observe() is Level.CALM:
            return []
        if len(handles) > 1:
            self._pool.residents.dismiss_idle()
        if self._observe() is not Level.CRITICAL or self._turns_to_wait:
            return []
        return self._take_rows([one for one in handles if isinstance(one, ModelHandle)])

    def limits(self, handles: Sequence[Handle]) -> Limits:
        used_bytes = self._memory.read_device().active_bytes
        return Limits(
            level=self._guard.level,
            free_bytes=self._guard.critical_bytes - used_bytes,
            tier_bytes=self._prefixes.memory.used_bytes,
            make_room=self._make_room,
            idle_bytes=self._idle_bytes,
            dismiss_idle=self._dismiss_idle,
            give_all=self._give_all,
            turnstile=self._turnstile,
            is_quiet=not any(one.has_rows for one in handles if isinstance(one, ModelHandle)),
        )

    @property
    def _idle_bytes(self) -> int:
        idle = self._pool.residents.idle(UNUSED_SECONDS)
        return idle.weight_bytes if idle is not None else 0

    def _dismiss_idle(self) -> None:
        self._pool.residents.dismiss_idle(unused_seconds=UNUSED_SECONDS)

    def _give_all(self) -> None:
        """Other programs have what the limit allows: all that no row needs goes."""
        self._guard.note("exhaustion")
        self._prefixes.shrink(0)
        self._clear_buffers()

    def own_limits(self, handle: ModelHandle, limits: Limits) -> Limits:
        """What this model may use: its own ceiling counts too."""
        return dataclasses.replace(limits, own_free_bytes=self._own_free_bytes(handle))

    def hold_ceilings(self, handles: Sequence[Handle]) -> Events:
        """Rows that have grown past their model's ceiling give way, its newest first."""
        events: Events = []
        for handle in handles:
            if isinstance(handle, ModelHandle):
                events += self._preempt_newest([handle], -self._own_free_bytes(handle))
        return events

    def make_way(self, handles: Sequence[Handle]) -> Events:
        """Before buffers grow past the limit, the newest rows of their model go."""
        events: Events = []
        for handle in handles:
            if isinstance(handle, ModelHandle) and (needed := handle.memory.growth_bytes):
                room_bytes = self._guard.limit_bytes - self._lasting_bytes
                # What goes is copied, and the disk's writer holds copies until they are written:
                # they leave room for laying the other rows out anew
                used_bytes = self._memory.read_device().active_bytes
                self._hold_copies(used_bytes + handle.memory.leaving_bytes)
                events += self._preempt_newest([handle], needed - room_bytes)
        return events

    def _preempt_newest(self, handles: list[ModelHandle], excess_bytes: int) -> Events:
        """The newest rows of these models go back to the queue, until what they hold is so much;
        the last one stays."""
        events: Events = []
        if excess_bytes <= 0:
            return events
        num_rows = sum(len(one.scheduler.rows) for one in handles)
        while excess_bytes > 0 and (num_rows := num_rows - 1) > 0:
            handle, newest = self._newest_of(handles)
            excess_bytes -= handle.memory.held_bytes(newest.sequence)
            self._guard.note("preempt", model=handle.spec.name)
            events += handle.preempt(newest)
        return events

    def _hold_copies(self, used_bytes: int) -> None:
        """The prefix cache copies up to the limit, less this."""
        self._give_copies(max(0, self._guard.limit_bytes - used_bytes))

    def _give_copies(self, left_bytes: int) -> None:
        """So much is left for them and for what they are cut out of; it is less than nothing where
        some have to go."""
        tier, cut_bytes = self._prefixes.memory, self._memory.together_bytes
        tier.hold_to(tier.used_bytes + max(left_bytes - cut_bytes, min(left_bytes, 0)))

    def _own_free_bytes(self, handle: ModelHandle) -> int:
        ceiling_bytes = handle.spec.ceiling_bytes(self._guard.limit_bytes)
        return ceiling_bytes - handle.weight_bytes - handle.row_bytes

    def _observe(self) -> Level:
        return self._guard.observe(self._lasting_bytes)

    @property
    def _lasting_bytes(self) -> int:
        """What does not go at once when something needs the room."""
        return self._memory.read_device().active_bytes - self._prefixes.memory.used_bytes

    def _make_room(self, num_bytes: int, kept_bytes: int) -> None:
        """The prefix cache gives way to what is computed next, and so do unused buffers.
        `kept_bytes`: what the cache may copy before."""
        tier, most_bytes = self._prefixes.memory, self._guard.critical_bytes - num_bytes
        left_bytes = most_bytes - self._memory.read_device().active_bytes
        if left_bytes < 0 and tier.used_bytes:
            self._prefixes.shrink(max(0, tier.used_bytes + left_bytes))
            # What the disk's writer has yet to write has left the cache and is in memory still
            left_bytes = most_bytes - self._memory.read_device().active_bytes
        self._give_copies(left_bytes)
        self._memory.bound_buffers(left_bytes - min(kept_bytes, tier.room_bytes))

    def _shrink_tier(self, excess_bytes: int) -> None:
        if tier_bytes := self._prefixes.memory.used_bytes:
            self._prefixes.shrink(max(0, tier_bytes - excess_bytes))
            self._clear_buffers()

    def _take_rows(self, handles: list[ModelHandle]) -> Events:
        """The newest rows of all give way, as many as are too much; the last one, if it is too
        large, fails."""
        num_rows = sum(len(one.scheduler.rows) for one in handles)
        if not num_rows:
            return []
        self._turns_to_wait = _TURNS_TO_WAIT
        is_last = num_rows == 1
        if (is_last or self._is_crowded) and self._pool.set_aside():
            return []
        if is_last:
            (last,) = (one for one in handles if one.scheduler.rows)
            return self._fail(last)
        return self._preempt_newest(handles, self._lasting_bytes - self._guard.critical_bytes)

    def _newest_of(self, handles: list[ModelHandle]) -> tuple[ModelHandle, LiveRequest]:
        rows = [(one, row) for one in handles if (row := one.newest_row) is not None]
        return max(rows, key=lambda one: one[1].sequence.arrived_at)

    @property
    def _is_crowded(self) -> bool:
        """More models are loaded than would have been at this limit."""
        return self._pool.weight_bytes > self._guard.loadable_bytes

    def _fail(self, handle: ModelHandle) -> Events:
        live = handle.newest_row
        used_bytes = self._memory.read_device().active_bytes
        if live is None or used_bytes <= self._guard.limit_bytes:
            return []
        self._guard.note("failure", model=handle.spec.name)
        remedy = "A shorter prompt or answer would help."
        if self._pool.weight_bytes >= self._guard.limit_bytes:
            remedy = "The models' weights alone need more: unload one or raise the limit."
        detail = (
            f"The request needs {needed_size(used_bytes)} of memory with its model and the limit "
            f"is {allowed_size(self._guard.limit_bytes)}. {remedy}"
        )
        return handle.end(live, wire.Code.DOES_NOT_FIT, detail)
