"""Suspects are let in one at a time."""

from __future__ import annotations

from engine.core.delivery import Delivery
from engine.core.suspects import SuspectGate
from tests.fakes import make_delivery, make_work


def suspect(request_id: str) -> Delivery:
    return make_delivery(make_work(request_id), attempt=2, is_suspect=True)


def test_a_second_suspect_waits_for_the_first_to_be_cleared() -> None:
    gate = SuspectGate()
    assert gate.admit(suspect("a"))
    assert not gate.admit(suspect("b"))
    cleared = gate.clear()
    assert cleared is not None and cleared.work.request_id == "b"
    assert gate.inside == "b"


def test_innocents_pass_beside_a_suspect() -> None:
    gate = SuspectGate()
    gate.admit(suspect("a"))
    assert gate.admit(make_delivery(make_work("c")))


def test_a_held_suspect_can_be_dropped() -> None:
    gate = SuspectGate()
    gate.admit(suspect("a"))
    gate.admit(suspect("b"))
    assert gate.drop("b") and not gate.drop("b")
    assert gate.clear() is None
