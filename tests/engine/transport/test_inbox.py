"""What an engine's threads know of what its model thread still wants."""

from __future__ import annotations

import pytest

from engine import wire
from engine.core.guests import Invitation
from engine.transport.inbox import Inbox
from tests.fakes import make_delivery, make_work

FOR_OTHERS = Invitation(without_tenants=frozenset(["user:heavy"]), lowest_class=wire.Priority.BATCH)


def arrive(inbox: Inbox, *tenants: str, model: str = "demo") -> None:
    works = (make_work(name, model=model, tenant=name) for name in tenants)
    inbox.put([make_delivery(work) for work in works])


def wanting(rows: int) -> Inbox:
    inbox = Inbox()
    inbox.configure(wire.Configure(models=()))
    inbox.want({"demo": rows}, {"demo": FOR_OTHERS})
    return inbox


@pytest.mark.parametrize("rows", [0, 1, 2])
def test_a_guest_comes_when_the_rows_are_filled(rows: int) -> None:
    inbox = wanting(rows)
    for missing in range(rows, 0, -1):
        assert inbox.wanted() == ({"demo": missing}, {})
        arrive(inbox, "user:heavy")
    assert inbox.wanted() == ({}, {"demo": FOR_OTHERS})


def test_one_guest_comes_at_a_time() -> None:
    inbox = wanting(1)
    arrive(inbox, "user:heavy", "user:light")
    assert inbox.wanted() == ({}, {})


def test_who_has_just_come_is_no_guest_besides() -> None:
    inbox = wanting(1)
    arrive(inbox, "user:light")
    arrive(inbox, "user:third", model="another")
    for _ in ("still there", "taken by the model thread"):
        wanted, invited = inbox.wanted()
        assert wanted == {}
        assert invited["demo"].without_tenants == {"user:heavy", "user:light"}
        inbox.take(0.0)
