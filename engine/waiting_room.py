"""Requests whose model is not in memory, by model. It does not know what is loaded, nor why not.

Owner: the model thread.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from engine.core.delivery import AnyDelivery

Entry = tuple[AnyDelivery, float]  # since when it waits


class WaitingRoom:
    def __init__(self, *, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._entries: dict[str, list[Entry]] = {}

    def __iter__(self) -> Iterator[AnyDelivery]:
        return (delivery for entries in self._entries.values() for delivery, _ in entries)

    @property
    def models(self) -> list[str]:
        """Those that somebody waits for, longest first."""
        return list(self._entries)

    def add(self, delivery: AnyDelivery) -> None:
        self._entries.setdefault(delivery.work.model, []).append((delivery, self._clock()))

    def of_model(self, name: str) -> list[AnyDelivery]:
        return [delivery for delivery, _ in self._entries.get(name, ())]

    @property
    def since(self) -> dict[str, float]:
        """When the first of those who wait for each model came."""
        return {name: entries[0][1] for name, entries in self._entries.items()}

    def take(self, request_id: str) -> AnyDelivery | None:
        """This one leaves, if it is here."""
        for name, entries in self._entries.items():
            for entry in entries:
                if entry[0].work.request_id == request_id:
                    entries.remove(entry)
                    if not entries:
                        del self._entries[name]
                    return entry[0]
        return None

    def take_all(self, name: str) -> list[tuple[AnyDelivery, float]]:
        """All who wait for this model leave; with the seconds that each has waited."""
        now = self._clock()
        return [(delivery, now - since) for delivery, since in self._entries.pop(name, [])]
