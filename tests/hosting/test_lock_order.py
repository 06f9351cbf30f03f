"""Two who want the same rows at once: they wait for each other, and nobody gets an error for it.

PostgreSQL locks rows, and ends one of two who hold what the other wants.
"""

from __future__ import annotations

import datetime
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import pytest
from django.contrib.auth.models import Group
from django.db import transaction
from django.utils import timezone

from accounts.keys import create_api_key, revoke_api_key, rotate_api_key
from accounts.models import ApiKey, Policy, Quota, UsageRecord, User
from hosting.actions.conversations import delete_conversation
from hosting.actions.generations import start_generation
from hosting.actions.orders import Order
from hosting.actions.outcome import Answer, Outcome, cancelled_before_start
from hosting.actions.retention import delete_old_conversations
from hosting.actions.settling import close_generation
from hosting.actions.turns import NewTurn, send_message, start_title
from hosting.models import Conversation, Generation, HostedModel
from tests.hosting.test_access_races import HELLO, HOLD_SECONDS, closing


@pytest.fixture
def conversation(person: User) -> Conversation:
    last_month = timezone.now() - datetime.timedelta(days=31)
    return Conversation.objects.create(owner=person, updated_at=last_month)


def at_once(first: Callable[[], object], other: Callable[[], object]) -> None:
    """`other` begins when `first` is done but not committed, and has some time before it is."""
    is_done, is_over = threading.Event(), threading.Event()

    def begin() -> None:
        with transaction.atomic():
            first()
            is_done.set()
            is_over.wait(HOLD_SECONDS)

    def go_on() -> None:
        is_done.wait()
        other()
        is_over.set()

    with ThreadPoolExecutor() as threads:
        both = [threads.submit(closing, call) for call in (begin, go_on)]
    for one in both:
        one.result()


def test_a_conversation_is_deleted_while_its_owner_writes_on(
    person: User, model: HostedModel, conversation: Conversation
) -> None:
    turn = NewTurn(content="And then?", conversation=conversation.pk)
    at_once(lambda: send_message(person, turn), lambda: delete_conversation(conversation))
    assert not Conversation.objects.exists()
    assert Generation.objects.get().is_cancel_requested


def test_a_conversation_is_deleted_while_a_title_is_asked_for(
    person: User, model: HostedModel, conversation: Conversation
) -> None:
    turn = send_message(person, NewTurn(content="Hello", conversation=conversation.pk))
    done = Outcome(state=Generation.State.DONE, end="stop", answer=Answer(content="Hello."))
    close_generation(turn.answer.generation.pk, done)
    at_once(lambda: start_title(conversation.pk), lambda: delete_conversation(conversation))
    assert not Conversation.objects.exists()
    assert Generation.objects.get(kind=Generation.Kind.TITLE).is_cancel_requested


def test_an_old_conversation_that_is_written_on_in_that_moment_stays(
    person: User, model: HostedModel, conversation: Conversation
) -> None:
    Policy.objects.create(pk=1, conversation_days=30)
    turn = NewTurn(content="And then?", conversation=conversation.pk)
    at_once(lambda: send_message(person, turn), delete_old_conversations)
    assert [message.content for message in conversation.messages.all()] == ["And then?", ""]


def test_who_loses_access_is_in_nobodys_way_who_settles(person: User, model: HostedModel) -> None:
    key = create_api_key(user=person, name="script")[0]
    found = [started(person, model, key) for _ in range(2)]
    first, last = sorted(found, key=lambda one: one.pk)
    newest = timezone.now() + datetime.timedelta(seconds=1)
    Generation.objects.filter(pk=last.pk).update(created_at=newest)  # lists begin with it
    begins = threading.Event()

    def settle() -> None:
        for one in (first, last):
            list(Generation.objects.filter(pk=one.pk).select_for_update(no_key=True))
            begins.set()
            threading.Event().wait(HOLD_SECONDS)

    def revoke() -> None:
        begins.wait()
        revoke_api_key(key)

    with ThreadPoolExecutor() as threads:
        settling = threads.submit(closing, transaction.atomic(settle))
        threads.submit(closing, revoke).result()
        settling.result()
    assert Generation.objects.filter(is_cancel_requested=True).count() == 2


def test_a_busy_key_is_replaced_while_its_answers_are_settled(
    person: User, model: HostedModel
) -> None:
    """Their lines in the ledger refer to it."""
    key = create_api_key(user=person, name="script")[0]
    generation = started(person, model, key)
    no_time = datetime.timedelta()
    at_once(
        lambda: close_generation(generation.pk, cancelled_before_start()),
        lambda: rotate_api_key(key, overlap=no_time, by=person),
    )
    assert UsageRecord.objects.get().api_key == key


def test_a_group_is_deleted_while_what_it_pays_is_settled(person: User, model: HostedModel) -> None:
    """Who meets its limit settles first, and then asks for more of what it shares."""
    group = Group.objects.create(name="research")
    group.user_set.add(person)
    Quota.objects.create(group=group, shared_tokens_per_day=10_000)
    generation = started(person, model)
    begins = threading.Event()

    def settle_and_ask() -> None:
        close_generation(generation.pk, cancelled_before_start())
        begins.set()
        threading.Event().wait(HOLD_SECONDS)
        started(person, model)

    def delete() -> None:
        begins.wait()
        Group.objects.get(pk=group.pk).delete()

    with ThreadPoolExecutor() as threads:
        settling = threads.submit(closing, transaction.atomic(settle_and_ask))
        threads.submit(closing, delete).result()
        settling.result()
    assert set(Generation.objects.values_list("paying_group", flat=True)) == {None}


def started(person: User, model: HostedModel, key: ApiKey | None = None) -> Generation:
    kind = Generation.Kind.API
    order = Order(user=person, kind=kind, model=model, messages=HELLO, api_key=key)
    return start_generation(order)
