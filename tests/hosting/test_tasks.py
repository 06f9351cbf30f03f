"""Celery's scheduled work: retention, roll-up, and that beat knows of both."""

from __future__ import annotations

import datetime
from typing import Any

import pytest
from django.db import connection
from django.utils import timezone

from accounts.models import DailyUsage, HourlyUsage, UsageRecord, User
from hosting.actions import statistics
from hosting.celery import app
from hosting.models import Conversation, Generation, Message
from hosting.tasks import apply_retention, roll_up_usage


def generation(person: User, *, days_ago: float | None, **fields: Any) -> Generation:
    ended = None if days_ago is None else timezone.now() - datetime.timedelta(days=days_ago)
    state = "running" if days_ago is None else "done"
    return Generation.objects.create(
        user=person, kind="api", model_name="demo", tenant="t", priority="api", state=state,
        finished_at=ended, **fields,
    )  # fmt: skip


def test_old_generations_go_and_conversations_stay(person: User, settings: Any) -> None:
    settings.RETENTION_DAYS = 30
    conversation = Conversation.objects.create(owner=person)
    answer = Message.objects.create(conversation=conversation, role="assistant", content="Warm")
    generation(person, days_ago=31, message=answer, conversation=conversation)
    kept = {generation(person, days_ago=29).pk, generation(person, days_ago=None).pk}
    UsageRecord.objects.create(generation_id=next(iter(kept)), model_name="demo", end="stop")
    apply_retention()
    assert set(Generation.objects.values_list("pk", flat=True)) == kept
    assert Message.objects.get().content == "Warm"
    assert UsageRecord.objects.count() == 1


@pytest.mark.skipif(connection.vendor != "sqlite", reason="PostgreSQL keeps its own")
def test_sqlite_learns_of_long_tables_alone(person: User, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(statistics, "_LONG", 3)
    for _ in range(3):
        generation(person, days_ago=None)
    apply_retention()
    with connection.cursor() as cursor:
        cursor.execute("SELECT DISTINCT tbl FROM sqlite_stat1")
        known = {table for (table,) in cursor.fetchall()}
        cursor.execute("DELETE FROM sqlite_stat1")  # other tests' tables are not like this
    assert "hosting_generation" in known
    assert "accounts_user" not in known


def test_every_hour_up_to_now_is_rolled_up_and_its_day(person: User) -> None:
    now = timezone.now()
    for hours_ago in (0, 1, 2):
        row = generation(person, days_ago=0)
        UsageRecord.objects.create(
            generation_id=row.pk, user=person, model_name="demo", end="stop", prompt_tokens=5,
            created_at=now - datetime.timedelta(hours=hours_ago),
        )  # fmt: skip
    roll_up_usage()
    assert [row.prompt_tokens for row in HourlyUsage.objects.all()] == [5, 5, 5]
    assert sum(row.prompt_tokens for row in DailyUsage.objects.all()) == 15


@pytest.mark.parametrize("entry", ["templates", "fetches", "roll up usage", "retention"])
def test_beat_names_tasks_that_exist(entry: str) -> None:
    app.loader.import_default_modules()
    assert app.conf.beat_schedule[entry]["task"] in app.tasks
