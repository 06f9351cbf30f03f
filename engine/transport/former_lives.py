"""What the model thread still says of a row whose lease was lost, when its request has come again.

It does not know Redis.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from engine.core.delivery import AnyDelivery
from engine.transport.bundle import Published

Entry = Published | AnyDelivery  # a delivery lies where the model thread took it


class FormerLives:
    """What is said of a request before the model thread took its latest delivery is void.

    Owner: the exchange thread.
    """

    def __init__(self) -> None:
        self._untaken: dict[str, AnyDelivery] = {}

    def expect(self, deliveries: Iterable[AnyDelivery]) -> None:
        """They were pulled, and the model thread does not have them yet."""
        self._untaken.update((one.work.request_id, one) for one in deliveries)

    def sift(self, entries: Iterable[Entry]) -> Iterator[Published]:
        """All events but those of former lives."""
        for entry in entries:
            if isinstance(entry, AnyDelivery):
                self._note_taken(entry)
            elif entry[0] not in self._untaken:
                yield entry

    def _note_taken(self, delivery: AnyDelivery) -> None:
        request_id = delivery.work.request_id
        if self._untaken.get(request_id) is delivery:
            del self._untaken[request_id]
