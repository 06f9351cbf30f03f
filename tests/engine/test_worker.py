"""The loop on fakes: commands, suspects, deadlines, what it asks for, what it shows."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import pytest

from engine import wire
from engine.core.delivery import Dropped
from engine.shelf import Handle
from tests.engine.worker_rig import Engine, spec
from tests.fakes import make_delivery, make_work


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


@pytest.mark.parametrize(("seconds", "is_stalled"), [(40, False), (70, True)])
def test_a_portion_of_a_load_may_compile_kernels_but_not_for_ever(
    seconds: int, is_stalled: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine = Engine()
    load, told = engine.shelf.load, []

    def load_slowly(spec: wire.ModelSpec) -> Iterator[float | Handle]:
        told.append(stalled_seconds(engine, seconds=seconds))
        yield from load(spec)

    monkeypatch.setattr(engine.shelf, "load", load_slowly)
    engine.ask("a")
    engine.run("a")
    assert [one > 0 for one in told] == [is_stalled]


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
