"""Fixtures of the web side: real database, real Redis, an engine that says what it is told."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from typing import Any

import pytest
from asgiref.sync import SyncToAsync
from django.conf import settings as django_settings
from django.db import connections
from django.test import AsyncClient, Client

from accounts.keys import create_api_key
from accounts.models import User
from hosting.actions.database_threads import close_kept_connections
from hosting.celery import app as celery_app
from hosting.models import HostedModel
from hosting.settings import celery_url
from tests.engine.transport.rig import Rig
from tests.hosting.scripted_engine import ScriptedEngine


class KeyedClient(AsyncClient):
    """Django's own keeps no header from one call to the next."""

    def __init__(self, api_key: str) -> None:
        super().__init__()
        self._headers = {"authorization": f"Bearer {api_key}"}

    async def request(self, **request: Any) -> Any:
        names = [(name.encode(), value.encode()) for name, value in self._headers.items()]
        return await super().request(**(request | {"headers": [*request["headers"], *names]}))


@pytest.fixture(autouse=True)
def _redis_of_this_test(redis_url: str, settings: Any) -> None:
    """Everything that talks to Redis talks to the test's, and changes are seen at once."""
    settings.SETTINGS_KEPT_SECONDS = 0
    settings.REDIS_URL = redis_url
    layers = copy.deepcopy(django_settings.CHANNEL_LAYERS)
    layers["default"]["CONFIG"]["hosts"] = [{"address": redis_url, "socket_timeout": None}]
    settings.CHANNEL_LAYERS = layers
    celery_app.conf.broker_url = celery_url(redis_url)


@pytest.fixture(autouse=True)
def _no_connection_left_open(settings: Any) -> Iterator[None]:
    """Async tests use the database in threads that outlive them, and Redis in loops that do not."""
    settings.HUB_LINGER_SECONDS = 0
    yield
    SyncToAsync.single_thread_executor.submit(connections.close_all).result()
    close_kept_connections()


@pytest.fixture
def rig(redis_url: str) -> Rig:
    """Intake and engine by hand."""
    return Rig(redis_url)


@pytest.fixture
def engine(redis_url: str) -> Iterator[ScriptedEngine]:
    scripted = ScriptedEngine(redis_url)
    scripted.start()
    yield scripted
    scripted.close()


@pytest.fixture
def person(transactional_db: None) -> User:
    return User.objects.create_user("ada@example.org", name="Ada")


@pytest.fixture
def stranger(transactional_db: None) -> User:
    return User.objects.create_user("eve@example.org", name="Eve")


@pytest.fixture
def model(transactional_db: None) -> HostedModel:
    return HostedModel.objects.create(
        name="demo", path="/models/demo", is_default=True, context_limit_tokens=4096
    )


@pytest.fixture
def api_key(person: User) -> str:
    return create_api_key(user=person, name="script")[1]


@pytest.fixture
def api(api_key: str) -> KeyedClient:
    """Calls /v1 with Ada's key."""
    return KeyedClient(api_key)


@pytest.fixture
def page(person: User) -> Client:
    """Ada's browser."""
    browser = Client()
    browser.force_login(person)
    return browser


@pytest.fixture
def strangers_page(stranger: User) -> Client:
    browser = Client()
    browser.force_login(stranger)
    return browser
