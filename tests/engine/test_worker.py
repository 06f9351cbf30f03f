"""The loop on fakes: commands, suspects, deadlines, what it asks for, what it shows."""

from __future__ import annotations

import threading

from engine import wire
from engine.core.delivery import Dropped
from engine.residents import TURN_SECONDS
from tests.engine.worker_rig import GIB, Engine, spec
from tests.fakes import make_delivery, make_work


def test_the_first_request_loads_the_model_and_says_so() -> None:
    engine = Engine()
    engine.ask("a", max_tokens=2)
    engine.run("a")
    assert engine.kinds("a")[:2] == ["Loading", "Loading"]
    rest = [kind for kind in engine.kinds("a") if kind != "Loading"]
    assert rest == ["Started", "Prefilled", "Delta", "Delta", "Finished"]


def test_a_load_is_shown_as_far_as_it_has_come() -> None:
    engine = Engine()
    engine.ask("a")
    shown: list[float | None] = []
    while not engine.pool.handles:
        engine.turn()
        shown += [one.loaded_fraction for one in engine.pool.statuses() if one.state == "loading"]
    assert shown == sorted(shown) and {0.25, 0.75} <= set(shown)
    assert [one.loaded_fraction for one in engine.pool.statuses()] == [None]


def test_rows_of_one_model_go_on_while_another_loads() -> None:
    engine = Engine(spec("fake"), spec("other"))
    engine.ask("a", max_tokens=60)
    engine.turn(12)
    before = len(engine.transport.tokens("a"))
    engine.ask("b", model="other")
    engine.turn(4)
    assert len(engine.transport.tokens("a")) >= before + 3
    engine.run("a", "b")


def test_a_model_that_does_not_load_fails_its_requests_and_is_tried_again_later() -> None:
    engine = Engine(spec("fake", path="broken"))
    engine.ask("a")
    engine.run("a")
    assert engine.failure("a") is wire.Code.MODEL_LOAD_FAILED
    engine.ask("b")
    engine.run("b")
    assert engine.shelf.num_loads == 1
    engine.clock.now += 60
    engine.ask("c")
    engine.run("c")
    assert engine.shelf.num_loads == 2
    assert [one.state for one in engine.pool.statuses()] == ["failed"]


def test_a_model_that_can_never_fit_is_refused_with_numbers() -> None:
    engine = Engine(spec("fake", path=str(200 * GIB)))
    engine.ask("a")
    engine.run("a")
    end = engine.transport.ends["a"]
    assert isinstance(end, wire.Failed) and end.code is wire.Code.DOES_NOT_FIT
    assert "200.0 GiB" in end.detail and "90.0 GiB" in end.detail


def test_the_idle_model_used_longest_ago_makes_room() -> None:
    engine = Engine(*(spec(name, path=str(40 * GIB)) for name in ("a", "b", "c")))
    for name in ("a", "b", "c"):
        engine.ask(f"r-{name}", model=name)
        engine.run(f"r-{name}")
        engine.clock.now += 10
    engine.turn(2)
    assert {one.name for one in engine.pool.statuses()} == {"b", "c"}


def test_a_pinned_model_is_loaded_at_once_and_stays() -> None:
    engine = Engine(spec("fake", is_pinned=True, idle_unload_seconds=5))
    engine.turn(8)
    engine.clock.now += 3600
    engine.turn(3)
    assert [one.state for one in engine.pool.statuses()] == ["loaded"]


def test_an_idle_model_is_unloaded_after_its_time() -> None:
    engine = Engine(spec("fake", idle_unload_seconds=30))
    engine.ask("a")
    engine.run("a")
    engine.turn(3)
    assert engine.pool.statuses()
    engine.clock.now += 31
    engine.turn(3)
    assert not engine.pool.statuses()
    engine.ask("b")
    engine.run("b")
    assert engine.shelf.num_loads == 2


