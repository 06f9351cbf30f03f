"""Who is let into the queue, and the place that is told at once, in the real Redis."""

from __future__ import annotations

import pytest

from engine import wire
from tests.engine.transport.rig import Rig, pull_ids
from tests.makers import make_generate


def test_a_tenants_requests_of_all_classes_count(rig: Rig) -> None:
    for priority in wire.Priority:
        rig.submit(priority, tenant="user:a", priority=priority)
    outcomes = rig.admit_all(max_queue_per_tenant=2)
    assert outcomes == ["admitted", "admitted", "tenant_queue_full"]


@pytest.mark.parametrize("cap", ["max_queue", "max_queue_per_tenant"])
def test_who_was_let_in_before_is_let_in_again(rig: Rig, cap: str) -> None:
    rig.queue("a", "b")
    rig.client.submit(make_generate("lost before"), is_again=True)
    rig.submit("new")
    assert rig.admit_all(**{cap: 2})[0] == "admitted"
    assert pull_ids(rig.engine(), 4) == ["a", "b", "lost before"]


def test_higher_classes_stand_before_who_comes_and_lower_ones_do_not(rig: Rig) -> None:
    for priority in (wire.Priority.BATCH, wire.Priority.INTERACTIVE):
        rig.queue(f"{priority}0", f"{priority}1", priority=priority)
    rig.queue("one", priority=wire.Priority.API)
    assert rig.events("one")[1:] == [wire.Queued(position=3)]
    rig.queue("last", priority=wire.Priority.BATCH)
    assert rig.events("last")[1:] == [wire.Queued(position=6)]


def test_who_comes_back_is_told_its_place_again(rig: Rig) -> None:
    rig.queue("a")
    rig.refresh_places()
    engine = rig.engine()
    assert pull_ids(engine) == ["a"]
    engine.give_back()
    rig.refresh_places()
    assert rig.events("a")[1:] == [wire.Queued(position=1), wire.Queued(position=1)]
