"""The fair queue: who is taken when, who is refused, who is told what."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest

from engine import wire
from engine.transport import IntakeQueue
from tests.engine.transport.rig import Rig, emit, pull_ids
from tests.makers import make_delta, make_finished, make_generate, make_work
from tests.waiting import wait_until


def test_a_request_submitted_twice_is_queued_once(rig: Rig) -> None:
    rig.submit("a", "a")

    assert rig.admit_all() == ["admitted"]
    assert pull_ids(rig.engine(), 5) == ["a"]


def test_an_admitted_request_is_told_its_numbers_and_delivered_whole(rig: Rig) -> None:
    rig.queue("a")
    (delivery,) = rig.engine().pull({"demo": 1})

    assert rig.events("a") == [wire.Accepted(prompt_tokens=4, max_tokens=256)]
    assert delivery.work.prompt_token_ids == (0, 1, 2, 3)
    assert (delivery.attempt, delivery.next_seq, delivery.is_suspect) == (1, 1, False)


def test_an_engine_gets_no_more_than_it_wants_and_of_its_models_only(rig: Rig) -> None:
    rig.queue("a", "b", "c")
    rig.queue("d", model="other")
    engine = rig.engine()

    assert pull_ids(engine, 2) == ["a", "b"]
    assert pull_ids(engine, 5) == ["c"]
    assert pull_ids(engine, 5, model="other") == ["d"]


def test_a_tenant_with_many_requests_does_not_hold_up_the_others(rig: Rig) -> None:
    rig.queue(*(f"a{i}" for i in range(10)), tenant="user:a")
    for tenant in "bcd":
        rig.queue(*(f"{tenant}{i}" for i in range(2)), tenant=f"user:{tenant}")

    order = pull_ids(rig.engine(), 16)
    assert order[:8] == ["a0", "b0", "c0", "d0", "a1", "b1", "c1", "d1"]
    assert order[8:] == [f"a{i}" for i in range(2, 10)]


def test_cost_counts_and_not_the_number_of_requests(rig: Rig) -> None:
    rig.submit(*(f"long{i}" for i in range(4)), tenant="user:a")
    rig.admit_all(num_prompt_tokens=2000)
    rig.queue(*(f"short{i}" for i in range(12)), tenant="user:b")

    order = pull_ids(rig.engine(), 10)
    assert order.count("long0") == 1
    assert sum(request_id.startswith("short") for request_id in order) == 9


def test_twice_the_weight_is_twice_the_share(rig: Rig) -> None:
    rig.queue(*(f"light{i}" for i in range(12)), tenant="user:a")
    rig.queue(*(f"heavy{i}" for i in range(12)), tenant="user:b", weight=2.0)
    engine = rig.engine()

    order = pull_ids(engine, 9)
    assert sum(request_id.startswith("heavy") for request_id in order) == 6
    for request_id in order:
        emit(engine, request_id, make_finished())
    order = pull_ids(engine, 9)
    assert sum(request_id.startswith("heavy") for request_id in order) == 6


def test_time_away_earns_nothing(rig: Rig) -> None:
    engine = rig.engine()
    rig.queue("once", tenant="user:away")
    pull_ids(engine)
    for i in range(8):
        rig.queue(f"a{i}", tenant="user:a")
        pull_ids(engine)

    rig.queue("a8", "a9", tenant="user:a")
    rig.queue("back0", "back1", "back2", tenant="user:away")
    order = pull_ids(engine, 5)
    assert order.index("a8") <= 2
    assert order.index("a9") <= 4


def test_the_end_corrects_what_was_charged_in_advance(rig: Rig) -> None:
    engine = rig.engine()
    rig.queue("talker", tenant="user:a talker")  # of equals the first in the alphabet is next
    rig.queue("quiet", tenant="user:quiet")
    pull_ids(engine, 2)
    emit(engine, "talker", make_delta(*range(2000)), make_finished())
    emit(engine, "quiet", make_delta(1), make_finished())

    rig.queue("talker2", tenant="user:a talker")
    rig.queue("quiet2", tenant="user:quiet")
    assert pull_ids(engine, 2) == ["quiet2", "talker2"]


def test_people_go_before_scripts_and_scripts_before_batches(rig: Rig) -> None:
    for priority in reversed(wire.Priority):
        rig.queue(f"{priority}1", f"{priority}2", priority=priority)

    assert pull_ids(rig.engine(), 6) == [
        "interactive1",
        "interactive2",
        "api1",
        "api2",
        "batch1",
        "batch2",
    ]


def test_an_overdue_batch_gets_a_share_of_the_picks(rig: Rig) -> None:
    rig.queue("batch", priority=wire.Priority.BATCH)
    rig.redis.hset(wire.Keys.request("batch"), "queued_at", 0)
    rig.queue(*(f"chat{i}" for i in range(8)), priority=wire.Priority.INTERACTIVE)

    assert pull_ids(rig.engine(), 9)[3] == "batch"


def test_a_full_queue_refuses_and_says_for_whom(rig: Rig) -> None:
    rig.submit("a0", "a1", "a2", tenant="user:a")
    assert rig.admit_all(max_queue_per_tenant=2) == ["admitted", "admitted", "tenant_queue_full"]
    rig.submit("b0", "b1", tenant="user:b")
    assert rig.admit_all(max_queue=3) == ["admitted", "queue_full"]

    (refused,) = rig.events("b1")
    assert isinstance(refused, wire.Refused)
    assert refused.code == wire.Code.QUEUE_FULL
    assert rig.ended() == ["a2", "b1"]


def test_who_finds_a_queue_full_hears_when_there_may_be_room(rig: Rig) -> None:
    rig.queue("a0", "a1", "a2", tenant="user:a")
    rig.queue("b0", tenant="user:b")
    rig.redis.hset("hearth:pace:demo", mapping={"mean": 4000})
    rooms = []
    for request_id, caps in (("a3", {"max_queue_per_tenant": 3}), ("a4", {"max_queue": 4})):
        rig.submit(request_id, tenant="user:a")
        (entry,) = rig.intake.entries()
        spec = wire.ModelSpec(name="demo", path="/", **caps)
        admission = rig.intake.admit(entry, make_work(wire.decode(entry.message)), spec)
        rooms.append((admission.outcome, admission.room_seconds))
        rig.intake.conclude(entry, wire.Refused(code=wire.Code.QUEUE_FULL, detail="full"))
    # One of one's own goes whenever those of others have had their turns too
    share = pytest.approx(4 * 4 / 3, abs=0.01)
    assert rooms == [("tenant_queue_full", share), ("queue_full", 4.0)]


def test_who_must_wait_behind_others_is_told_the_place_at_once(rig: Rig) -> None:
    rig.queue("a0", "a1", "a2", tenant="user:a")
    rig.queue("b0", tenant="user:b")

    assert rig.events("a2")[1:] == [wire.Queued(position=3)]
    assert rig.events("b0")[1:] == [wire.Queued(position=2)]


def test_places_are_told_again_when_they_change(rig: Rig) -> None:
    rig.queue("a", "b", "c")
    pull_ids(rig.engine(), 1)
    rig.refresh_places()
    rig.refresh_places()

    assert [event.position for event in rig.events("c")[1:]] == [3, 2]
    assert [one.request_id for one in rig.client.waiting()] == ["b", "c"]


def test_the_wait_is_estimated_from_the_pace(rig: Rig) -> None:
    engine = rig.engine()
    rig.queue("a", "b", "c", "d")
    pull_ids(engine, 1)
    rig.redis.hincrby("hearth:pace:demo", "last", -2000)
    pull_ids(engine, 1)
    rig.intake.refresh_places()

    queued = rig.events("d")[-1]
    assert isinstance(queued, wire.Queued)
    assert queued.position == 2
    num_before = 2 + wire.look_ahead(wire.ModelSpec(name="demo", path="/").max_rows)
    assert queued.wait_seconds == pytest.approx(2.0 * num_before, rel=0.1)


def test_a_clock_that_was_set_back_changes_no_estimate(rig: Rig) -> None:
    engine = rig.engine()
    rig.queue("a", "b", "c", "d")
    pull_ids(engine, 1)
    rig.redis.hset("hearth:pace:demo", mapping={"ms": 8000, "num": 4, "mean": 2000})
    rig.redis.hincrby("hearth:pace:demo", "last", 3_600_000)
    pull_ids(engine, 1)
    assert rig.redis.hget("hearth:pace:demo", "mean") == "2000"
    rig.redis.hincrby("hearth:pace:demo", "last", -2000)
    pull_ids(engine, 1)
    assert float(rig.redis.hget("hearth:pace:demo", "mean")) == pytest.approx(2000, rel=0.1)


def test_time_in_which_nobody_waits_is_no_pace(rig: Rig) -> None:
    engine = rig.engine()
    rig.queue("a", "b", "c")
    pull_ids(engine, 2)
    rig.client.cancel("c")
    rig.redis.hset("hearth:pace:demo", mapping={"ms": 1000, "num": 1, "mean": 1000})
    assert rig.redis.hget("hearth:pace:demo", "last") == "0"
    rig.queue("d")
    pull_ids(engine, 1)
    assert rig.redis.hget("hearth:pace:demo", "mean") == "1000"


def test_a_deadline_holds_however_many_wait_in_front(rig: Rig) -> None:
    rig.submit(*(f"a{number}" for number in range(201)))
    rig.submit("late", deadline_seconds=-1.0)
    rig.admit_all(max_queue=1000, max_queue_per_tenant=1000)
    rig.refresh_places()
    assert rig.ended() == ["late"]


def test_who_waits_beyond_the_deadline_fails(rig: Rig) -> None:
    rig.queue("a", "b", deadline_seconds=-1.0)
    assert pull_ids(rig.engine(), 1) == []
    assert rig.ended() == ["a", "b"]

    rig.queue("c", deadline_seconds=-1.0)
    rig.intake.refresh_places()
    failed = rig.events("c")[-1]
    assert isinstance(failed, wire.Failed)
    assert failed.code == wire.Code.DEADLINE_EXCEEDED
    assert rig.client.waiting() == []


def test_who_waits_for_a_model_that_is_not_served_any_more_fails(rig: Rig) -> None:
    served, gone = (wire.ModelSpec(name=name, path="/") for name in ("demo", "gone"))
    rig.client.publish_models((served, gone))
    engine = rig.engine()
    rig.queue("begun", "waits", model="gone")
    rig.queue("other")
    assert pull_ids(engine, model="gone") == ["begun"]
    emit(engine, "begun", wire.Started(cached_tokens=0))
    rig.refresh_places()
    assert rig.ended() == []

    rig.client.publish_models((served,))
    rig.refresh_places()
    assert rig.ended() == ["waits"]
    engine.give_back()
    rig.refresh_places()
    assert rig.ended() == ["waits", "begun"]
    for request_id in rig.ended():
        failed = rig.events(request_id)[-1]
        assert isinstance(failed, wire.Failed)
        assert failed.code == wire.Code.MODEL_NOT_FOUND
    assert [one.request_id for one in rig.client.waiting()] == ["other"]


def test_who_waits_while_redis_does_not_know_the_models_goes_on_waiting(rig: Rig) -> None:
    rig.queue("a")
    rig.refresh_places()
    assert [one.request_id for one in rig.client.waiting()] == ["a"]


def test_an_overlong_backlog_before_intake_refuses_what_is_new(rig: Rig) -> None:
    for i in range(5000):
        rig.redis.xadd(wire.Keys.INTAKE, {"id": str(i), "m": "x"})
    rig.submit("late")
    rig.client.submit(make_generate("lost before"), is_again=True)

    (refused,) = rig.events("late")
    assert isinstance(refused, wire.Refused)
    assert refused.code == wire.Code.QUEUE_FULL
    assert rig.events("lost before") == []


def test_an_entry_that_killed_its_intake_is_read_again_and_counted(rig: Rig) -> None:
    rig.submit("a", "b")
    next(rig.intake.entries())

    for num_tries in (2, 3):
        reborn = IntakeQueue(rig.url, name="intake-1")
        entry = next(reborn.entries())
        assert (entry.request_id, entry.num_tries) == ("a", num_tries)


def test_who_came_together_with_one_that_kills_intake_is_counted_as_read_again(rig: Rig) -> None:
    rig.submit("deadly", "deadly too", "good")
    next(rig.intake.entries())
    dying_of = [IntakeQueue(rig.url, name="intake-1").entries() for _ in range(3)]
    assert next(dying_of[0]).num_tries == 2
    for entries, wanted in zip(dying_of[1:], ("deadly too", "good"), strict=True):
        refused, tried = next(entries), next(entries)
        assert (refused.num_tries, tried.request_id, tried.num_tries) == (3, wanted, 2)
        rig.intake.conclude(refused, wire.Refused(code=wire.Code.ENGINE_ERROR, detail=""))


def test_what_was_read_and_not_answered_is_read_again(rig: Rig) -> None:
    rig.submit("a", "b")
    next(rig.intake.entries())  # and here Redis goes away
    assert rig.admit_all() == ["admitted", "admitted"]


def test_all_that_an_intake_died_with_is_read_however_much_it_is(rig: Rig) -> None:
    wanted = [f"a{number}" for number in range(40)]
    rig.submit(*wanted)
    for _ in range(3):
        rig.intake._read(">", wait_ms=1)  # and here it dies
    reborn = IntakeQueue(rig.url, name="intake-1")
    rig.submit("new")
    held = {entry_id for entry_id, _ in rig.redis.xrange(wire.Keys.INTAKE, count=20)}
    assert [one.request_id for one in reborn.entries(held=held)] == [*wanted[20:], "new"]


def test_an_intake_without_work_is_alive(rig: Rig) -> None:
    for wait_ms in (1000, 1000, 1):
        list(rig.intake.entries(wait_ms=wait_ms))
    (one,) = rig.redis.xinfo_consumers(wire.Keys.INTAKE, wire.Keys.INTAKE_GROUP)
    assert one["idle"] < 800
    assert rig.client.is_intake_alive()


def commands_asked(rig: Rig) -> set[str]:
    """Since the last config_resetstat()."""
    return set(rig.redis.info("commandstats")) - {"cmdstat_config"}


def test_intake_asks_for_requests_and_models_together_and_for_nothing_else(rig: Rig) -> None:
    rig.queue("the first one")
    for num_waiting in range(2):
        rig.submit(*(f"a{number}" for number in range(num_waiting)))
        rig.redis.config_resetstat()
        assert len(list(rig.intake.entries(wait_ms=1))) == num_waiting
        assert commands_asked(rig) == {"cmdstat_xreadgroup", "cmdstat_get"}


def test_a_model_that_is_published_while_intake_waits_is_known_with_its_first_request(
    rig: Rig,
) -> None:
    assert list(rig.intake.entries(wait_ms=1)) == []
    with ThreadPoolExecutor() as threads:
        reading = threads.submit(lambda: list(rig.intake.entries(wait_ms=10_000)))
        wait_until(lambda: rig.redis.info("clients")["blocked_clients"] == 1)
        rig.client.publish_models((wire.ModelSpec(name="new", path="/"),))
        rig.submit("a", model="new")
        assert [entry.request_id for entry in reading.result(timeout=5)] == ["a"]
    assert rig.intake.models_line is not None
    assert [spec.name for spec in wire.decode(rig.intake.models_line).models] == ["new"]


def test_intake_hears_once_that_something_is_to_be_forgotten(rig: Rig) -> None:
    rig.client.forget_tenant("user:1")
    assert not rig.intake.is_anything_to_be_forgotten()  # it knows nothing yet
    rig.client.load_model("demo")
    assert not rig.intake.is_anything_to_be_forgotten()
    for forget in (rig.client.forget_tenant, rig.client.clear_cache, rig.client.unpublish):
        forget("one")
        rig.client.load_model("demo")
        assert [rig.intake.is_anything_to_be_forgotten() for _ in range(2)] == [True, False]


def test_a_request_forgotten_while_intake_has_its_entry_may_be_submitted_again(rig: Rig) -> None:
    rig.submit("a")
    rig.redis.delete(wire.Keys.request("a"))
    assert rig.admit_all() == ["gone"]
    assert not rig.client.has_request("a")
    rig.submit("a")
    assert rig.admit_all() == ["admitted"]


def test_the_numbers_of_a_tenant_do_not_leak_into_another_with_a_like_name(rig: Rig) -> None:
    odd = make_generate("odd", model="a:b", tenant="c")
    even = wire.replace(odd, request_id="even", model="a", tenant="b:c")
    for generate in (odd, even):
        rig.client.submit(generate)
    rig.admit_all()

    engine = rig.engine()
    assert pull_ids(engine, 5, model="a") == ["even"]
    assert pull_ids(engine, 5, model="a:b") == ["odd"]
