"""Several engines on one queue: which of them gets what, in the real Redis."""

from __future__ import annotations

import random
import time

import msgspec
import pytest

from engine import wire
from engine.transport.exchange import Exchange
from engine.transport.reach import LONGEST_TOKENS, reach_of
from tests.engine.transport.rig import Rig, emit, pull_ids
from tests.makers import make_delta, make_finished, make_status, make_work

LONGEST = 1 << 20
ROWS = 8
LONG = 8192  # tokens: worth two seconds
FAILED = wire.Failed(code=wire.Code.MODEL_LOAD_FAILED, detail="there is no such folder")
TOO_LARGE = wire.Failed(code=wire.Code.DOES_NOT_FIT, detail="the row needs 9 GiB")


@pytest.fixture
def prompt() -> tuple[int, ...]:
    rng = random.Random(1)
    return tuple(rng.randrange(1 << 20) for _ in range(LONG))


def join(rig: Rig, *names: str, longest: int = LONGEST) -> list[Exchange]:
    """Engines that beat, can serve rows of so many tokens, and have looked at the empty queue."""
    engines = [rig.engine(name) for name in names]
    for name in names:
        rig.redis.set(wire.Keys.engine(name), "a beat")
        rig.scripts("reach", name, "demo", longest)
    for engine in engines * 2:
        engine.pull({"demo": ROWS})
    return engines


def send(rig: Rig, request_id: str, prompt: tuple[int, ...], **changes: object) -> None:
    rig.submit(request_id, **changes)
    for entry in rig.intake.entries():
        work = make_work(wire.decode(entry.message))
        work = msgspec.structs.replace(work, prompt_token_ids=prompt)
        rig.intake.admit(entry, work, wire.ModelSpec(name="demo", path="/"), is_routed=True)


def answer(
    rig: Rig, engine: Exchange, request_id: str, prompt: tuple[int, ...], **changes: object
) -> None:
    send(rig, request_id, prompt, **changes)
    assert pull_ids(engine, ROWS) == [request_id]
    emit(engine, request_id, make_delta(1), make_finished())
    engine.pull({"demo": ROWS})


# -- what an engine cannot serve ---------------------------------------------------------------


def test_who_cannot_load_a_model_leaves_it_to_who_can(rig: Rig) -> None:
    one, two = join(rig, "one", "two")
    rig.scripts("reach", "one", "demo", 0)
    rig.queue("a")
    assert pull_ids(one) == []
    assert pull_ids(two) == ["a"]


def test_while_the_only_one_who_can_is_away_for_a_moment_its_requests_wait(rig: Rig) -> None:
    one, _ = join(rig, "one", "two")
    rig.scripts("reach", "one", "demo", 0)
    rig.redis.delete(wire.Keys.engine("two"))
    rig.redis.srem(wire.Keys.ENGINES, "two")
    rig.queue("a")
    assert pull_ids(one) == []


def test_what_no_engine_can_load_is_refused_by_one_that_cannot(rig: Rig) -> None:
    one, _ = join(rig, "one", "two", longest=0)
    rig.queue("a")
    assert pull_ids(one) == ["a"]
    emit(one, "a", FAILED)
    assert rig.events("a")[-1] == FAILED


def test_a_row_that_is_too_long_for_one_goes_to_the_larger(rig: Rig) -> None:
    small, large = join(rig, "small", "large")
    rig.scripts("reach", "small", "demo", 1000)
    rig.queue("long", num_prompt_tokens=2000)
    rig.queue("short")
    assert pull_ids(small, ROWS) == ["short"]
    assert pull_ids(large, ROWS) == ["long"]


@pytest.mark.parametrize("reason", [FAILED, TOO_LARGE], ids=["load", "memory"])
def test_what_fails_on_one_engine_goes_on_in_another(rig: Rig, reason: wire.Failed) -> None:
    one, two = join(rig, "one", "two")
    rig.queue("a")
    assert pull_ids(one) == ["a"]
    emit(one, "a", make_delta(7))
    assert emit(one, "a", make_delta(8), reason) == []
    assert pull_ids(one) == []

    (delivery,) = two.pull({"demo": 1})
    assert delivery.delivered_token_ids == (7,)
    assert not delivery.is_suspect
    emit(two, "a", make_delta(8), make_finished())
    assert [type(event) for event in rig.events("a")].count(wire.Failed) == 0
    assert emit(one, "a", make_delta(9)) == []


