"""Leases: engines that die, stall or close, requests that kill them, cancels in every state."""

from __future__ import annotations

from engine import wire
from engine.core.delivery import Dropped
from tests.engine.transport.rig import Rig, emit, pull_ids
from tests.makers import make_delta, make_finished


def expire_leases(rig: Rig) -> None:
    for request_id in rig.redis.zrange(wire.Keys.LEASES, 0, -1):
        rig.redis.zadd(wire.Keys.LEASES, {request_id: 1})


def is_failed(rig: Rig, request_id: str, code: wire.Code) -> bool:
    last = rig.events(request_id)[-1]
    return isinstance(last, wire.Failed) and last.code == code


def test_a_dead_engine_s_request_goes_on_where_it_was(rig: Rig) -> None:
    rig.queue("a")
    first = rig.engine()
    pull_ids(first)
    emit(first, "a", wire.Started(cached_tokens=0), make_delta(7, 8), make_delta(9))

    (delivery,) = rig.engine().pull({"demo": 1})
    assert delivery.delivered_token_ids == (7, 8, 9)
    assert (delivery.attempt, delivery.next_seq) == (2, 4)
    assert delivery.is_suspect


def test_what_was_cached_when_it_began_travels_with_a_request(rig: Rig) -> None:
    rig.queue("a", "b")
    first = rig.engine()
    assert [one.cached_tokens for one in first.pull({"demo": 2})] == [None, None]
    emit(first, "a", wire.Started(cached_tokens=96), wire.Resumed(at_tokens=0), make_delta(7))

    engines = rig.engine(), rig.engine("engine-2")  # for a suspect each
    again = [delivery for engine in engines for delivery in engine.pull({"demo": 1})]
    assert {one.work.request_id: one.cached_tokens for one in again} == {"a": 96, "b": None}


def test_a_stalled_engine_s_late_events_are_void(rig: Rig) -> None:
    rig.queue("a")
    stalled, other = rig.engine("engine-1"), rig.engine("engine-2")
    pull_ids(stalled)
    emit(stalled, "a", make_delta(1))
    expire_leases(rig)
    other.release_expired()
    assert pull_ids(other) == ["a"]
    emit(other, "a", wire.Resumed(at_tokens=1), make_delta(2))

    assert emit(stalled, "a", make_delta(2)) == [Dropped(request_id="a")]
    assert emit(stalled, "a", make_finished()) == []
    assert rig.events("a")[1:] == [make_delta(1), wire.Resumed(at_tokens=1), make_delta(2)]
    emit(other, "a", make_finished())
    assert rig.ended() == ["a"]


def test_a_stalled_engine_s_events_are_void_while_the_request_waits_again(rig: Rig) -> None:
    rig.queue("a")
    stalled, other = rig.engine("engine-1"), rig.engine("engine-2")
    pull_ids(stalled)
    expire_leases(rig)
    other.release_expired()

    assert emit(stalled, "a", make_delta(1)) == [Dropped(request_id="a")]
    assert stalled.renew() == []
    assert len(rig.events("a")) == 1


def test_a_renewed_lease_does_not_expire(rig: Rig) -> None:
    rig.queue("a")
    engine = rig.engine("engine-1")
    pull_ids(engine)
    expire_leases(rig)
    assert engine.renew() == []

    rig.engine("engine-2").release_expired()
    assert emit(engine, "a", make_delta(1)) == []


def test_a_lost_lease_is_noticed_at_renewal(rig: Rig) -> None:
    rig.queue("a")
    engine = rig.engine("engine-1")
    pull_ids(engine)
    expire_leases(rig)
    rig.engine("engine-2").release_expired()

    assert engine.renew() == [Dropped(request_id="a")]


def test_an_engine_that_closes_gives_back_without_counting_a_crash(rig: Rig) -> None:
    rig.queue("a", "b")
    for _ in range(4):
        engine = rig.engine()
        assert pull_ids(engine, 2) == ["a", "b"]
        engine.give_back()

    (delivery, _) = rig.engine().pull({"demo": 2})
    assert (delivery.attempt, delivery.is_suspect) == (5, False)


