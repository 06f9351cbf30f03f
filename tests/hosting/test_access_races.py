"""Access ends, or a limit is lowered, in the moment in which somebody asks."""

from __future__ import annotations

import datetime
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from django.db import connections, transaction
from django.test import Client

from accounts.keys import create_api_key, revoke_api_key, rotate_api_key
from accounts.models import ApiKey, Quota, User
from engine import wire
from hosting.actions.generations import start_generation
from hosting.actions.my_data import delete_person
from hosting.actions.orders import Order
from hosting.actions.refusals import Refusal
from hosting.models import Generation, HostedModel
from tests.engine.transport.rig import Rig

HELLO = ({"role": "user", "content": "Hello there"},)
NUM_THREADS, EACH, MANY = 20, 10, 20
HOLD_SECONDS = 0.3  # so long is a start held open, if nothing waits for it


@pytest.fixture
def key(person: User) -> ApiKey:
    return create_api_key(user=person, name="script")[0]


@pytest.fixture
def ask(person: User, key: ApiKey, model: HostedModel) -> Callable[[], Generation]:
    def ask() -> Generation:
        order = Order(
            user=person, kind=Generation.Kind.API, model=model, messages=HELLO, api_key=key
        )
        return start_generation(order)

    return ask


def closing(call: Callable[[], Any]) -> Any:
    """In a thread of its own."""
    try:
        return call()
    finally:
        connections.close_all()


@pytest.mark.parametrize(
    "how", ["the key is revoked", "the key is replaced", "the person is deleted"]
)
def test_what_begins_in_the_moment_when_access_ends_is_stopped(
    ask: Callable[[], Generation], person: User, key: ApiKey, rig: Rig, how: str
) -> None:
    is_begun, is_over = threading.Event(), threading.Event()

    def begin() -> str:
        with transaction.atomic():
            generation = ask()
            is_begun.set()
            is_over.wait(HOLD_SECONDS)
        return str(generation.pk)

    def end_access() -> None:
        is_begun.wait()
        if "revoked" in how:
            revoke_api_key(key)
        elif "replaced" in how:
            rotate_api_key(key, overlap=datetime.timedelta(), by=person)
        else:
            delete_person(person, actor=person, address="")
        is_over.set()

    with ThreadPoolExecutor() as threads:
        beginning = threads.submit(closing, begin)
        threads.submit(closing, end_access).result()
    request = wire.Keys.request(beginning.result())
    assert rig.redis.hget(request, "state") == "ended"


@pytest.mark.parametrize(("overlap_hours", "is_stopped"), [(0, True), (1, False)])
def test_a_replaced_key_that_works_on_for_no_time_has_its_open_answers_stopped(
    page: Client,
    ask: Callable[[], Generation],
    key: ApiKey,
    rig: Rig,
    overlap_hours: int,
    is_stopped: bool,
) -> None:
    generation = ask()
    page.post(f"/accounts/keys/{key.pk}/rotate/", {"overlap_hours": overlap_hours})
    generation.refresh_from_db()
    assert generation.is_cancel_requested is is_stopped
    is_ended = rig.redis.hget(wire.Keys.request(str(generation.pk)), "state") == "ended"
    assert is_ended is is_stopped


def test_a_limit_lowered_among_two_hundred_holds_from_then_on(
    ask: Callable[[], Generation], person: User
) -> None:
    quota = Quota.objects.create(user=person, max_concurrent=150)
    started: list[bool] = []
    are_many = threading.Event()
    together = threading.Barrier(NUM_THREADS)

    def run() -> None:
        together.wait()
        for _ in range(EACH):
            try:
                ask()
                started.append(True)
            except Refusal:
                started.append(False)
            if sum(started) >= MANY:
                are_many.set()

    def lower() -> int:
        """How many were open when it was lowered: nobody is admitted in that moment."""
        are_many.wait()
        with transaction.atomic():
            User.objects.hold(person.pk)
            Quota.objects.filter(pk=quota.pk).update(max_concurrent=5)
            return Generation.objects.open().count()

    with ThreadPoolExecutor(NUM_THREADS + 1) as threads:
        asking = [threads.submit(closing, run) for _ in range(NUM_THREADS)]
        num_open = threads.submit(closing, lower).result()
        for one in asking:
            one.result()
    assert len(started) == NUM_THREADS * EACH
    assert MANY <= num_open < 150
    assert sum(started) == num_open == Generation.objects.open().count()