def test_unload_waits_for_the_rows_that_run() -> None:
    engine = Engine()
    engine.ask("a", max_tokens=30)
    engine.turn(10)
    engine.transport.send(wire.UnloadModel(name="fake"))
    engine.run("a")
    assert isinstance(engine.transport.ends["a"], wire.Finished)
    engine.turn(3)
    assert not engine.pool.statuses()


def test_load_and_unload_commands_are_obeyed() -> None:
    engine = Engine()
    engine.transport.send(wire.LoadModel(name="fake"))
    engine.turn(8)
    assert [one.state for one in engine.pool.statuses()] == ["loaded"]
    engine.transport.send(wire.UnloadModel(name="fake"))
    engine.turn(2)
    assert not engine.pool.statuses()


def test_a_model_taken_from_the_registry_ends_what_waits_for_it() -> None:
    engine = Engine()
    engine.ask("a")
    engine.turn()
    engine.transport.send(wire.Configure(models=()))
    engine.turn()
    engine.ask("b")
    engine.turn()
    assert engine.failure("a") is engine.failure("b") is wire.Code.MODEL_NOT_FOUND


def test_cancel_ends_a_request_that_waits_for_its_model() -> None:
    engine = Engine()
    engine.ask("a")
    engine.turn(2)
    engine.transport.send(wire.Cancel(request_id="a"))
    engine.turn()
    end = engine.transport.ends["a"]
    assert isinstance(end, wire.Finished) and end.reason is wire.FinishReason.CANCELLED


def test_a_dropped_request_is_silent() -> None:
    engine = Engine()
    engine.ask("a", max_tokens=50)
    engine.turn(12)
    before = len(engine.transport.events["a"])
    engine.transport.send(Dropped(request_id="a"))
    engine.turn(10)
    assert len(engine.transport.events["a"]) == before


def test_a_request_that_comes_again_is_not_heard_of_its_former_row() -> None:
    engine = Engine()
    engine.ask("a", max_tokens=50)
    engine.turn(12)
    before = len(engine.transport.events["a"])
    for work in (make_work("other", prompt=range(1, 6000)), make_work("a", max_tokens=50)):
        engine.transport.send(make_delivery(work, attempt=2, is_suspect=True))
    engine.turn(4)
    assert len(engine.transport.events["a"]) == before


def test_a_deadline_ends_a_request() -> None:
    engine = Engine()
    engine.ask("a", max_tokens=5000, deadline_at=engine.clock.now + 1)
    engine.turn(12)
    assert "a" not in engine.transport.ends
    engine.clock.now += 2
    engine.turn()
    assert engine.failure("a") is wire.Code.DEADLINE_EXCEEDED


def test_suspects_start_one_at_a_time_and_innocents_at_once() -> None:
    engine = Engine()
    for name in ("s1", "s2"):
        work = make_work(name, max_tokens=5, prompt=range(1, 600))
        engine.transport.send(make_delivery(work, attempt=2, is_suspect=True))
    engine.ask("innocent", max_tokens=5)
    engine.turn(7)
    assert "s2" not in engine.transport.events and "Started" in engine.kinds("innocent")
    engine.run("s1", "s2", "innocent")
    second = engine.transport.events["s2"]
    assert isinstance(second[0], wire.Resumed)


def test_a_held_suspect_ends_at_its_deadline() -> None:
    engine = Engine()
    for name, deadline in (("s1", None), ("s2", engine.clock.now + 1)):
        work = make_work(name, max_tokens=500, deadline_at=deadline)
        engine.transport.send(make_delivery(work, attempt=2, is_suspect=True))
    engine.turn()
    engine.clock.now += 60
    engine.turn()
    assert engine.failure("s2") is wire.Code.DEADLINE_EXCEEDED
    assert "s1" not in engine.transport.ends


def test_a_held_suspect_can_be_cancelled() -> None:
    engine = Engine()
    for name in ("s1", "s2"):
        engine.transport.send(make_delivery(make_work(name), attempt=2, is_suspect=True))
    engine.transport.send(wire.Cancel(request_id="s2"))
    engine.run("s1", "s2")
    assert engine.kinds("s2") == ["Finished"]