def test_what_came_back_goes_before_what_waits(rig: Rig) -> None:
    rig.queue("a", "b")
    engine = rig.engine()
    pull_ids(engine, 2)
    rig.queue("c", priority=wire.Priority.INTERACTIVE)
    engine.give_back()

    assert pull_ids(engine, 3) == ["a", "b", "c"]


def test_what_comes_back_together_keeps_the_order_of_its_first_arrival(rig: Rig) -> None:
    names = ["c", "a", "d", "b"]  # leases of one moment are released by the alphabet
    rig.queue(*names)
    engine = rig.engine()
    assert pull_ids(engine, 4) == names
    engine.give_back()
    assert pull_ids(engine, 4) == names


def test_a_request_that_kills_its_engine_twice_is_poison(rig: Rig) -> None:
    rig.queue("a")
    for _ in range(2):
        assert pull_ids(rig.engine()) == ["a"]
    assert pull_ids(rig.engine()) == []

    assert is_failed(rig, "a", wire.Code.POISON)
    assert rig.ended() == ["a"]


def test_tokens_of_the_batch_between_two_deaths_show_innocence(rig: Rig) -> None:
    rig.queue("a")
    for attempt in range(5):
        engine = rig.engine()
        assert pull_ids(engine) == ["a"]
        emit(engine, "a", make_delta(attempt), make_delta(attempt))

    assert len(rig.events("a")) == 11


def test_who_kills_in_the_batch_is_poison_though_each_life_begins_with_a_token(rig: Rig) -> None:
    """The prompt's last slice draws the first one."""
    rig.queue("killer", "innocent")
    for _ in range(6):
        engine = rig.engine()
        pulled = pull_ids(engine, 2)
        if "killer" in pulled:
            emit(engine, "killer", make_delta(1))
            continue  # and dies
        for one in pulled:
            emit(engine, one, make_delta(1), make_finished())

    assert is_failed(rig, "killer", wire.Code.POISON)
    assert isinstance(rig.events("innocent")[-1], wire.Finished)


def test_suspects_are_tried_one_at_a_time_so_that_innocents_outlive_poison(rig: Rig) -> None:
    innocents = [f"innocent{i}" for i in range(4)]
    rig.queue(*innocents[:2], "poison", *innocents[2:])
    finished: list[str] = []
    for _ in range(8):
        engine = rig.engine()
        live: list[str] = []
        while "poison" not in live:
            pulled = pull_ids(engine, 8)
            if not pulled:
                break
            live += pulled
            if "poison" not in live:
                for request_id in pulled:
                    emit(engine, request_id, make_delta(1), make_finished())
                finished += pulled
        # here the engine dies, if it holds the poison

    assert sorted(finished) == innocents
    assert is_failed(rig, "poison", wire.Code.POISON)


def test_a_suspect_does_not_hold_up_fresh_requests(rig: Rig) -> None:
    rig.queue("a", "b")
    pull_ids(rig.engine(), 2)
    engine = rig.engine()
    rig.queue("fresh")

    assert pull_ids(engine, 3) == ["a", "fresh"]
    emit(engine, "a", make_delta(1, 2))
    assert pull_ids(engine, 3) == ["b"]


def test_a_suspect_that_is_too_late_does_not_hold_up_the_next_one(rig: Rig) -> None:
    rig.queue("late", "next")
    assert pull_ids(rig.engine(), 2) == ["late", "next"]
    engine = rig.engine()
    rig.redis.hset(wire.Keys.request("late"), "deadline_at", 1)
    assert pull_ids(engine, 2) == ["next"]
    assert is_failed(rig, "late", wire.Code.DEADLINE_EXCEEDED)


def test_a_deadline_that_passed_while_an_engine_had_the_request_counts_when_it_is_lost(
    rig: Rig,
) -> None:
    rig.queue("late", deadline_seconds=60.0)
    pull_ids(rig.engine())
    rig.redis.hset(wire.Keys.request("late"), "deadline_at", 1)
    rig.redis.zadd("hearth:deadlines", {"late": 1})
    rig.refresh_places()
    assert rig.ended() == []

    rig.lose_leases("engine-1")
    rig.refresh_places()
    assert is_failed(rig, "late", wire.Code.DEADLINE_EXCEEDED)


