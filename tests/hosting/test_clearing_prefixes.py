"""The buttons of the cache page: they ask, order and record, for every model that engines know."""

from __future__ import annotations

from typing import Any

import pytest
from django.contrib.auth.models import Permission
from django.test import Client

from accounts.models import AuditRecord, User
from engine import wire
from hosting.actions.history import record_readings
from hosting.models import HostedModel
from tests.engine.transport.rig import Rig
from tests.makers import make_status

CLEAR = "/admin/cache/clear/"
FORM: dict[str, Any] = {"tier": "disk", "model": ["demo", "gone"]}
CONFIRMED = FORM | {"confirmed": "yes"}


@pytest.fixture
def admin_page(transactional_db: None) -> Client:
    browser = Client()
    browser.force_login(User.objects.create_superuser("root@example.org", name="Root"))
    return browser


def ordered(rig: Rig) -> list[wire.Notice]:
    return [wire.decode(fields["m"]) for _, fields in rig.redis.xrange(wire.Keys.FORGET)]


def test_what_is_kept_of_a_model_that_is_not_registered_is_seen_and_cleared(
    admin_page: Client, rig: Rig, model: HostedModel
) -> None:
    kept = tuple(wire.ModelCacheStatus(model=name, disk_bytes=7) for name in ("demo", "gone"))
    memory = wire.MemoryTierStatus(budget_bytes=1)
    status = make_status(cache=wire.CacheStatus(memory=memory, models=kept))
    rig.redis.sadd(wire.Keys.ENGINES, status.engine)
    rig.redis.set(wire.Keys.engine(status.engine), wire.encode(status))
    record_readings(status.beat_at)
    figures = admin_page.get("/admin/history/cache/").json()["figures"]
    assert [(one["name"], one["disk_bytes"]) for one in figures["models"]] == [
        ("demo", 7),
        ("gone", 7),
    ]
    question = admin_page.post(CLEAR, FORM).content.decode()
    assert "Delete what the disk keeps" in question and "<li>gone</li>" in question
    assert ordered(rig) == []
    assert admin_page.post(CLEAR, CONFIRMED).status_code == 302
    assert ordered(rig) == [
        wire.ClearCache(model=name, tier=wire.CacheTier.DISK) for name in ("demo", "gone")
    ]
    records = AuditRecord.objects.order_by("number")
    assert [(one.action, one.target) for one in records] == [
        ("model.clear_disk", "demo"),
        ("model.clear_disk", "gone"),
    ]


@pytest.mark.parametrize("form", [{"tier": "tape"}, {"model": []}])
def test_a_form_that_says_too_little_clears_nothing(
    admin_page: Client, rig: Rig, form: dict[str, Any]
) -> None:
    page = admin_page.post(CLEAR, CONFIRMED | form, follow=True).content.decode()
    assert "Nothing was cleared" in page and ordered(rig) == []


def test_without_redis_it_says_so_and_records_nothing(admin_page: Client, settings: Any) -> None:
    settings.REDIS_URL = "unix:///nonexistent/redis.sock"
    page = admin_page.post(CLEAR, CONFIRMED, follow=True).content.decode()
    assert "Redis is away" in page and not AuditRecord.objects.exists()


def test_who_may_only_look_clears_nothing(rig: Rig, transactional_db: None) -> None:
    clerk = User.objects.create_user("clerk@example.org", is_staff=True)
    clerk.user_permissions.set(Permission.objects.filter(codename="view_hostedmodel"))
    browser = Client()
    browser.force_login(clerk)
    assert browser.post(CLEAR, CONFIRMED).status_code == 403
    assert ordered(rig) == []
