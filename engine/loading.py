"""Models on their way into memory: whether there is room for one, then portion by portion.

It does not know who waits for them. Owner: the model thread.
"""

from __future__ import annotations

import logging
from collections.abc import Callable

from engine import wire
from engine.guard import MemoryGuard, Verdict
from engine.residents import Residents
from engine.shelf import Handle, LoadFailed, Shelf

_SHOWN_FRACTION = 0.05
_LOOK_AGAIN_SECONDS = 0.1  # for room, while others keep theirs
logger = logging.getLogger(__name__)


class Load:
    """One that is under way."""

    def __init__(self, spec: wire.ModelSpec, shelf: Shelf) -> None:
        self.spec = spec
        self.is_to_leave = False  # it was to be unloaded meanwhile
        self._shelf = shelf
        self._portions = shelf.load(spec)
        self._shown = 0.0

    @property
    def status(self) -> wire.ModelStatus:
        return wire.ModelStatus(name=self.spec.name, state="loading", loaded_fraction=self._shown)

    def advance(self) -> float | Handle | wire.Failed | None:
        """The next portion: a fraction that is worth telling, or None; at the end the model, or why
        it did not come."""
        try:
            portion = next(self._portions)
        except LoadFailed as error:
            failed = load_failed(str(error))
        else:
            return self._show(portion) if isinstance(portion, float) else portion
        # Only now nothing refers to what was loaded of it: the error's traceback did.
        self._shelf.give_memory_back()
        return failed

    def _show(self, fraction: float) -> float | None:
        if fraction - self._shown < _SHOWN_FRACTION:
            return None
        self._shown = fraction
        return fraction


class LoadGate:
    """Where loads begin. `clock`: monotonic."""

    def __init__(
        self,
        shelf: Shelf,
        guard: MemoryGuard,
        residents: Residents,
        *,
        clock: Callable[[], float],
    ):
        self._shelf = shelf
        self._guard = guard
        self._residents = residents
        self._clock = clock
        self._may_look_at = float("-inf")

    @property
    def may_look(self) -> bool:
        """False for a moment after there was no room."""
        return self._clock() >= self._may_look_at

    def begin(
        self, spec: wire.ModelSpec, *, pinned_bytes: int, waits_since: float
    ) -> Load | wire.Failed | None:
        """None: room is being made first; Failed: it will never load. `pinned_bytes`: weights of
        others that stay. `waits_since`: when it was first asked for."""
        try:
            self._shelf.estimate(spec)
            needed_bytes = self._shelf.weight_bytes(spec)
        except LoadFailed as error:
            return load_failed(str(error))
        assessment = self._guard.assess_load(
            needed_bytes=needed_bytes,
            active_bytes=self._shelf.lasting_bytes(),
            ceiling_bytes=spec.ceiling_bytes(self._guard.limit_bytes),
            pinned_bytes=pinned_bytes,
        )
        if assessment.verdict is Verdict.NEVER:
            self._guard.note("refusal", model=spec.name, num_bytes=needed_bytes)
            return wire.Failed(code=wire.Code.DOES_NOT_FIT, detail=assessment.detail)
        if assessment.verdict is Verdict.NOT_NOW:
            self._make_room(waits_since=waits_since)
            return None
        self._shelf.shrink_cache(self._guard.loadable_bytes - needed_bytes)
        logger.info("loading model", extra={"model": spec.name})
        return Load(spec, self._shelf)

    def _make_room(self, *, waits_since: float) -> None:
        self._may_look_at = self._clock() + _LOOK_AGAIN_SECONDS
        if not self._residents.dismiss_idle():
            self._residents.dismiss_for(waits_since=waits_since)


def load_failed(detail: str) -> wire.Failed:
    return wire.Failed(code=wire.Code.MODEL_LOAD_FAILED, detail=detail)