def test_a_poisonous_request_fails_alone() -> None:
    engine = Engine()
    engine.ask("bad", prompt=[66, 1, 2])
    for number in range(3):
        engine.ask(f"good{number}", prompt=[5, number + 1])
    engine.run("bad", "good0", "good1", "good2")
    assert engine.failure("bad") is wire.Code.ENGINE_ERROR
    assert all(isinstance(engine.transport.ends[f"good{n}"], wire.Finished) for n in range(3))


def test_the_search_for_the_culprit_waits_for_a_token_of_the_others_not_for_their_ends() -> None:
    engine = Engine(spec("fake", max_rows=8))
    innocents = [f"good{number}" for number in range(5)]
    for request_id in innocents:
        engine.ask(request_id, prompt=[1, 2, 3], max_tokens=500)
    engine.ask("the last to be looked at", prompt=[66, 1, 2])
    engine.run("the last to be looked at")
    assert engine.transport.ends.keys() == {"the last to be looked at"}
    assert all(engine.transport.tokens(one) for one in innocents)


def test_it_wants_its_free_rows_and_a_few_more() -> None:
    engine = Engine(spec("fake", max_rows=8))
    engine.turn()
    assert engine.transport.wanted == {"fake": 9}
    engine.ask("a", max_tokens=50)
    engine.turn(12)
    assert engine.transport.wanted == {"fake": 8}


def test_with_few_rows_it_takes_nobody_in_advance() -> None:
    engine = Engine(spec("fake", max_rows=4))
    engine.turn()
    assert engine.transport.wanted == {"fake": 4}


def test_new_settings_count_from_the_next_turn_on() -> None:
    engine = Engine(spec("fake", max_rows=8))
    engine.ask("a", max_tokens=50)
    engine.turn(12)
    engine.transport.send(wire.Configure(models=(spec("fake", max_rows=2),)))
    engine.turn()
    assert engine.transport.wanted == {"fake": 1}


def test_the_heartbeat_shows_rows_and_models() -> None:
    engine = Engine()
    engine.ask("a", max_tokens=500)
    engine.turn(20)
    engine.clock.now += 1
    engine.turn()
    status = engine.vitals.status()
    (row,) = status.rows
    assert (row.request_id, row.state) == ("a", "decoding") and row.output_tokens > 0
    assert [one.state for one in status.models] == ["loaded"]
    assert status.generated_tokens > 0 and status.decode_tokens_per_second > 0


def test_a_deadline_counts_while_the_model_is_awaited() -> None:
    engine = Engine(spec("fake", path=str(60 * GIB)), spec("other", path=str(60 * GIB)))
    engine.ask("a", max_tokens=500)
    engine.turn(10)
    engine.ask("b", model="other", deadline_at=engine.clock.now + 1)
    engine.turn(3)
    assert "b" not in engine.transport.ends and "a" not in engine.transport.ends
    engine.clock.now += 2
    engine.turn()
    assert engine.failure("b") is wire.Code.DEADLINE_EXCEEDED


def stalled_seconds(engine: Engine, *, seconds: int) -> float:
    """What the heartbeat tells after so many seconds without a turn."""
    told = 0.0
    for _ in range(seconds):
        engine.clock.now += 1
        told = engine.vitals.status().stalled_seconds
    return told


def test_an_engine_with_work_that_does_not_move_is_stalled() -> None:
    engine = Engine()
    engine.ask("a", max_tokens=500)
    engine.turn(20)
    assert stalled_seconds(engine, seconds=7) > 5
    engine.turn(2)
    assert stalled_seconds(engine, seconds=1) <= 1


def test_an_engine_that_waits_for_a_grammar_is_not_stalled() -> None:
    engine = Engine()
    grammar = wire.Grammar(kind=wire.GrammarKind.REGEX, param="regex", source="a+")
    engine.ask("a", grammar=grammar)
    engine.turn(20)
    assert engine.kinds("a")[-1] == "Prefilled"
    assert stalled_seconds(engine, seconds=20) == 0


