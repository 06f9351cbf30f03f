"""Models that could not be read or loaded, and why. Each is tried again after a while, when
somebody asks."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

from engine import wire

_RETRY_SECONDS = 10.0


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class _Failure:
    failed: wire.Failed
    at: float


class LoadFailures:
    """`clock`: monotonic."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._by_name: dict[str, _Failure] = {}

    def note(self, name: str, failed: wire.Failed) -> None:
        self._by_name[name] = _Failure(failed=failed, at=self._clock())

    def forget(self, name: str) -> None:
        self._by_name.pop(name, None)

    def clear(self) -> None:
        self._by_name = {}

    def recent(self, name: str) -> wire.Failed | None:
        """What who asks for this model hears; None: it is to be tried."""
        failure = self._by_name.get(name)
        if failure is None or self._clock() - failure.at >= _RETRY_SECONDS:
            return None
        return failure.failed

    def statuses(self) -> list[wire.ModelStatus]:
        return [
            wire.ModelStatus(name=name, state="failed", detail=failure.failed.detail)
            for name, failure in self._by_name.items()
        ]
