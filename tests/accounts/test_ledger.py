"""The ledger: each generation once, whatever happens; the hours add up."""

from __future__ import annotations

import datetime
import threading
import uuid
from typing import Any

import pytest
from django.db import connection, transaction

from accounts.keys import create_api_key
from accounts.ledger import Line, record_usage, spend
from accounts.models import HourlyUsage, Spending, UsageRecord, User
from accounts.rollups import roll_up_hours

NOON = datetime.datetime(2026, 11, 21, 12, tzinfo=datetime.UTC)


def make_record(**fields: Any) -> UsageRecord:
    defaults = {
        "generation_id": uuid.uuid4(),
        "model_name": "demo",
        "end": "stop",
        "prompt_tokens": 10,
        "cached_tokens": 4,
        "completion_tokens": 3,
        "created_at": NOON,
    }
    return UsageRecord(**{**defaults, **fields})


def write(*records: UsageRecord) -> bool:
    """Whether one of them, which are somebody's, was not in the ledger."""
    charges = record_usage([Line(record, NOON.date()) for record in records])
    spend(charges)
    return bool(charges)


def test_a_line_takes_its_charge_from_person_and_key_once(person: User) -> None:
    key, _ = create_api_key(user=person, name="laptop")
    line = make_record(user=person, api_key=key, charged_tokens=9)
    write(line)
    write(make_record(generation_id=line.generation_id, user=person, charged_tokens=9))
    write(make_record(user=person, charged_tokens=5))
    spent = dict(Spending.objects.values_list("subject", "tokens"))
    assert spent == {f"user:{person.pk}": 14, f"key:{key.pk}": 9}


def test_a_line_is_written_as_given(person: User) -> None:
    key, _ = create_api_key(user=person, name="laptop")
    assert write(make_record(user=person, api_key=key, ttft_seconds=0.5, client="curl"))
    line = UsageRecord.objects.get()
    assert (line.user, line.api_key, line.client) == (person, key, "curl")
    assert (line.prompt_tokens, line.ttft_seconds, line.created_at) == (10, 0.5, NOON)


def test_the_second_line_of_a_generation_is_ignored_and_the_transaction_goes_on(
    person: User,
) -> None:
    first = make_record(user=person)
    assert write(first)
    with transaction.atomic():
        again = make_record(generation_id=first.generation_id, prompt_tokens=99)
        assert not write(again)
        User.objects.filter(pk=person.pk).update(name="changed after")
    assert UsageRecord.objects.get().prompt_tokens == 10
    person.refresh_from_db()
    assert person.name == "changed after"


def test_of_lines_that_come_together_those_that_are_known_are_left_out(person: User) -> None:
    known, *new = (make_record(user=person, charged_tokens=tokens) for tokens in (5, 7, 9))
    write(known)
    again = make_record(generation_id=known.generation_id, user=person, charged_tokens=50)
    write(new[0], again, new[1])
    assert UsageRecord.objects.count() == 3
    assert Spending.objects.get(subject=f"user:{person.pk}").tokens == 5 + 7 + 9


@pytest.mark.django_db(transaction=True)
def test_of_simultaneous_settlers_one_writes(person: User) -> None:
    generation_id, start, written = uuid.uuid4(), threading.Barrier(4), []

    def settle() -> None:
        start.wait()
        with transaction.atomic():
            written.append(write(make_record(generation_id=generation_id, user=person)))
        connection.close()

    threads = [threading.Thread(target=settle) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(written) == [False, False, False, True]
    assert UsageRecord.objects.count() == 1


def test_an_hour_is_summed_by_person_key_and_model(person: User, stranger: User) -> None:
    key, _ = create_api_key(user=person, name="laptop")
    write(make_record(user=person))
    write(make_record(user=person, end="failed", completion_tokens=0))
    write(make_record(user=person, api_key=key))
    write(make_record(user=person, model_name="other"))
    write(make_record(user=stranger))
    roll_up_hours([NOON])
    assert HourlyUsage.objects.count() == 4
    chat = HourlyUsage.objects.get(user=person, api_key=None, model_name="demo")
    assert (chat.period, chat.requests, chat.errors) == (NOON, 2, 1)
    assert (chat.prompt_tokens, chat.cached_tokens, chat.completion_tokens) == (20, 8, 3)


def test_the_neighbouring_hours_are_left_alone(person: User) -> None:
    for offset in (-1, 0, 3599, 3600):
        moment = NOON + datetime.timedelta(seconds=offset)
        write(make_record(user=person, created_at=moment))
    roll_up_hours([NOON])
    assert HourlyUsage.objects.get().requests == 2


def test_rolling_up_again_gives_the_same_and_takes_in_what_came_late(person: User) -> None:
    write(make_record(user=person))
    roll_up_hours([NOON])
    roll_up_hours([NOON])
    assert HourlyUsage.objects.get().requests == 1
    write(make_record(user=person))
    roll_up_hours([NOON])
    assert HourlyUsage.objects.get().requests == 2


def test_usage_outlives_the_people_who_made_it(person: User, stranger: User) -> None:
    for user in (person, stranger):
        key, _ = create_api_key(user=user, name="laptop")
        write(make_record(user=user, api_key=key))
        write(make_record(user=user))
    roll_up_hours([NOON])
    User.objects.all().delete()
    assert UsageRecord.objects.filter(user=None).count() == 4
    assert HourlyUsage.objects.filter(user=None, api_key=None).count() == 4