def test_it_stops_when_told_to() -> None:
    engine, stopping = Engine(), threading.Event()
    stopping.set()
    engine.worker.run(stopping)
    assert not engine.transport.events


def test_while_one_person_has_all_rows_somebody_else_is_invited() -> None:
    engine = Engine(spec("fake", max_rows=4))
    for number in range(4):
        engine.ask(f"heavy {number}", tenant="user:heavy", max_tokens=90)
    engine.turn(12)
    assert engine.transport.wanted == {"fake": 0}
    invitation = engine.transport.invitations["fake"]
    assert invitation.without_tenants == {"user:heavy"}
    engine.ask("light", tenant="user:light", max_tokens=2)
    engine.turn()
    assert engine.transport.invitations == {}, "one guest at a time has four rows"
    engine.run("light")
    engine.turn()
    assert engine.transport.invitations == {"fake": invitation}


def test_somebody_else_is_invited_while_a_row_is_being_filled_again() -> None:
    """Whoever has several takes that one too; who comes a moment later waits for no turn."""
    engine = Engine(spec("fake", max_rows=4))
    for number in range(4):
        engine.ask(f"heavy {number}", tenant="user:heavy", max_tokens=9 if number == 0 else 90)
    engine.run("heavy 0")
    engine.turn()
    assert engine.transport.wanted == {"fake": 1}
    assert engine.transport.invitations["fake"].without_tenants == {"user:heavy"}


def test_a_model_of_one_row_invites_nobody() -> None:
    engine = Engine(spec("fake", max_rows=1))
    engine.turn()
    assert engine.transport.wanted == {"fake": 1} and engine.transport.invitations == {}
    engine.ask("heavy", tenant="user:heavy", max_tokens=90)
    engine.turn(4)
    assert engine.transport.wanted == {"fake": 0} and engine.transport.invitations == {}


def test_a_model_that_is_always_busy_makes_way_for_another_after_its_turn() -> None:
    """Neither fits beside the other, and both are asked all the time: they take turns. What is
    pinned came first and stays."""
    engine = Engine(
        spec("pinned", path=str(5 * GIB), is_pinned=True),
        *(spec(name, path=str(60 * GIB), max_rows=2) for name in ("a", "b")),
    )
    asked = {"a": 0, "b": 0}
    first_ends: dict[str, float] = {}

    def turn() -> None:
        for name in asked:
            while engine.pool.num_taken(name) < 2:
                engine.ask(f"{name}{asked[name]}", model=name, max_tokens=20)
                asked[name] += 1
                engine.worker.turn()
        engine.turn()
        engine.clock.now += 10.0 if engine.pool.is_loading else 0.5
        for request_id in engine.transport.ends:
            first_ends.setdefault(request_id[0], engine.clock.now)

    began_at = engine.clock.now
    for _ in range(600):
        turn()
    assert first_ends["b"] - began_at < 5 * TURN_SECONDS  # of which loads take three
    assert 6 <= engine.shelf.num_loads <= 14  # who has come has its turn
    assert len(engine.transport.ends) >= asked["a"] + asked["b"] - 12
    assert all(isinstance(end, wire.Finished) for end in engine.transport.ends.values())
    assert "pinned" in {one.name for one in engine.pool.statuses()}


def test_no_buffers_are_cleared_while_a_row_that_gave_way_reads_its_prompt_again() -> None:
    engine = Engine(spec("fake", max_rows=4, stall_ms=20))
    engine.ask("a", prompt=[5] * 3000, max_tokens=400)
    while not engine.transport.tokens("a"):
        engine.turn()
    engine.turn(30)
    num_clears = engine.memory.num_clears
    (handle,) = engine.pool.handles
    handle.preempt(handle.newest_row)
    engine.ask("short", prompt=[5], max_tokens=1)
    engine.run("short")  # after which clearing is due
    engine.clock.now += 1.0
    while handle.scheduler.has_prompts:
        engine.turn()
        assert engine.memory.num_clears == num_clears
    engine.turn(10)
    assert engine.memory.num_clears > num_clears
