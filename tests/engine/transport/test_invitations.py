"""Whom the queue hands to an engine whose rows are taken, in the real Redis."""

from __future__ import annotations

import time

import pytest

from engine import wire
from engine.core.guests import Invitation
from engine.transport.exchange import Exchange
from tests.engine.transport.rig import Rig, pull_ids


def invite(
    engine: Exchange, *tenants: str, lowest: wire.Priority = wire.Priority.BATCH
) -> list[str]:
    invitation = Invitation(without_tenants=frozenset(tenants), lowest_class=lowest)
    return [one.work.request_id for one in engine.pull({}, {"demo": invitation})]


def test_the_next_of_somebody_else_comes_alone(rig: Rig) -> None:
    engine = rig.engine()
    rig.queue("h1", "h2", tenant="user:heavy")
    rig.queue("l1", "l2", tenant="user:light")
    assert invite(engine, "user:heavy") == ["l1"]
    assert pull_ids(engine, 4) == ["h1", "h2", "l2"], "its service counts"


def test_nobody_comes_where_nobody_else_waits(rig: Rig) -> None:
    rig.queue("h1", tenant="user:heavy")
    assert invite(rig.engine(), "user:heavy", "user:other") == []


@pytest.mark.parametrize("priority", wire.Priority)
def test_a_lower_class_than_invited_stays(rig: Rig, priority: wire.Priority) -> None:
    rig.queue("one", tenant="user:light", priority=priority)
    is_invited = priority is not wire.Priority.BATCH
    assert invite(rig.engine(), "user:heavy", lowest=wire.Priority.API) == ["one"] * is_invited


def test_who_was_served_least_of_the_others_comes_first(rig: Rig) -> None:
    engine = rig.engine()
    rig.queue("a1", "a2", tenant="user:a")
    rig.queue("b1", tenant="user:b")
    assert pull_ids(engine) == ["a1"]
    assert invite(engine, "user:heavy") == ["b1"]


def test_who_is_too_late_fails_and_the_next_comes(rig: Rig) -> None:
    rig.queue("late", tenant="user:light", deadline_seconds=0.05)
    rig.queue("next", tenant="user:light")
    time.sleep(0.06)
    assert invite(rig.engine(), "user:heavy") == ["next"]
    assert isinstance(rig.events("late")[-1], wire.Failed)


def test_rows_and_invitations_of_models_are_pulled_at_once(rig: Rig) -> None:
    rig.queue("h1", tenant="user:heavy")
    rig.queue("a1", tenant="user:light", model="other")
    invitation = Invitation(
        without_tenants=frozenset({"user:heavy"}), lowest_class=wire.Priority.BATCH
    )
    pulled = rig.engine().pull({"demo": 1}, {"demo": invitation, "other": invitation})
    assert [one.work.request_id for one in pulled] == ["h1", "a1"]
