"""Who has waited for too long for its class, in the real Redis: since when, and who comes first."""

from __future__ import annotations

import pytest

from engine import wire
from tests.engine.transport.rig import Rig, pull_ids

PATIENCE_SECONDS = {wire.Priority.API: 15, wire.Priority.BATCH: 60}
MARGIN_SECONDS = 2  # for this machine's pauses


def queue_since(rig: Rig, request_id: str, priority: wire.Priority, *, seconds: int) -> None:
    rig.queue(request_id, priority=priority)
    rig.redis.hincrby(wire.Keys.request(request_id), "queued_at", -1000 * seconds)


def queue_people(rig: Rig, number: int) -> None:
    rig.queue(*(f"chat{i}" for i in range(number)), priority=wire.Priority.INTERACTIVE)


@pytest.mark.parametrize("priority", PATIENCE_SECONDS)
@pytest.mark.parametrize("is_overdue", [False, True])
def test_who_has_waited_for_its_patience_is_overdue(
    rig: Rig, priority: wire.Priority, is_overdue: bool
) -> None:
    margin = MARGIN_SECONDS if is_overdue else -MARGIN_SECONDS
    queue_since(rig, "one", priority, seconds=PATIENCE_SECONDS[priority] + margin)
    queue_people(rig, 8)
    assert pull_ids(rig.engine(), 9).index("one") == (3 if is_overdue else 8)


@pytest.mark.parametrize(
    ("waited", "order"),
    [
        ({wire.Priority.API: 40, wire.Priority.BATCH: 70}, ["api", "batch"]),
        ({wire.Priority.API: 70, wire.Priority.BATCH: 120}, ["batch", "api"]),
    ],
)
def test_of_two_classes_the_longer_overdue_one_is_next(
    rig: Rig, waited: dict[wire.Priority, int], order: list[str]
) -> None:
    for priority, seconds in waited.items():
        queue_since(rig, priority, priority, seconds=seconds)
    queue_people(rig, 8)
    pulled = pull_ids(rig.engine(), 8)
    assert [pulled[3], pulled[7]] == order
