"""The instruments' socket: who gets what, how much of it, and when it closes."""

from __future__ import annotations

from typing import Any

import pytest
from asgiref.sync import sync_to_async
from channels.testing import WebsocketCommunicator
from django.conf import settings as django_settings
from django.contrib.auth.models import Permission
from django.test import Client

from accounts.models import User
from engine import wire
from engine.transport.connection import connect
from hosting import socket_watch
from hosting.admin import socket
from hosting.asgi import application
from tests.hosting.failing_database import lost_database
from tests.makers import make_status
from tests.waiting import wait_until


def socket_of(browser: Client | None, *, origin: bytes = b"http://localhost") -> Any:
    headers = [(b"host", b"localhost"), (b"origin", origin)]
    if browser is not None:
        name = django_settings.SESSION_COOKIE_NAME
        headers.append((b"cookie", f"{name}={browser.cookies[name].value}".encode()))
    return WebsocketCommunicator(application, "/ws/admin", headers=headers)


async def connected(browser: Client, instrument: str = "live", **wishes: str) -> Any:
    pipe = socket_of(browser)
    assert (await pipe.connect())[0]
    await pipe.send_json_to({"type": "watch", "instrument": instrument, **wishes})
    return pipe


@pytest.fixture(autouse=True)
def _fast(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(socket, "PUSH_SECONDS", 0.02)
    monkeypatch.setattr(socket_watch, "CHECK_SECONDS", 0.05)


@pytest.fixture
def keeper(transactional_db: None) -> User:
    """May see requests, and no models."""
    keeper = User.objects.create_user("keeper@example.org", is_staff=True)
    keeper.user_permissions.set(Permission.objects.filter(codename="view_generation"))
    return keeper


@pytest.fixture
def keepers_page(keeper: User) -> Client:
    browser = Client()
    browser.force_login(keeper)
    return browser


async def close_code(pipe: Any) -> int:
    """Of the close that follows whatever is still on its way."""
    while (message := await pipe.receive_output(timeout=5))["type"] != "websocket.close":
        continue
    return int(message["code"])


async def test_the_first_push_has_the_picture_and_the_history(keepers_page: Client) -> None:
    pipe = await connected(keepers_page, window="6h")
    push = await pipe.receive_json_from(timeout=5)
    assert push["type"] == "push"
    assert push["live"]["requests"] == []
    assert push["history"]["window"] == "6h"
    await pipe.disconnect()


async def test_the_next_push_waits_until_the_last_is_drawn(keepers_page: Client) -> None:
    pipe = await connected(keepers_page)
    await pipe.receive_json_from(timeout=5)
    assert await pipe.receive_nothing(timeout=0.2)
    await pipe.send_json_to({"type": "drawn"})
    push = await pipe.receive_json_from(timeout=5)
    assert "live" in push
    assert "history" not in push  # it has not grown
    await pipe.disconnect()


async def test_a_page_of_plots_hears_at_once_that_an_engine_is_away_or_back(
    keepers_page: Client, redis_url: str
) -> None:
    pipe = await connected(keepers_page, "memory")
    told = [(await pipe.receive_json_from(timeout=5))["history"]["notice"]]
    for is_there in (True, False):
        with connect(redis_url) as redis:
            redis.sadd(wire.Keys.ENGINES, "engine-1")
            beat = wire.encode(make_status("engine-1"))
            redis.set(wire.Keys.engine("engine-1"), beat) if is_there else redis.flushall()
        push: dict[str, Any] = {}
        while "history" not in push:
            await pipe.send_json_to({"type": "drawn"})
            push = await pipe.receive_json_from(timeout=5)
        told.append(push["history"]["notice"])
    assert ["No engine reports" in one for one in told] == [True, False, True]
    await pipe.disconnect()


async def test_silence_is_a_lost_connection(keepers_page: Client) -> None:
    pipe = await connected(keepers_page, "memory")
    await pipe.receive_json_from(timeout=5)
    await pipe.send_json_to({"type": "drawn"})
    assert await pipe.receive_json_from(timeout=5) == {"type": "push"}
    await pipe.disconnect()


async def test_another_wish_is_answered_at_once(keepers_page: Client) -> None:
    pipe = await connected(keepers_page, window="5m")
    await pipe.receive_json_from(timeout=5)
    wish = {"type": "watch", "instrument": "memory", "window": "30d"}
    await pipe.send_json_to(wish)
    push = await pipe.receive_json_from(timeout=5)
    assert (push["history"]["window"], "live" in push) == ("30d", False)
    await pipe.disconnect()


async def test_what_may_not_be_seen_closes_the_socket(keepers_page: Client) -> None:
    assert await close_code(await connected(keepers_page, "cache")) == socket.NOT_ALLOWED


async def test_members_and_strangers_get_nothing(page: Client) -> None:
    for browser, code in ((page, socket.NOT_ALLOWED), (None, socket_watch.SIGNED_OUT)):
        pipe = socket_of(browser)
        await pipe.connect()
        assert await close_code(pipe) == code


async def test_another_site_may_not_connect(keepers_page: Client) -> None:
    pipe = socket_of(keepers_page, origin=b"http://evil.example")
    assert not (await pipe.connect())[0]


async def test_a_lost_role_closes_the_socket(keepers_page: Client, keeper: User) -> None:
    pipe = await connected(keepers_page)
    await pipe.receive_json_from(timeout=5)
    await sync_to_async(User.objects.filter(pk=keeper.pk).update)(is_staff=False)
    assert await close_code(pipe) == socket.NOT_ALLOWED


async def test_signing_out_closes_the_socket(keepers_page: Client) -> None:
    pipe = await connected(keepers_page)
    await pipe.receive_json_from(timeout=5)
    await sync_to_async(keepers_page.logout)()
    assert await close_code(pipe) == socket_watch.SIGNED_OUT


async def test_a_role_lost_while_the_database_is_away_closes_the_socket_afterwards(
    keepers_page: Client, keeper: User
) -> None:
    pipe = await connected(keepers_page)
    await pipe.receive_json_from(timeout=5)
    with lost_database() as failed:
        await sync_to_async(wait_until)(lambda: len(failed) > 1)
    await sync_to_async(User.objects.filter(pk=keeper.pk).update)(is_staff=False)
    assert await close_code(pipe) == socket.NOT_ALLOWED


@pytest.mark.parametrize("text", ["nonsense", "[]", '{"type": "watch"}', "[" * 5000])
async def test_what_is_not_understood_is_answered_so(keepers_page: Client, text: str) -> None:
    pipe = socket_of(keepers_page)
    await pipe.connect()
    await pipe.send_to(text_data=text)
    assert (await pipe.receive_json_from(timeout=5))["type"] == "error"
    await pipe.disconnect()


@pytest.mark.parametrize("frame", [{"text": ""}, {"bytes": b"\x00\xff"}])
async def test_a_frame_without_text_is_answered_so_too(
    keepers_page: Client, frame: dict[str, Any]
) -> None:
    pipe = socket_of(keepers_page)
    await pipe.connect()
    await pipe.send_input({"type": "websocket.receive", **frame})
    assert (await pipe.receive_json_from(timeout=5))["type"] == "error"
    await pipe.disconnect()


async def test_odd_wishes_get_the_default(keepers_page: Client) -> None:
    pipe = socket_of(keepers_page)
    await pipe.connect()
    odd = {"type": "watch", "instrument": "live", "window": ["1h"], "engine": {"a": 1}, "model": 5}
    await pipe.send_json_to(odd)
    assert (await pipe.receive_json_from(timeout=5))["history"]["window"] == "1h"
    await pipe.disconnect()
