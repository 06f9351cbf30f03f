"""Whom an engine gets that has some of the waiting prompts in memory, in the real Redis."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from engine import wire
from engine.transport.exchange import Exchange
from tests.engine.transport.rig import Rig, emit, pull_ids
from tests.makers import make_finished

LONG = 2000


class Memory:
    """An engine's, as the queue knows it: so many tokens of each request's prompt."""

    def __init__(self, **tokens: int) -> None:
        self.tokens = tokens
        self.read: list[str] = []

    def weigh(self, work: wire.Work) -> Callable[[], int]:
        self.read.append(work.request_id)
        return lambda: self.tokens.get(work.request_id, 0)


def engine_that_pulled(rig: Rig, memory: Memory, *, model: str = "demo") -> Exchange:
    """One that has learned that long prompts wait."""
    engine = rig.engine(weigh=memory.weigh)
    engine.pull({model: 1})
    return engine


def queue_long(rig: Rig, *request_ids: str, **changes: object) -> None:
    rig.queue(*request_ids, num_prompt_tokens=LONG, **changes)


def test_every_other_of_ones_prompts_is_the_one_most_in_memory(rig: Rig) -> None:
    queue_long(rig, "first", "a", "b", "c", "d", "e")
    engine = engine_that_pulled(rig, Memory(c=512, d=1024, e=256))

    assert [*pull_ids(engine), *pull_ids(engine, 4)] == ["d", "a", "c", "b", "e"]


def test_where_nothing_is_in_memory_fairness_decides(rig: Rig) -> None:
    queue_long(rig, "first", "a1", "a2", "a3", tenant="user:a")
    queue_long(rig, "b1", "b2", "b3", tenant="user:b")
    engine = engine_that_pulled(rig, Memory())
    assert pull_ids(engine, 5) == ["b1", "a1", "b2", "a2", "b3"]


def test_who_was_preferred_may_be_too_far_ahead_then(rig: Rig) -> None:
    queue_long(rig, "first", "a1", "a2", "a3", tenant="user:a")
    rig.queue("b1", "b2", "b3", tenant="user:b", num_prompt_tokens=5000)
    engine = engine_that_pulled(rig, Memory(b1=512, b2=512, b3=512))
    assert pull_ids(engine, 6) == ["b1", "b2", "a1", "a2", "b3", "a3"]


def test_the_share_of_an_overdue_class_is_its_own(rig: Rig) -> None:
    queue_long(rig, "overdue", priority=wire.Priority.API)
    rig.redis.hset(wire.Keys.request("overdue"), "queued_at", 0)
    chats = [f"chat{number}" for number in range(6)]
    queue_long(rig, *chats, priority=wire.Priority.INTERACTIVE)
    engine = engine_that_pulled(rig, Memory(**dict.fromkeys(chats, 512)))
    pull_ids(engine, 2)
    rig.redis.zadd("hearth:ring:interactive:demo", {"user:1": 0})
    assert pull_ids(engine) == ["overdue"]


def test_equals_go_in_the_order_of_arrival(rig: Rig) -> None:
    queue_long(rig, "first", "a", "b", "c")
    engine = engine_that_pulled(rig, Memory(a=512, b=512, c=512))
    assert pull_ids(engine, 3) == ["a", "b", "c"]


def test_what_left_memory_meanwhile_is_not_preferred(rig: Rig) -> None:
    queue_long(rig, "first", "a", "b", "c", "d")
    memory = Memory(d=1024)
    engine = engine_that_pulled(rig, memory)
    memory.tokens = {"c": 512}
    assert pull_ids(engine) == ["c"]


def test_looking_for_another_models_requests_changes_nothing(rig: Rig) -> None:
    queue_long(rig, "first", "a", "b", "c")
    engine = engine_that_pulled(rig, Memory(c=512))
    engine.pull({"other": 5})
    assert pull_ids(engine) == ["c"]


def test_a_prompt_is_read_once(rig: Rig) -> None:
    queue_long(rig, "first", "a", "b", "c", "d")
    memory = Memory(d=512)
    engine = engine_that_pulled(rig, memory)
    for _ in range(3):
        pull_ids(engine)
    assert sorted(memory.read) == ["a", "b", "c", "d"]


def test_a_short_prompt_is_not_passed_by(rig: Rig) -> None:
    queue_long(rig, "first")
    rig.queue("short")
    queue_long(rig, "a", "b")
    memory = Memory(b=1024)
    engine = engine_that_pulled(rig, memory)
    assert pull_ids(engine, 2) == ["short", "b"]
    assert memory.read == ["a", "b"]


def test_short_prompts_are_not_looked_at(rig: Rig) -> None:
    rig.queue("first", "a", "b", "c")
    memory = Memory(c=3)
    engine = engine_that_pulled(rig, memory)
    assert pull_ids(engine, 3) == ["a", "b", "c"]
    assert memory.read == []


def test_a_lower_class_is_not_preferred(rig: Rig) -> None:
    queue_long(rig, "first", "chat", priority=wire.Priority.INTERACTIVE)
    queue_long(rig, "script", priority=wire.Priority.API)
    engine = engine_that_pulled(rig, Memory(script=1024))
    assert pull_ids(engine, 2) == ["chat", "script"]


@pytest.mark.parametrize(("served", "expected"), [(1000, "warm"), (9000, "cold")])
def test_somebody_else_is_preferred_within_a_deficit(rig: Rig, served: int, expected: str) -> None:
    engine = rig.engine(weigh=Memory(warm=1024).weigh)
    rig.queue("before", tenant="user:warm", num_prompt_tokens=served)
    pull_ids(engine)
    emit(engine, "before", make_finished())
    queue_long(rig, "here", tenant="user:cold")
    queue_long(rig, "cold", tenant="user:cold")
    queue_long(rig, "warm", "warm2", tenant="user:warm")
    assert pull_ids(engine) == ["here"]
    rig.redis.zadd("hearth:ring:api:demo", {"user:cold": 0, "user:warm": served})
    assert pull_ids(engine) == [expected]


def test_what_is_preferred_is_paid_for(rig: Rig) -> None:
    queue_long(rig, "first", "a", "b", tenant="user:a")
    engine = engine_that_pulled(rig, Memory(b=1024))
    before = float(rig.redis.zscore("hearth:ring:api:demo", "user:a"))
    assert pull_ids(engine) == ["b"]
    assert float(rig.redis.zscore("hearth:ring:api:demo", "user:a")) - before >= LONG


def test_however_many_people_wait_few_of_their_lines_are_read(rig: Rig) -> None:
    for number in range(200):
        rig.queue(f"r{number}", tenant=f"user:{number}")
    queue_long(rig, "long", "other", tenant="user:x")
    engine = engine_that_pulled(rig, Memory())
    rig.redis.config_resetstat()
    pull_ids(engine)
    assert rig.redis.info("commandstats")["cmdstat_zrange"]["calls"] < 50


def test_a_cancelled_one_is_not_taken(rig: Rig) -> None:
    queue_long(rig, "first", "a", "b", "c")
    engine = engine_that_pulled(rig, Memory(b=512, c=1024))
    rig.client.cancel("c")
    assert pull_ids(engine, 3) == ["b", "a"]
    assert rig.redis.exists("hearth:long:demo") == 0


def test_two_engines_get_what_each_has_in_memory(rig: Rig) -> None:
    queue_long(rig, "0", "1", "a", "b", "c", "d")
    engines = [
        rig.engine("one", weigh=Memory(b=512, a=256).weigh),
        rig.engine("two", weigh=Memory(d=512).weigh),
    ]
    for engine in engines:
        pull_ids(engine)
    assert [pull_ids(engine) for engine in engines] == [["b"], ["a"]]
    assert [pull_ids(engine) for engine in reversed(engines)] == [["d"], ["c"]]


def test_more_payloads_than_one_answer_holds_are_read_bit_by_bit(rig: Rig) -> None:
    queue_long(rig, "first", *(f"r{i:02}" for i in range(20)))
    memory = Memory(r19=1024)
    engine = engine_that_pulled(rig, memory)
    assert pull_ids(engine) == ["r00"]
    assert memory.read == [f"r{i:02}" for i in range(8)]
    assert [*pull_ids(engine), *pull_ids(engine)] == ["r01", "r19"]
    assert len(memory.read) == 20
