"""The loop on fakes: which models it loads, shows, unloads, and who waits for them."""

from __future__ import annotations

from engine import wire
from engine.residents import TURN_SECONDS
from tests.engine.worker_rig import GIB, Engine, spec


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


def test_a_model_that_is_unloaded_while_it_loads_serves_who_waits_and_leaves() -> None:
    engine = Engine()
    engine.transport.send(wire.LoadModel(name="fake"))
    engine.turn(3)
    engine.transport.send(wire.UnloadModel(name="fake"))
    engine.turn(6)
    assert not engine.pool.statuses()
    engine.ask("a", max_tokens=2)
    engine.turn(3)
    engine.transport.send(wire.UnloadModel(name="fake"))
    engine.run("a")
    engine.turn(3)
    assert not engine.pool.statuses() and engine.shelf.num_loads == 2


def test_a_model_that_is_reloaded_while_it_loads_is_read_once_more() -> None:
    engine = Engine()
    engine.transport.send(wire.LoadModel(name="fake"))
    engine.turn(3)
    engine.transport.send(wire.UnloadModel(name="fake"), wire.LoadModel(name="fake"))
    engine.turn(15)
    assert [one.state for one in engine.pool.statuses()] == ["loaded"]
    assert engine.shelf.num_loads == 2


def test_a_pinned_model_that_moves_while_it_loads_is_loaded_from_its_new_place() -> None:
    engine = Engine(spec("fake", path="1", is_pinned=True))
    engine.turn(3)
    engine.transport.send(wire.Configure(models=(spec("fake", path="2", is_pinned=True),)))
    engine.turn(15)
    assert [one.weight_bytes for one in engine.pool.statuses()] == [2]  # as its path says


def test_a_load_that_fails_says_nothing_of_the_models_new_place() -> None:
    engine = Engine(spec("fake", path="broken"))
    engine.ask("a", max_tokens=2)
    engine.turn(3)
    engine.transport.send(wire.Configure(models=(spec("fake", path="2"),)))
    engine.run("a")
    assert isinstance(engine.transport.ends["a"], wire.Finished)


def test_a_model_that_is_no_more_has_no_failed_load() -> None:
    engine = Engine(spec("fake", path="broken"))
    engine.transport.send(wire.LoadModel(name="fake"))
    engine.turn(3)
    engine.transport.send(wire.Configure(models=()))
    engine.turn(6)
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


def test_rows_of_a_model_taken_from_the_registry_end_normally() -> None:
    engine = Engine()
    engine.ask("a", max_tokens=30)
    engine.turn(10)
    engine.transport.send(wire.Configure(models=()))
    engine.transport.send(wire.ClearCache(model="fake"))
    engine.run("a")
    assert isinstance(engine.transport.ends["a"], wire.Finished)
    engine.turn(3)
    assert not engine.pool.statuses()


def test_cancel_ends_a_request_that_waits_for_its_model() -> None:
    engine = Engine()
    engine.ask("a")
    engine.turn(2)
    engine.transport.send(wire.Cancel(request_id="a"))
    engine.turn()
    end = engine.transport.ends["a"]
    assert isinstance(end, wire.Finished) and end.reason is wire.FinishReason.CANCELLED


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
