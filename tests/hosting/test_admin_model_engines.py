"""What the list of models says where several engines do not say the same."""

from __future__ import annotations

from pathlib import Path

import pytest
from django.test import Client

from accounts.models import User
from engine import wire
from hosting.models import HostedModel
from tests.hosting.test_admin_live import beat
from tests.tiny_models import tiny_model_path

LIST = "/admin/hosting/hostedmodel/"
MISSING = "config.json cannot be read: there is no such file"


@pytest.fixture
def page(transactional_db: None) -> Client:
    browser = Client()
    browser.force_login(User.objects.create_superuser("root@example.org", name="Root"))
    path: Path = tiny_model_path("tiny-qwen3")
    HostedModel.objects.create(name="demo", path=str(path), state=HostedModel.State.READY)
    return browser


def says(redis_url: str, engine: str, state: str, detail: str = "") -> None:
    beat(redis_url, engine, models=(wire.ModelStatus(name="demo", state=state, detail=detail),))


def test_where_all_say_the_same_no_engine_is_named(page: Client, redis_url: str) -> None:
    says(redis_url, "left", "loaded")
    says(redis_url, "right", "loaded")
    assert "loaded on" not in page.get(LIST).content.decode()


def test_where_one_has_it_loaded_that_is_named(page: Client, redis_url: str) -> None:
    says(redis_url, "left", "loaded")
    beat(redis_url, "right")
    assert "loaded on left" in page.get(LIST).content.decode()


def test_an_engine_that_cannot_load_it_is_named_with_the_reason(
    page: Client, redis_url: str
) -> None:
    says(redis_url, "left", "loaded")
    says(redis_url, "right", "failed", MISSING)
    text = page.get(LIST).content.decode()
    assert "loaded on left" in text
    assert "right: Config.json cannot be read: there is no such file" in text


def test_a_reason_that_is_everybodys_is_told_once(page: Client, redis_url: str) -> None:
    says(redis_url, "left", "failed", MISSING)
    says(redis_url, "right", "failed", MISSING)
    text = page.get(LIST).content.decode()
    assert text.count("Config.json cannot be read") == 1
    assert "left:" not in text
