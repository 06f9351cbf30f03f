"""An engine dies, and has left word of whom it was at work on: the others did not kill it."""

from __future__ import annotations

import itertools

import pytest

from engine import wire
from engine.core.lives import Lives
from engine.transport.exchange import Exchange
from tests.engine.transport.rig import Rig, emit, pull_ids
from tests.engine.transport.test_leases import expire_leases, is_failed
from tests.makers import make_delta, make_finished


class Incarnations:
    """Lives of one engine, one after the other, each of which knows what the last was doing."""

    def __init__(self, rig: Rig) -> None:
        self._rig = rig
        self._names = (f"life {number}" for number in itertools.count(1))
        self._last = ""

    def next(self, *at_work: str, was_loading: bool = False) -> Exchange:
        former, self._last = self._last, next(self._names)
        lives = Lives(
            own=self._last,
            former=former,
            at_work=frozenset(at_work),
            was_loading=was_loading,
        )
        return self._rig.engine(lives=lives)


def test_who_waits_while_a_killer_kills_twice_is_answered(rig: Rig) -> None:
    rig.queue("waiting", "killer")
    lives = Incarnations(rig)
    engine = lives.next()
    for _ in range(2):
        assert set(pull_ids(engine, 2)) == {"waiting", "killer"}
        engine = lives.next("killer")

    (delivery,) = engine.pull({"demo": 2})
    assert (delivery.work.request_id, delivery.is_suspect) == ("waiting", False)
    emit(engine, "waiting", make_delta(1), make_finished())
    assert isinstance(rig.events("waiting")[-1], wire.Finished)
    assert is_failed(rig, "killer", wire.Code.POISON)


def test_who_waited_goes_before_suspects_and_all_that_was_not_begun(rig: Rig) -> None:
    rig.queue("killer", "waiting")
    lives = Incarnations(rig)
    pull_ids(lives.next(), 2)
    engine = lives.next("killer")
    rig.queue("fresh")
    assert pull_ids(engine, 3) == ["waiting", "killer", "fresh"]


def test_a_suspect_that_waits_at_the_next_death_stays_a_suspect(rig: Rig) -> None:
    """It has not shown its innocence since."""
    rig.queue("a", "b")
    lives = Incarnations(rig)
    pull_ids(lives.next(), 2)
    engine = lives.next("a", "b")
    assert pull_ids(engine, 2) == ["a"]
    rig.queue("killer")
    assert pull_ids(engine) == ["killer"]

    engine = lives.next("killer")
    assert pull_ids(engine, 3) == ["a"]
    emit(engine, "a", make_finished())
    assert pull_ids(engine, 3) == ["b"]


def test_who_waits_for_another_model_than_the_one_that_kills_is_no_suspect(rig: Rig) -> None:
    rig.queue("waiting")
    rig.queue("loads", model="killer")
    lives = Incarnations(rig)
    engine = lives.next()
    for _ in range(2):
        assert pull_ids(engine) == ["waiting"] and pull_ids(engine, model="killer") == ["loads"]
        engine = lives.next("loads", was_loading=True)

    assert pull_ids(engine) == ["waiting"]
    assert is_failed(rig, "loads", wire.Code.POISON)


def test_a_model_that_nobody_asked_for_kills_at_nobody_s_cost(rig: Rig) -> None:
    rig.queue("a")
    lives = Incarnations(rig)
    engine = lives.next()
    for _ in range(3):
        assert pull_ids(engine) == ["a"]
        engine = lives.next(was_loading=True)
    (delivery,) = engine.pull({"demo": 1})
    assert not delivery.is_suspect


@pytest.mark.parametrize("at_work", [(), ("one that has ended",)])
def test_a_death_while_nobody_was_worked_on_counts_for_all(
    rig: Rig, at_work: tuple[str, ...]
) -> None:
    rig.queue("a")
    lives = Incarnations(rig)
    engine = lives.next()
    for _ in range(2):
        assert pull_ids(engine) == ["a"]
        engine = lives.next(*at_work)
    assert is_failed(rig, "a", wire.Code.POISON)


@pytest.mark.parametrize("former", ["", "a life of another machine"])
def test_the_word_of_another_life_counts_for_nothing(rig: Rig, former: str) -> None:
    rig.queue("waiting", "at work")
    word = Lives(own="own", former=former, at_work=frozenset(["at work"]), was_loading=True)
    for _ in range(2):
        engine = rig.engine(lives=word)
        pull_ids(engine, 2)
    engine = rig.engine(lives=word)
    assert is_failed(rig, "waiting", wire.Code.POISON)


def test_who_is_released_by_another_engine_counts_a_crash(rig: Rig) -> None:
    rig.queue("waiting", "at work")
    lives = Incarnations(rig)
    pull_ids(lives.next(), 2)
    expire_leases(rig)
    other = rig.engine("engine-2")
    other.release_expired()
    lives.next("at work")
    assert [one.is_suspect for one in other.pull({"demo": 2})] == [True]


def test_a_cancelled_request_that_waited_ends_as_cancelled(rig: Rig) -> None:
    rig.queue("waiting", "killer")
    lives = Incarnations(rig)
    pull_ids(lives.next(), 2)
    rig.client.cancel("waiting")
    lives.next("killer")
    end = rig.events("waiting")[-1]
    assert isinstance(end, wire.Finished) and end.reason is wire.FinishReason.CANCELLED