def test_what_fails_on_all_of_them_fails(rig: Rig) -> None:
    one, two = join(rig, "one", "two")
    rig.queue("a")
    assert pull_ids(one) == ["a"]
    emit(one, "a", FAILED)
    assert pull_ids(two) == ["a"]
    emit(two, "a", FAILED)
    assert rig.events("a")[-1] == FAILED
    assert rig.ended() == ["a"]


def test_of_what_an_engine_gave_back_it_takes_the_rest_of_the_queue(rig: Rig) -> None:
    one, _ = join(rig, "one", "two")
    rig.queue("a")
    assert pull_ids(one) == ["a"]
    emit(one, "a", FAILED)
    rig.queue("b", "c", "d")
    assert pull_ids(one, ROWS)[0] == "b"


# -- who has room -----------------------------------------------------------------------------


def test_a_burst_is_shared(rig: Rig) -> None:
    one, two = join(rig, "one", "two")
    rig.queue(*"abcdefgh")
    assert pull_ids(one, ROWS) == [*"abcd"]
    assert pull_ids(two, ROWS) == [*"efgh"]


def test_more_than_there_are_rows_for_fills_both(rig: Rig) -> None:
    one, two = join(rig, "one", "two")
    rig.queue(*map(str, range(20)))
    assert len(pull_ids(one, ROWS)) == ROWS
    assert len(pull_ids(two, ROWS)) == ROWS


def test_who_has_less_in_hand_is_left_the_next(rig: Rig) -> None:
    one, two = join(rig, "one", "two")
    rig.queue("a")
    assert pull_ids(one, ROWS) == ["a"]
    rig.queue("b")
    assert pull_ids(one, ROWS - 1) == []
    assert one.look_again_seconds == 0.1
    assert pull_ids(two, ROWS) == ["b"]


def test_nobody_waits_for_an_engine_that_does_not_ask(rig: Rig) -> None:
    one, _ = join(rig, "one", "two")
    rig.queue("a")
    assert pull_ids(one, ROWS) == ["a"]
    age(rig, "hearth:room:demo", "two")
    rig.queue("b")
    assert pull_ids(one, ROWS) == ["b"]


def age(rig: Rig, key: str, engine: str) -> None:
    """What an engine has told is older than it may be."""
    *numbers, _ = rig.redis.hget(key, engine).split()
    rig.redis.hset(key, engine, " ".join([*numbers, "1"]))


# -- who knows the prefix ------------------------------------------------------------------------


def test_the_next_turn_goes_to_the_engine_that_had_the_last(
    rig: Rig, prompt: tuple[int, ...]
) -> None:
    one, two = join(rig, "one", "two")
    answer(rig, one, "turn1", prompt[:4000])
    send(rig, "turn2", prompt[:5000])
    assert pull_ids(two, ROWS) == []
    assert two.look_again_seconds == pytest.approx(0.96, abs=0.1)  # a quarter of a ms a token
    assert pull_ids(one, ROWS) == ["turn2"]


def test_others_requests_are_taken_meanwhile(rig: Rig, prompt: tuple[int, ...]) -> None:
    one, two = join(rig, "one", "two")
    answer(rig, one, "turn1", prompt[:4000])
    send(rig, "turn2", prompt[:5000])
    rig.queue("other")
    assert pull_ids(two, ROWS) == ["other"]
    assert pull_ids(one, ROWS) == ["turn2"]


def test_a_full_engine_is_waited_for_a_while_and_no_longer(
    rig: Rig, prompt: tuple[int, ...]
) -> None:
    one, two = join(rig, "one", "two")
    answer(rig, one, "turn1", prompt[:4000])
    rig.redis.hdel("hearth:room:demo", "one")
    send(rig, "turn2", prompt[:5000])
    assert pull_ids(two, ROWS) == []
    rig.redis.hset(wire.Keys.request("turn2"), "home_until", int(time.time() * 1000) - 1)
    assert pull_ids(two, ROWS) == ["turn2"]


def test_a_dead_engine_is_not_waited_for(rig: Rig, prompt: tuple[int, ...]) -> None:
    one, two = join(rig, "one", "two")
    answer(rig, one, "turn1", prompt[:4000])
    rig.redis.delete(wire.Keys.engine("one"))
    rig.redis.hdel("hearth:room:demo", "one")
    send(rig, "turn2", prompt[:5000])
    assert pull_ids(two, ROWS) == ["turn2"]


