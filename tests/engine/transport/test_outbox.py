"""What goes at once and what waits for the others, by a clock of the test's own."""

from __future__ import annotations

import math

import pytest

from engine import wire
from engine.core.delivery import Dropped
from engine.transport.bundle import INTERVAL_SECONDS, Haste, Published
from engine.transport.inbox import Received
from engine.transport.outbox import Outbox
from tests.fakes import FakeClock, make_delivery, make_work
from tests.makers import make_delta, make_finished

STARTED = wire.Started(cached_tokens=0)


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture
def outbox(clock: FakeClock) -> Outbox:
    """`a` and `b` have their first tokens, and all has gone."""
    outbox = Outbox(clock)
    outbox.put([("a", make_delta(0)), ("b", make_delta(0))])
    assert len(outbox.take()) == 2
    return outbox


def kinds(events: list[Published]) -> list[tuple[str, str]]:
    return [(request_id, type(event).__name__) for request_id, event in events]


def token_ids(events: list[Published]) -> list[int]:
    deltas = (event for _, event in events if isinstance(event, wire.Delta))
    return [one for delta in deltas for one in delta.token_ids]


def test_one_who_waits_takes_nobody_elses_tokens_along(outbox: Outbox) -> None:
    outbox.put([("a", make_delta(1)), ("b", make_delta(1))])
    assert outbox.take() == []
    assert outbox.put([("c", STARTED), ("c", make_delta(1))]) is Haste.FIRST
    assert kinds(outbox.take()) == [("c", "Started"), ("c", "Delta")]
    assert outbox.put([("a", make_finished())]) is Haste.AT_ONCE
    assert kinds(outbox.take()) == [("a", "Delta"), ("a", "Finished")]


def test_what_is_kept_goes_after_an_interval_together(outbox: Outbox, clock: FakeClock) -> None:
    due_at = clock.now + INTERVAL_SECONDS
    for number in range(1, 4):
        outbox.put([("a", make_delta(number)), ("b", make_delta(number))])
        outbox.put([("c", make_finished())])
        assert kinds(outbox.take()) == [("c", "Finished")]
        assert outbox.seconds_left == pytest.approx(due_at - clock.now)
        clock.now += INTERVAL_SECONDS / 3
    clock.now += 1e-6
    assert outbox.seconds_left == 0
    told = outbox.take()
    assert kinds(told) == [("a", "Delta"), ("b", "Delta")]
    assert token_ids(told) == [1, 2, 3, 1, 2, 3]
    assert outbox.seconds_left == math.inf


def test_a_lone_answers_tokens_keep_their_distance(outbox: Outbox, clock: FakeClock) -> None:
    clock.now += 1
    outbox.put([("c", make_delta(0))])
    assert len(outbox.take()) == 1
    outbox.put([("c", make_delta(1))])
    assert outbox.take() == []
    assert outbox.seconds_left == pytest.approx(INTERVAL_SECONDS)


def test_what_is_kept_of_a_former_life_is_void(outbox: Outbox, clock: FakeClock) -> None:
    outbox.put([("a", make_delta(1)), ("b", make_delta(1))])
    assert outbox.take() == []
    again = make_delivery(make_work("a"))
    outbox.expect([again])
    outbox.put([("a", make_delta(2))])
    outbox.note_taken([again])
    outbox.put([("a", make_delta(7))])
    clock.now += INTERVAL_SECONDS
    told = outbox.take()
    assert kinds(told) == [("b", "Delta"), ("a", "Delta")]
    assert token_ids(told) == [1, 7]


@pytest.mark.parametrize("message", [Dropped(request_id="a"), make_delivery(make_work("a"))])
def test_who_was_taken_away_has_a_first_token_again(outbox: Outbox, message: Received) -> None:
    """And who never comes again leaves nothing here."""
    assert outbox.put([("a", make_delta(1))]) is Haste.NONE
    outbox.note_taken([message])
    assert outbox.put([("a", make_delta(2))]) is Haste.FIRST


def test_at_the_end_all_goes(outbox: Outbox) -> None:
    outbox.put([("a", make_delta(1)), ("b", make_delta(1))])
    assert kinds(outbox.take_all()) == [("a", "Delta"), ("b", "Delta")]
