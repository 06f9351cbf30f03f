"""What is deleted from the rows Redis and the engines forget too, however long it takes."""

from __future__ import annotations

import datetime
import importlib
from typing import Any

import pytest
from django.apps import apps
from django.test import Client
from django.utils import timezone

from accounts.models import User
from engine import wire
from hosting.actions.conversations import delete_conversation
from hosting.actions.forgetting import delete_old_forgettings
from hosting.actions.generations import start_generation
from hosting.actions.orders import Order
from hosting.actions.publications import unpublish
from hosting.actions.reconcile import reconcile
from hosting.engine_client import EngineUnavailable
from hosting.models import Conversation, Forgetting, Generation, HostedModel, PublishedPrompt
from tests.engine.transport.rig import Rig

NO_REDIS = "unix:///nonexistent/redis.sock"


def told(rig: Rig) -> list[wire.Notice]:
    return [wire.decode(fields["m"]) for _, fields in rig.redis.xrange(wire.Keys.FORGET)]


@pytest.fixture
def prompt(model: HostedModel) -> PublishedPrompt:
    return PublishedPrompt.objects.create(name="Agent", model=model, system_prompt="Be brief.")


def test_a_deletion_while_redis_is_away_is_told_once_it_is_back(
    rig: Rig, page: Client, person: User, prompt: PublishedPrompt, settings: Any
) -> None:
    tenant, publication, redis_url = f"user:{person.pk}", prompt.publication, settings.REDIS_URL
    settings.REDIS_URL = NO_REDIS
    page.post("/accounts/data/", {"email": person.email})
    unpublish(prompt)
    assert not User.objects.filter(pk=person.pk).exists()
    with pytest.raises(EngineUnavailable):
        reconcile()
    settings.REDIS_URL = redis_url
    for _ in range(2):
        reconcile()
    assert told(rig) == [
        wire.ForgetTenant(tenant=tenant),
        wire.Unpublish(publication=publication),
    ]


def test_what_was_said_in_a_deleted_conversation_goes_when_redis_is_back(
    rig: Rig, person: User, model: HostedModel, settings: Any
) -> None:
    redis_url = settings.REDIS_URL
    conversation = Conversation.objects.create(owner=person)
    order = Order(user=person, kind=Generation.Kind.CHAT, model=model, messages=())
    said = start_generation(order).pk
    Generation.objects.update(conversation=conversation, state=Generation.State.DONE)
    rig.redis.xadd(wire.Keys.events(str(said)), {"e": "a secret"})
    settings.REDIS_URL = NO_REDIS
    delete_conversation(conversation)
    settings.REDIS_URL = redis_url
    reconcile()
    assert not rig.redis.exists(wire.Keys.events(str(said)))
    assert Forgetting.objects.get().request_ids == []


def test_a_redis_that_lost_its_memory_is_told_again(rig: Rig, prompt: PublishedPrompt) -> None:
    unpublish(prompt)
    assert len(told(rig)) == 1
    rig.redis.flushdb()
    reconcile()
    assert len(told(rig)) == 1


def test_what_engines_were_told_another_way_is_told_again_after_an_upgrade(
    rig: Rig, prompt: PublishedPrompt
) -> None:
    publication = prompt.publication
    rig.client.publish_models(())
    unpublish(prompt)
    rig.redis.delete(wire.Keys.FORGET)
    migration = importlib.import_module("hosting.migrations.0019_forget_again")
    migration.forget_again(apps, None)
    reconcile()
    assert told(rig) == [wire.Unpublish(publication=publication)]


def test_what_was_told_long_ago_is_not_kept(rig: Rig, prompt: PublishedPrompt) -> None:
    unpublish(prompt)
    assert delete_old_forgettings() == 0
    Forgetting.objects.update(told_at=timezone.now() - datetime.timedelta(days=8))
    assert delete_old_forgettings() == 1