def test_a_crowd_at_home_is_shared_all_the_same(rig: Rig, prompt: tuple[int, ...]) -> None:
    """What all have in common is read by the second engine too; then both know it."""
    one, two = join(rig, "one", "two")
    answer(rig, one, "first", prompt)
    for number in range(12):
        send(rig, f"r{number}", prompt)
    at_home = pull_ids(one, 2 * ROWS)
    elsewhere = pull_ids(two, 2 * ROWS)
    assert len(at_home) + len(elsewhere) == 12
    assert len(elsewhere) >= 4


def test_another_persons_prompt_tells_nothing(rig: Rig, prompt: tuple[int, ...]) -> None:
    one, two = join(rig, "one", "two")
    answer(rig, one, "turn1", prompt[:4000])
    send(rig, "same", prompt[:4000], tenant="user:2")
    assert pull_ids(two, ROWS) == ["same"]


def test_fairness_counts_for_both_engines_together(rig: Rig, prompt: tuple[int, ...]) -> None:
    """Who waits for its engine keeps its place, and pays when it is taken."""
    one, two = join(rig, "one", "two")
    answer(rig, one, "turn1", prompt[:4000])
    send(rig, "turn2", prompt[:5000])
    before = float(rig.redis.zscore("hearth:ring:api:demo", "user:1"))
    rig.queue("b1", "b2", tenant="user:2")
    assert pull_ids(two, ROWS)[0] == "b1"
    assert float(rig.redis.zscore("hearth:ring:api:demo", "user:1")) == before
    assert pull_ids(one, 1) == ["turn2"]
    assert float(rig.redis.get("hearth:clock:api:demo")) <= before


def test_a_single_engine_notes_nothing(rig: Rig) -> None:
    (one,) = join(rig, "one")
    rig.queue("a", "b")
    assert pull_ids(one, ROWS) == ["a", "b"]
    assert not rig.redis.exists("hearth:room:demo")
    assert rig.redis.keys("hearth:home:*") == []


# -- what an engine tells ------------------------------------------------------------------------


def test_a_heartbeat_says_how_long_rows_may_be() -> None:
    needs = wire.RowNeeds(token_bytes=10, fixed_bytes=0, windows=())
    memory = wire.MemoryStatus(
        limit_bytes=1000,
        models=(
            wire.ModelMemory(name="fits", weight_bytes=500, room_bytes=500, needs=needs),
            wire.ModelMemory(name="large", weight_bytes=2000, room_bytes=-1000, needs=needs),
            wire.ModelMemory(name="vectors", weight_bytes=10, room_bytes=990),
            wire.ModelMemory(name="torn", weight_bytes=10, room_bytes=990, needs=needs),
        ),
    )
    models = (wire.ModelStatus(name="torn", state="failed"),)
    status = make_status(memory=memory, models=models)
    expected = {"fits": 50, "large": 0, "vectors": LONGEST_TOKENS, "torn": 0}
    assert reach_of(status) == expected


@pytest.mark.parametrize("seed", range(3))
def test_however_conversations_are_spread_everybody_has_the_same_share(
    rig: Rig, prompt: tuple[int, ...], seed: int
) -> None:
    """Three people whose conversations one of the engines knows; both ask all the time. To the
    queue's bound comes what one request costs that waits for its engine."""
    engines = join(rig, "one", "two")
    chooser = random.Random(seed)
    served = dict.fromkeys(("user:a", "user:b", "user:c"), 0)
    for tenant in served:
        answer(rig, chooser.choice(engines), f"first of {tenant}", prompt, tenant=tenant)
    for number in range(24):
        for tenant in served:
            length = chooser.choice([1100, 2500, 4000])
            send(rig, f"{tenant} {number}", prompt[:length], tenant=tenant)
    for _ in range(40):
        engine = chooser.choice(engines)
        for request_id in pull_ids(engine, 1):
            emit(engine, request_id, make_delta(1), make_finished())
            served[request_id.split()[0]] += prompt_tokens_of(rig, request_id)
        assert max(served.values()) - min(served.values()) <= 3 * 4256 + 4096
    assert sum(served.values()) > 40 * 1100


def prompt_tokens_of(rig: Rig, request_id: str) -> int:
    return int(rig.redis.hget(wire.Keys.request(request_id), "prompt_tokens"))
