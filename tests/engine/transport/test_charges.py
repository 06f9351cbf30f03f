"""What a request takes of its tenant's share at its end, in the real Redis."""

from __future__ import annotations

import pytest

from engine import wire
from engine.transport.exchange import Exchange
from tests.engine.transport.rig import Rig, emit, pull_ids
from tests.makers import make_delta, make_finished

STARTED = wire.Started(cached_tokens=0)
PROMPT_TOKENS = 5000


def read(done_tokens: int) -> wire.Prefilled:
    return wire.Prefilled(done_tokens=done_tokens, total_tokens=PROMPT_TOKENS)


def service_of(rig: Rig, tenant: str) -> float:
    return float(rig.redis.zscore("hearth:idle:api:demo", tenant))


def test_cached_tokens_cost_what_copying_them_does(rig: Rig) -> None:
    engine = rig.engine()
    for tenant in ("user:again", "user:a new one"):
        rig.submit(tenant, tenant=tenant)
        rig.admit_all(num_prompt_tokens=5000)
    pull_ids(engine, 2)
    usage = wire.Usage(prompt_tokens=5000, cached_tokens=4900, completion_tokens=1)
    emit(engine, "user:again", make_delta(1), wire.replace(make_finished(), usage=usage))
    emit(engine, "user:a new one", make_delta(1), make_finished(prompt_tokens=5000))

    assert service_of(rig, "user:again") == pytest.approx(100 + 0.02 * 4900 + 1)
    assert service_of(rig, "user:a new one") == 5001


@pytest.mark.parametrize(
    ("told", "service"),
    [
        ([], 0),
        ([wire.Loading(fraction=0.5)], 0),
        ([STARTED], PROMPT_TOKENS),  # how far it has come is not known
        ([STARTED, read(700), read(1200)], 1200),
        ([STARTED, read(4999), make_delta(1, 2)], PROMPT_TOKENS + 2),
    ],
)
def test_who_is_cancelled_in_an_engine_pays_for_what_it_computed(
    rig: Rig, told: list[wire.Event], service: float
) -> None:
    engine = lease(rig)
    cancel(engine, *told)
    assert service_of(rig, "user:1") == service


def test_what_was_cached_of_a_cancelled_prompt_costs_little_too(rig: Rig) -> None:
    engine = lease(rig)
    cancel(engine, wire.Started(cached_tokens=100), read(700), cached_tokens=100)
    assert service_of(rig, "user:1") == pytest.approx(600 + 0.02 * 100)


def test_a_row_that_gave_way_pays_once_for_what_is_read_again(rig: Rig) -> None:
    engine = lease(rig)
    cancel(engine, STARTED, read(700), wire.Paused(), wire.Resumed(at_tokens=0), read(300))
    assert service_of(rig, "user:1") == 700


def test_who_waits_again_after_a_crash_pays_for_what_it_was_given_before(rig: Rig) -> None:
    emit(lease(rig), "a", STARTED, read(4999), make_delta(1, 2))
    engine = rig.engine()
    assert pull_ids(engine) == ["a"]
    cancel(engine)
    assert service_of(rig, "user:1") == PROMPT_TOKENS + 2


def lease(rig: Rig) -> Exchange:
    """An engine that has taken one request."""
    rig.submit("a")
    rig.admit_all(num_prompt_tokens=PROMPT_TOKENS)
    engine = rig.engine()
    pull_ids(engine)
    return engine


def cancel(engine: Exchange, *told: wire.Event, cached_tokens: int = 0) -> None:
    """Its engine has told so much of it before."""
    usage = wire.Usage(prompt_tokens=PROMPT_TOKENS, cached_tokens=cached_tokens)
    emit(engine, "a", *told, wire.replace(make_finished(), usage=usage))
