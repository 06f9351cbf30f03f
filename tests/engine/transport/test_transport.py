"""The engine's transport with its threads, against a real Redis that also dies."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator

import pytest

from engine import wire
from engine.core.delivery import Delivery
from engine.core.guests import Invitation
from engine.transport import Transport
from engine.transport.inbox import TransportDied
from tests.engine.transport.rig import Rig, pull_ids
from tests.makers import make_delta, make_finished, make_status
from tests.redis_process import RedisProcess
from tests.waiting import wait_until

DEMO = wire.ModelSpec(name="demo", path="/models/demo")
Start = Callable[..., Transport]


@pytest.fixture
def start(rig: Rig) -> Iterator[Start]:
    yield from starting(rig.url)


@pytest.fixture
def mortal_start(mortal_redis: RedisProcess) -> Iterator[Start]:
    yield from starting(mortal_redis.url)


def starting(url: str) -> Iterator[Start]:
    """Starts transports and closes them after the test."""
    started: list[Transport] = []

    def start(
        name: str = "engine-1", *, is_clearing: Callable[[], bool] = lambda: False
    ) -> Transport:
        transport = Transport(
            redis_url=url,
            engine_name=name,
            status=lambda: make_status(name, beat_at=time.time()),
            is_clearing=is_clearing,
            weigh=lambda work: lambda: 0,
        )
        transport.start()
        started.append(transport)
        return transport

    yield start
    for transport in started:
        transport.close()


def receive(transport: Transport, kind: type, *, seconds: float = 20.0) -> list:
    """All that arrives up to the first of `kind`."""
    received: list = []
    deadline = time.monotonic() + seconds
    while not any(isinstance(one, kind) for one in received):
        assert time.monotonic() < deadline, f"no {kind.__name__} among {received}"
        received += transport.receive(0.5)
    return received


def take(transport: Transport) -> Delivery:
    transport.want({"demo": 1})
    return next(one for one in receive(transport, Delivery) if isinstance(one, Delivery))


def test_the_first_message_is_the_configure_in_force(rig: Rig, start: Start) -> None:
    transport = start()
    transport.want({"demo": 1})
    rig.queue("a")
    assert transport.receive(0.0) == []

    rig.client.publish_models((DEMO,))
    assert receive(transport, Delivery)[0] == wire.Configure(models=(DEMO,))


def token_ids_of(events: list[wire.Event]) -> list[int]:
    return [one for event in events if isinstance(event, wire.Delta) for one in event.token_ids]


def test_a_request_is_delivered_and_its_events_arrive_in_order(rig: Rig, start: Start) -> None:
    rig.client.publish_models((DEMO,))
    transport = start()
    transport.want({"demo": 4})
    rig.queue("a")
    receive(transport, Delivery)
    for i in range(50):
        transport.publish([("a", make_delta(i))])
    transport.publish([("a", make_finished())])

    wait_until(lambda: rig.ended() == ["a"])
    *deltas, end = rig.events("a")[1:]
    assert token_ids_of(deltas) == list(range(50))
    assert end == make_finished()


def start_answering(rig: Rig, transport: Transport) -> None:
    """Two requests, of which one has ended and the other has a token more than has gone."""
    rig.client.publish_models((DEMO,))
    for request_id in "ab":
        rig.queue(request_id)
        take(transport)
        transport.publish([(request_id, make_delta(1))])
        wait_until(lambda one=request_id: make_delta(1) in rig.events(one))
    transport.publish([("a", make_delta(2)), ("b", make_finished())])
    wait_until(lambda: rig.ended() == ["b"])


def test_kept_tokens_go_though_nothing_more_is_said(
    rig: Rig, start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("engine.transport.transport.POLL_SECONDS", 60.0)
    monkeypatch.setattr("engine.transport.transport.RENEW_SECONDS", 60.0)
    transport = start()
    start_answering(rig, transport)
    wait_until(lambda: make_delta(2) in rig.events("a"))


def test_kept_tokens_are_stored_when_the_engine_closes(
    rig: Rig, start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("engine.transport.outbox.INTERVAL_SECONDS", 60.0)
    transport = start()
    start_answering(rig, transport)
    assert make_delta(2) not in rig.events("a")
    transport.close()
    assert make_delta(2) in rig.events("a")


def test_no_more_is_delivered_than_was_wanted(rig: Rig, start: Start) -> None:
    rig.client.publish_models((DEMO,))
    rig.queue(*(f"a{i}" for i in range(6)))
    transport = start()
    transport.want({"demo": 2})
    received = receive(transport, Delivery)
    transport.want({"demo": 1})
    received += receive(transport, Delivery)

    wait_until(lambda: len(rig.client.waiting()) == 3)
    assert [one.work.request_id for one in received if isinstance(one, Delivery)][:1] == ["a0"]
    assert transport.receive(0.1) == []


def test_one_guest_comes_when_somebody_else_asks(rig: Rig, start: Start) -> None:
    rig.client.publish_models((DEMO,))
    transport = start()
    invitation = Invitation(
        without_tenants=frozenset({"user:heavy"}), lowest_class=wire.Priority.BATCH
    )
    transport.want({"demo": 0}, {"demo": invitation})
    rig.queue("h1", tenant="user:heavy")
    rig.queue("l1", "l2", tenant="user:light")
    *_, guest = receive(transport, Delivery)
    assert guest.work.request_id == "l1"
    transport.want({"demo": 0})
    assert transport.receive(0.1) == []
    transport.want({"demo": 0}, {"demo": invitation})
    *_, guest = receive(transport, Delivery)
    assert guest.work.request_id == "l2"


def test_commands_arrive_in_the_order_they_were_given(rig: Rig, start: Start) -> None:
    rig.client.publish_models((DEMO,))
    transport = start()
    receive(transport, wire.Configure)
    rig.client.load_model("demo")
    rig.client.unload_model("demo")

    assert receive(transport, wire.UnloadModel) == [
        wire.LoadModel(name="demo"),
        wire.UnloadModel(name="demo"),
    ]


def test_who_was_down_hears_what_to_forget_and_nothing_else(rig: Rig, start: Start) -> None:
    rig.client.publish_models((DEMO,))
    rig.client.forget_tenant("while Redis lost its memory")
    first = start()
    assert receive(first, wire.ForgetTenant)[-1].tenant == "while Redis lost its memory"
    wait_until(lambda: has_acted_on_all(rig, first))
    rig.client.forget_tenant("heard")
    assert receive(first, wire.ForgetTenant) == [wire.ForgetTenant(tenant="heard")]
    wait_until(lambda: has_acted_on_all(rig, first))
    first.close()
    rig.client.load_model("demo")
    rig.client.forget_tenant("missed")
    rig.client.clear_cache("demo")
    heard = receive(start(), wire.ClearCache)
    assert heard[1:] == [wire.ForgetTenant(tenant="missed"), wire.ClearCache(model="demo")]


def test_who_was_down_hears_what_to_forget_however_much_was_said_since(
    rig: Rig, start: Start
) -> None:
    rig.client.publish_models((DEMO,))
    rig.client.forget_tenant("heard")
    first = start()
    receive(first, wire.ForgetTenant)
    wait_until(lambda: has_acted_on_all(rig, first))
    first.close()
    rig.client.forget_tenant("missed")
    rig.queue("a")
    pull_ids(rig.engine("engine-2"))
    for _ in range(1300):
        rig.client.cancel("a")
    heard = receive(start(), wire.ForgetTenant)
    assert heard[1:] == [wire.ForgetTenant(tenant="missed")]


def test_what_is_forgotten_again_and_again_is_kept_once(rig: Rig, start: Start) -> None:
    rig.client.publish_models((DEMO,))
    for _ in range(3):
        rig.client.forget_tenant("one")
        rig.client.forget_tenant("another")
    rig.client.forget_tenant("one")
    assert receive(start(), wire.ForgetTenant)[1:] == [
        wire.ForgetTenant(tenant="another"),
        wire.ForgetTenant(tenant="one"),
    ]


def test_only_what_is_gone_is_not_heard_again(rig: Rig, start: Start) -> None:
    answers = iter((True, True, False))
    rig.client.publish_models((DEMO,))
    rig.client.forget_tenant("slowly")
    first = start(is_clearing=lambda: next(answers))
    receive(first, wire.ForgetTenant)
    wait_until(lambda: has_acted_on_all(rig, first))
    assert next(answers, None) is None, "asked until it was gone"


def test_what_was_taken_and_not_obeyed_is_heard_again(rig: Rig, start: Start) -> None:
    rig.client.publish_models((DEMO,))
    rig.client.forget_tenant("taken")
    first = start()
    receive(first, wire.ForgetTenant)
    first.close()
    assert receive(start(), wire.ForgetTenant)[-1] == wire.ForgetTenant(tenant="taken")


def has_acted_on_all(rig: Rig, transport: Transport) -> bool:
    """`transport` has obeyed what it took, and has told so."""
    assert transport.receive(0.0) == []
    last = rig.redis.xrevrange(wire.Keys.FORGET, count=1)[0][0]
    return bool(rig.redis.get(wire.Keys.engine_forgot("engine-1")) == last)


def test_a_cancel_reaches_the_engine_that_runs_the_request(rig: Rig, start: Start) -> None:
    rig.client.publish_models((DEMO,))
    rig.queue("a")
    transport = start()
    take(transport)
    rig.client.cancel("a")

    assert receive(transport, wire.Cancel)[-1] == wire.Cancel(request_id="a")


def test_new_settings_arrive_while_running(rig: Rig, start: Start) -> None:
    rig.client.publish_models((DEMO,))
    transport = start()
    receive(transport, wire.Configure)
    rig.client.publish_models(())

    assert receive(transport, wire.Configure)[-1] == wire.Configure(models=())


def test_an_engine_is_seen_while_it_lives(rig: Rig, start: Start) -> None:
    transport = start()
    wait_until(lambda: [one.engine for one in rig.client.engines()] == ["engine-1"])
    transport.close()

    assert rig.client.engines() == []


def test_closing_stores_all_and_gives_the_rest_back(rig: Rig, start: Start) -> None:
    rig.client.publish_models((DEMO,))
    rig.queue("a")
    transport = start()
    take(transport)
    transport.publish([("a", make_delta(1)), ("a", make_delta(2))])
    transport.close()

    delivery = take(start("engine-2"))
    assert delivery.delivered_token_ids == (1, 2)
    assert (delivery.attempt, delivery.is_suspect) == (2, False)


def test_a_row_that_lost_its_lease_is_not_heard_when_its_request_comes_again(
    rig: Rig, start: Start
) -> None:
    rig.client.publish_models((DEMO,))
    rig.queue("a")
    transport = start()
    take(transport)
    transport.publish([("a", make_delta(1))])
    wait_until(lambda: len(rig.events("a")) == 2)
    transport.want({"demo": 1})
    rig.lose_leases("engine-1")
    wait_until(lambda: rig.redis.hget(wire.Keys.request("a"), "attempt") == "2")

    transport.publish([("a", make_delta(2))])  # of the row that knows nothing of it yet
    delivery = take(transport)
    assert (delivery.work.request_id, delivery.delivered_token_ids) == ("a", (1,))
    transport.publish([("a", wire.Resumed(at_tokens=1)), ("a", make_delta(3))])
    transport.publish([("a", make_finished())])
    wait_until(lambda: rig.ended() == ["a"])
    said = [make_delta(1), wire.Resumed(at_tokens=1), make_delta(3), make_finished()]
    assert rig.events("a")[1:] == said


def test_publishing_never_waits_for_redis(mortal_redis: RedisProcess, mortal_start: Start) -> None:
    before_death = Rig(mortal_redis.url)
    before_death.client.publish_models((DEMO,))
    before_death.queue("a")
    transport = mortal_start()
    take(transport)
    mortal_redis.kill()
    began = time.monotonic()
    for i in range(1000):
        transport.publish([("a", make_delta(i))])
    assert time.monotonic() - began < 0.5

    mortal_redis.start()
    transport.publish([("a", make_finished())])
    rig = Rig(mortal_redis.url)
    wait_until(lambda: rig.ended() == ["a"])
    *deltas, end = rig.events("a")[1:]
    assert token_ids_of(deltas) == list(range(1000))
    assert end == make_finished()


def test_a_redis_that_comes_back_empty_gets_everything_again(
    mortal_redis: RedisProcess, mortal_start: Start
) -> None:
    before_death = Rig(mortal_redis.url)
    before_death.client.publish_models((DEMO,))
    before_death.queue("a")
    transport = mortal_start()
    take(transport)
    transport.publish([("a", make_delta(1))])
    wait_until(lambda: len(before_death.events("a")) == 2)
    events = before_death.events("a")
    mortal_redis.kill()
    mortal_redis.forget()
    mortal_redis.start()

    rig = Rig(mortal_redis.url)
    wait_until(lambda: len(rig.events("a")) == 2)
    assert rig.events("a") == events


def test_data_lost_without_a_broken_connection_is_noticed(rig: Rig, start: Start) -> None:
    rig.client.publish_models((DEMO,))
    rig.queue("a")
    transport = start()
    take(transport)
    wait_until(lambda: rig.client.engines() != [])
    rig.redis.flushall()

    wait_until(lambda: rig.client.has_request("a"))
    assert rig.events("a") == [wire.Accepted(prompt_tokens=4, max_tokens=256)]


def test_a_transport_that_breaks_says_so_to_the_engine(rig: Rig, start: Start) -> None:
    rig.redis.set(wire.Keys.MODELS, "not a configure")

    with pytest.raises(TransportDied):
        receive(start(), wire.Configure)


def test_the_model_thread_gives_way_for_first_tokens_alone(
    rig: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    transport = Transport(
        redis_url=rig.url,
        engine_name="e",
        status=lambda: make_status("e"),
        is_clearing=lambda: False,
        weigh=lambda work: lambda: 0,
    )
    naps: list[float] = []
    monkeypatch.setattr("engine.transport.transport.time.sleep", naps.append)
    given_way = []
    for event in (make_delta(1), make_delta(2), make_finished()):
        naps.clear()
        transport.publish([("a", event)])
        given_way.append(len(naps))
    assert given_way == [1, 0, 0]
