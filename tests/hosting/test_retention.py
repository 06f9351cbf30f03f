"""What is old enough is deleted, for everybody and for who wants it sooner; and it is gone."""

from __future__ import annotations

import datetime
import sqlite3
import uuid
from pathlib import Path
from typing import Any

import pytest
from django.conf import settings as django_settings
from django.core.exceptions import ValidationError
from django.db import connection
from django.test import Client
from django.utils import timezone

from accounts.models import AuditRecord, DailyUsage, Policy, RollUpMark, UsageRecord, User
from accounts.retention import delete_old_usage
from accounts.rollups import roll_up_what_is_new
from accounts.session_store import SessionStore
from engine import wire
from engine.transport.connection import connect
from hosting.actions.retention import delete_old_conversations
from hosting.actions.settling import settle_generation
from hosting.models import Conversation, HostedModel, Message
from hosting.tasks import apply_retention
from tests.engine.transport.rig import Rig
from tests.hosting.scripted_engine import ScriptedEngine
from tests.waiting import wait_until

SECRET = "a-secret-to-be-forgotten"


def talk(person: User, *, days_ago: float) -> Conversation:
    at = timezone.now() - datetime.timedelta(days=days_ago)
    conversation = Conversation.objects.create(owner=person, updated_at=at)
    Message.objects.create(conversation=conversation, role="user", content=SECRET * 300)
    return conversation


def line(person: User | None, *, days_ago: float) -> UsageRecord:
    at = timezone.now() - datetime.timedelta(days=days_ago)
    return UsageRecord.objects.create(
        generation_id=uuid.uuid4(), user=person, model_name="demo", end="stop",
        prompt_tokens=5, created_at=at,
    )  # fmt: skip


def sum_up() -> None:
    roll_up_what_is_new()
    RollUpMark.objects.update(settled_id=UsageRecord.objects.latest("id").pk)


def test_sessions_that_have_ended_are_deleted(page: Client) -> None:
    """Who may start to sign in makes one, and who closes the browser leaves it."""
    left = SessionStore()
    left.set_expiry(-1)
    left.create()
    apply_retention()
    assert not left.exists(left.session_key)
    assert page.get("/accounts/keys/").status_code == 200


def test_nothing_goes_while_nobody_wants_it(person: User) -> None:
    talk(person, days_ago=4000)
    line(person, days_ago=4000)
    sum_up()
    apply_retention()
    assert Conversation.objects.exists() and UsageRecord.objects.exists()


def test_old_conversations_go_for_everybody_and_sooner_for_who_wants_it(
    person: User, stranger: User
) -> None:
    Policy.objects.create(pk=1, conversation_days=90)
    User.objects.filter(pk=person.pk).update(conversation_days=30)
    User.objects.filter(pk=stranger.pk).update(conversation_days=400)  # longer is not to be had
    kept = {talk(person, days_ago=29).pk, talk(stranger, days_ago=89).pk}
    talk(person, days_ago=31)
    talk(stranger, days_ago=91)
    assert delete_old_conversations() == 2
    assert set(Conversation.objects.values_list("pk", flat=True)) == kept


def test_old_lines_of_the_ledger_go_and_their_sums_stay(person: User, stranger: User) -> None:
    Policy.objects.create(pk=1, usage_days=90)
    User.objects.filter(pk=person.pk).update(usage_days=10)
    for whose, days in ((person, 11), (stranger, 91), (None, 91)):
        line(whose, days_ago=days)
    kept = {line(person, days_ago=9).pk, line(stranger, days_ago=89).pk}
    sum_up()
    assert delete_old_usage() == 3
    assert set(UsageRecord.objects.values_list("pk", flat=True)) == kept
    roll_up_what_is_new()
    assert sum(row.prompt_tokens for row in DailyUsage.objects.all()) == 25


def test_a_line_that_is_not_summed_yet_stays(person: User) -> None:
    Policy.objects.create(pk=1, usage_days=2)
    line(person, days_ago=3)
    assert delete_old_usage() == 0


def test_more_days_than_a_calendar_has_hold_up_nothing_else(person: User) -> None:
    Policy.objects.create(pk=1, conversation_days=999_999, usage_days=10)
    kept = talk(person, days_ago=4000)
    line(person, days_ago=11)
    sum_up()
    apply_retention()
    assert Conversation.objects.get() == kept
    assert not UsageRecord.objects.exists()


def test_what_cannot_be_deleted_holds_up_nothing_else(person: User, settings: Any) -> None:
    settings.RETENTION_DAYS = 10**9
    Policy.objects.create(pk=1, conversation_days=30)
    talk(person, days_ago=31)
    with pytest.raises(OverflowError):
        apply_retention()
    assert not Conversation.objects.exists()


def test_a_policy_of_more_than_a_century_is_refused() -> None:
    with pytest.raises(ValidationError, match="36500"):
        Policy(pk=1, conversation_days=999_999).clean_fields()


def test_a_deleted_conversation_is_gone_from_streams_and_caches(
    page: Client, person: User, model: HostedModel, engine: ScriptedEngine, redis_url: str
) -> None:
    sent = {"content": SECRET}
    answer = page.post("/chat/messages", sent, content_type="application/json").json()
    request_id = answer["answer"]["generation"]["id"]
    settle_when_over(request_id)
    redis = connect(redis_url)
    assert redis.exists(wire.Keys.events(request_id))
    page.delete(f"/chat/conversations/{answer['conversation']['id']}")
    assert not redis.exists(wire.Keys.events(request_id))
    notices = [fields["m"] for _, fields in redis.xrange(wire.Keys.FORGET)]
    assert any("ForgetTenant" in one and f"user:{person.pk}" in one for one in notices)


def test_what_still_runs_is_forgotten_when_it_ends(
    page: Client, model: HostedModel, rig: Rig, redis_url: str
) -> None:
    sent = {"content": SECRET}
    answer = page.post("/chat/messages", sent, content_type="application/json").json()
    request_id = answer["answer"]["generation"]["id"]
    page.delete(f"/chat/conversations/{answer['conversation']['id']}")
    settle_when_over(request_id)
    assert UsageRecord.objects.get().end == "cancelled"
    assert not connect(redis_url).exists(wire.Keys.events(request_id))


@pytest.mark.skipif(connection.vendor != "sqlite", reason="how PostgreSQL frees pages is its own")
def test_the_database_file_keeps_no_trace(person: User) -> None:
    conversation = talk(person, days_ago=0)
    conversation.delete()
    with connection.cursor() as cursor:
        cursor.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    file = Path(str(django_settings.DATABASES["default"]["NAME"]))
    assert sqlite3.connect(file).execute("SELECT 1 FROM hosting_conversation").fetchone() is None
    assert SECRET.encode() not in file.read_bytes()


def test_a_person_chooses_on_their_own_page(page: Client, person: User) -> None:
    page.post("/accounts/data/keep", {"conversation_days": 30, "usage_days": ""})
    person.refresh_from_db()
    assert (person.conversation_days, person.usage_days) == (30, None)
    assert AuditRecord.objects.get(action="person.retention").after == '{"conversation_days": 30}'
    page.post("/accounts/data/keep", {"conversation_days": "1 or so"})
    person.refresh_from_db()
    assert person.conversation_days == 30


def settle_when_over(request_id: str) -> None:
    wait_until(lambda: settle_generation(request_id))
