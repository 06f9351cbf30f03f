"""The prefix cache as requests may rely on it: whatever fails there is a miss, counted and logged.

It does not know what is kept nor how. Owner: the model thread.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Protocol, TypeVar

from engine import wire
from engine.core.step import Drawn
from engine.live_request import LiveRequest

Result = TypeVar("Result")
logger = logging.getLogger(__name__)


class Reuse(Protocol):
    """What is kept of prefixes: reuse.py, or a fake."""

    spec: wire.ModelSpec

    @property
    def wants_boundaries(self) -> bool: ...
    def begin(
        self, live: LiveRequest, *, prefill_seconds: Callable[[int], float]
    ) -> float | None: ...
    def begin_again(
        self, live: LiveRequest, *, prefill_seconds: Callable[[int], float]
    ) -> float | None: ...
    def wait_on(self, live: LiveRequest) -> float | None: ...
    def open(self, live: LiveRequest) -> Drawn | None: ...
    def open_late(self, live: LiveRequest) -> Drawn | None: ...
    def restore(self, live: LiveRequest) -> None: ...
    def go_on(self, live: LiveRequest) -> None: ...
    def keep_boundary(self, live: LiveRequest) -> None: ...
    def keep_prompt(self, live: LiveRequest) -> None: ...
    def keep_opening(self, live: LiveRequest) -> None: ...
    def keep_row(self, live: LiveRequest) -> None: ...
    def distrust(self, live: LiveRequest) -> None: ...
    def forget(self, live: LiveRequest) -> None: ...
    def persist(self, *, at_once: bool = False) -> None: ...


class SafeReuse:
    """A Reuse that never raises: without the cache a request is slower, and nothing else."""

    def __init__(self, inner: Reuse, *, note_fault: Callable[[], None]):
        self._inner = inner
        self._note_fault = note_fault

    @property
    def spec(self) -> wire.ModelSpec:
        return self._inner.spec

    @spec.setter
    def spec(self, spec: wire.ModelSpec) -> None:
        self._inner.spec = spec

    @property
    def wants_boundaries(self) -> bool:
        return self._inner.wants_boundaries

    def begin(self, live: LiveRequest, *, prefill_seconds: Callable[[int], float]) -> float | None:
        return self._try(lambda: self._inner.begin(live, prefill_seconds=prefill_seconds))

    def begin_again(
        self, live: LiveRequest, *, prefill_seconds: Callable[[int], float]
    ) -> float | None:
        return self._try(lambda: self._inner.begin_again(live, prefill_seconds=prefill_seconds))

    def wait_on(self, live: LiveRequest) -> float | None:
        return self._try(lambda: self._inner.wait_on(live))

    def open(self, live: LiveRequest) -> Drawn | None:
        return self._try(lambda: self._inner.open(live))

    def open_late(self, live: LiveRequest) -> Drawn | None:
        return self._try(lambda: self._inner.open_late(live))

    def restore(self, live: LiveRequest) -> None:
        self._try(lambda: self._inner.restore(live))

    def go_on(self, live: LiveRequest) -> None:
        self._try(lambda: self._inner.go_on(live))

    def keep_boundary(self, live: LiveRequest) -> None:
        self._try(lambda: self._inner.keep_boundary(live))

    def keep_prompt(self, live: LiveRequest) -> None:
        self._try(lambda: self._inner.keep_prompt(live))

    def keep_opening(self, live: LiveRequest) -> None:
        self._try(lambda: self._inner.keep_opening(live))

    def keep_row(self, live: LiveRequest) -> None:
        self._try(lambda: self._inner.keep_row(live))

    def distrust(self, live: LiveRequest) -> None:
        self._try(lambda: self._inner.distrust(live))

    def forget(self, live: LiveRequest) -> None:
        self._try(lambda: self._inner.forget(live))

    def persist(self, *, at_once: bool = False) -> None:
        self._try(lambda: self._inner.persist(at_once=at_once))

    def _try(self, act: Callable[[], Result | None]) -> Result | None:
        try:
            return act()
        except Exception:
            self._note_fault()
            logger.warning("a cache fault", extra={"model": self.spec.name}, exc_info=True)
            return None