def test_cancel_before_intake_ends_the_request_at_once(rig: Rig) -> None:
    rig.submit("a")
    rig.client.cancel("a")

    (finished,) = rig.events("a")
    assert isinstance(finished, wire.Finished)
    assert finished.reason == wire.FinishReason.CANCELLED
    assert rig.admit_all() == ["gone"]
    assert rig.ended() == ["a"]


def test_cancel_in_the_queue_ends_the_request_at_once(rig: Rig) -> None:
    rig.queue("a", "b")
    rig.client.cancel("a")

    assert pull_ids(rig.engine(), 2) == ["b"]
    assert isinstance(rig.events("a")[-1], wire.Finished)
    assert rig.ended() == ["a"]


def test_cancel_of_a_running_request_reaches_its_engine_twice_over(rig: Rig) -> None:
    rig.queue("a")
    engine = rig.engine()
    pull_ids(engine)
    rig.client.cancel("a")

    (_, fields) = rig.redis.xrange(wire.Keys.CONTROL)[0]
    assert wire.decode(fields["m"]) == wire.Cancel(request_id="a")
    assert engine.renew() == [wire.Cancel(request_id="a")]
    assert rig.ended() == []


def test_a_cancelled_request_whose_engine_dies_ends_with_what_it_used(rig: Rig) -> None:
    rig.queue("a")
    engine = rig.engine()
    pull_ids(engine)
    emit(engine, "a", make_delta(1, 2, 3))
    rig.client.cancel("a")
    rig.engine()

    finished = rig.events("a")[-1]
    assert isinstance(finished, wire.Finished)
    assert finished.usage == wire.Usage(prompt_tokens=4, completion_tokens=3)


def test_cancel_of_an_ended_or_unknown_request_does_nothing(rig: Rig) -> None:
    rig.queue("a")
    engine = rig.engine()
    pull_ids(engine)
    emit(engine, "a", make_finished())
    rig.client.cancel("a")
    rig.client.cancel("never seen")

    assert rig.ended() == ["a"]
    assert not rig.client.has_request("never seen")


def test_a_cancel_that_comes_before_its_request_ends_it(rig: Rig) -> None:
    """Whoever submits does so when the row is committed; who cancels may have seen it before."""
    rig.client.cancel("a")
    rig.submit("a")
    (finished,) = rig.events("a")
    assert isinstance(finished, wire.Finished)
    assert finished.reason == wire.FinishReason.CANCELLED
    assert rig.ended() == ["a"]
    assert rig.admit_all() == []
    rig.submit("a")
    assert len(rig.events("a")) == 1


def test_events_sent_twice_are_stored_once(rig: Rig) -> None:
    rig.queue("a")
    engine = rig.engine()
    (delivery,) = engine.pull({"demo": 1})
    line = wire.encode(make_delta(1))
    row = ("a", delivery.fence, 1, 1, -1, 1, line)

    assert rig.scripts("emit", *row) == [2]
    assert rig.scripts("emit", *row) == [2]
    assert rig.events("a")[1:] == [make_delta(1)]


def test_an_event_beyond_a_gap_is_not_stored(rig: Rig) -> None:
    rig.queue("a")
    (delivery,) = rig.engine().pull({"demo": 1})

    assert rig.scripts("emit", "a", delivery.fence, 5, 1, -1, 1, "x") == [1]
    assert len(rig.events("a")) == 1


def test_a_delivery_lost_on_its_way_returns_to_the_queue_without_a_crash(rig: Rig) -> None:
    rig.queue("kept", "lost")
    engine = rig.engine()
    assert pull_ids(engine, 1) == ["kept"]
    lost, *_ = rig.scripts("pull", "engine-1", 10_000, 1, "", 1, 0, "demo", 1)
    assert [one[0] for one in lost] == ["lost"]
    assert engine.verify() == []

    (delivery,) = engine.pull({"demo": 2})
    assert (delivery.work.request_id, delivery.is_suspect) == ("lost", False)


def test_what_has_ended_expires(rig: Rig) -> None:
    rig.queue("a")
    engine = rig.engine()
    pull_ids(engine)
    emit(engine, "a", make_finished())

    for key in (wire.Keys.request("a"), wire.Keys.events("a")):
        assert 0 < rig.redis.ttl(key) <= 600
    assert rig.redis.zcard(wire.Keys.LEASES) == 0
