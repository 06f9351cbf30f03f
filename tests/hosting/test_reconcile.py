"""Redis forgets, the rows do not: what is open is submitted again, and nothing else."""

from __future__ import annotations

import datetime
from typing import Any

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from accounts.models import UsageRecord, User
from engine import wire
from hosting.actions.generations import cancel_generation, start_generation
from hosting.actions.hosted_models import publish_models
from hosting.actions.orders import Order
from hosting.actions.reconcile import reconcile
from hosting.engine_client import EngineUnavailable
from hosting.models import Generation, HostedModel
from tests.engine.transport.rig import Rig, pull_ids
from tests.makers import make_status

PROMPT = ({"role": "user", "content": "Grüße"},)


@pytest.fixture
def generation(rig: Rig, person: User, model: HostedModel) -> Generation:
    order = Order(user=person, kind=Generation.Kind.API, model=model, messages=PROMPT)
    return start_generation(order)


def make_old(generation: Generation, *, seconds: float = 6.0) -> None:
    earlier = timezone.now() - datetime.timedelta(seconds=seconds)
    Generation.objects.filter(pk=generation.pk).update(created_at=earlier)


def test_what_redis_forgot_is_submitted_again(rig: Rig, generation: Generation) -> None:
    before = wire.decode(generation.request)
    rig.redis.flushdb()
    make_old(generation)
    reconcile()
    (entry,) = rig.intake.entries()
    assert wire.decode(entry.message) == before


def test_what_redis_forgot_before_the_clock_was_set_back_is_submitted_again(
    rig: Rig, generation: Generation
) -> None:
    rig.redis.flushdb()
    make_old(generation, seconds=-3600.0)
    reconcile()
    assert [entry.request_id for entry in rig.intake.entries()] == [str(generation.pk)]


def test_a_row_of_a_machine_whose_clock_goes_before_may_still_be_on_its_way(
    rig: Rig, generation: Generation
) -> None:
    rig.redis.flushdb()
    make_old(generation, seconds=-1.0)
    reconcile()
    assert not rig.redis.xlen(wire.Keys.INTAKE)


def test_what_was_changed_while_redis_was_away_is_published(
    rig: Rig, model: HostedModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    publish_models()
    with monkeypatch.context() as away:
        away.setattr(type(rig.client), "publish_models", refuse)
        HostedModel.objects.update(is_enabled=False)
        publish_models()
    told = rig.redis.xlen(wire.Keys.CONTROL)
    for _ in range(2):
        reconcile()
        assert rig.client.published_models() == wire.Configure(models=())
    assert rig.redis.xlen(wire.Keys.CONTROL) == told + 1


def refuse(*_: object, **__: object) -> None:
    raise EngineUnavailable


def test_what_waits_keeps_its_place(rig: Rig, person: User, model: HostedModel) -> None:
    order = Order(user=person, kind=Generation.Kind.API, model=model, messages=PROMPT)
    asked = [start_generation(order) for _ in range(3)]
    rig.redis.flushdb()
    for age, generation in enumerate(reversed(asked), start=6):
        earlier = timezone.now() - datetime.timedelta(seconds=age)
        Generation.objects.filter(pk=generation.pk).update(created_at=earlier)
    reconcile()
    assert [entry.request_id for entry in rig.intake.entries()] == [str(one.pk) for one in asked]


def test_what_waited_waits_again_however_full_the_queue(
    rig: Rig, person: User, model: HostedModel
) -> None:
    order = Order(user=person, kind=Generation.Kind.API, model=model, messages=PROMPT)
    asked = [start_generation(order) for _ in range(3)]
    assert rig.admit_all() == ["admitted"] * 3
    rig.redis.flushdb()
    for generation in asked:
        make_old(generation)
    reconcile()
    assert rig.admit_all(max_queue=1, max_queue_per_tenant=1) == ["admitted"] * 3
    start_generation(order)
    assert rig.admit_all(max_queue=1) == ["queue_full"]


def test_what_redis_knows_is_left_alone(rig: Rig, generation: Generation) -> None:
    make_old(generation)
    reconcile()
    assert rig.redis.xlen(wire.Keys.INTAKE) == 1


def test_texts_are_read_of_what_is_submitted_again_only(
    rig: Rig, person: User, model: HostedModel
) -> None:
    order = Order(user=person, kind=Generation.Kind.API, model=model, messages=PROMPT)
    asked = [start_generation(order) for _ in range(3)]
    for generation in asked:
        make_old(generation)
    forgotten = asked[1]
    rig.redis.delete(wire.Keys.request(str(forgotten.pk)))
    with CaptureQueriesContext(connection) as queries:
        reconcile()
    text = '"hosting_generation"."request"'
    (reading,) = (one["sql"] for one in queries.captured_queries if text in one["sql"])
    assert forgotten.pk.hex in reading.replace("-", "")
    assert rig.client.has_request(str(forgotten.pk))


def test_a_young_row_may_still_be_on_its_way(rig: Rig, generation: Generation) -> None:
    rig.redis.flushdb()
    reconcile()
    assert not rig.client.has_request(str(generation.pk))


def test_an_ended_row_is_never_submitted_again(rig: Rig, generation: Generation) -> None:
    Generation.objects.update(state=Generation.State.DONE)
    rig.redis.flushdb()
    make_old(generation)
    reconcile()
    assert not rig.client.has_request(str(generation.pk))


def test_what_nobody_wants_any_more_is_closed(rig: Rig, generation: Generation) -> None:
    cancel_generation(generation)
    rig.redis.flushdb()
    make_old(generation)
    reconcile()
    generation.refresh_from_db()
    assert generation.state == "cancelled"
    assert UsageRecord.objects.get().end == "cancelled"


def test_a_cancel_that_was_lost_is_sent_again(rig: Rig, generation: Generation) -> None:
    rig.admit_all()
    Generation.objects.update(is_cancel_requested=True)  # its message to Redis got lost
    make_old(generation)
    reconcile()
    assert isinstance(rig.events(str(generation.pk))[-1], wire.Finished)


def test_rows_that_an_engine_works_on_are_running(rig: Rig, generation: Generation) -> None:
    rig.admit_all()
    request_id = str(generation.pk)
    assert pull_ids(rig.engine()) == [request_id]
    row = wire.RowStatus(
        request_id=request_id, model="demo", tenant="t", state="decoding", prompt_tokens=1,
        cached_tokens=0, computed_tokens=1, output_tokens=1, age_seconds=1,
    )  # fmt: skip
    rig.redis.set(wire.Keys.engine("engine-1"), wire.encode(make_status(rows=(row,))))
    rig.redis.sadd(wire.Keys.ENGINES, "engine-1")
    reconcile()
    generation.refresh_from_db()
    assert generation.state == "running"


def test_models_are_published_when_redis_lost_them(rig: Rig, model: HostedModel) -> None:
    reconcile()
    configured = wire.decode(rig.redis.get(wire.Keys.MODELS))
    assert [spec.name for spec in configured.models] == ["demo"]


def test_it_waits_for_redis(person: User, settings: Any) -> None:
    settings.REDIS_URL = "unix:///nowhere/redis.sock"
    with pytest.raises(EngineUnavailable):
        reconcile()
