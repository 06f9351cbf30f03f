"""The websocket: what it sends, to whom, how much of it, and when it closes."""

from __future__ import annotations

import copy
import json
from typing import Any

import pytest
import redis
from asgiref.sync import sync_to_async
from channels.layers import get_channel_layer
from channels.testing import WebsocketCommunicator
from django.conf import settings as django_settings
from django.test import Client

from accounts.models import User
from engine import wire
from hosting import socket_watch, sockets
from hosting.actions.generations import start_generation
from hosting.actions.hints import hint
from hosting.actions.orders import Order
from hosting.asgi import application
from hosting.models import Conversation, Generation, HostedModel
from tests.hosting.failing_database import lost_database
from tests.hosting.scripted_engine import ScriptedEngine, delta, finished
from tests.waiting import wait_until

PROMPT = ({"role": "user", "content": "Hi"},)
HOME = b"http://localhost"


def socket_of(browser: Client | None, *, origin: bytes = HOME) -> WebsocketCommunicator:
    headers = [(b"host", b"localhost"), (b"origin", origin)]
    if browser is not None:
        name = django_settings.SESSION_COOKIE_NAME
        headers.append((b"cookie", f"{name}={browser.cookies[name].value}".encode()))
    return WebsocketCommunicator(application, "/ws/chat", headers=headers)


async def connected(browser: Client) -> WebsocketCommunicator:
    socket = socket_of(browser)
    is_connected, _ = await socket.connect()
    assert is_connected
    return socket


async def events_of(socket: WebsocketCommunicator) -> list[dict[str, Any]]:
    """Up to the terminal one."""
    messages = []
    while not messages or messages[-1]["event"]["type"] != "Finished":
        messages.append(await socket.receive_json_from(timeout=5))
    return messages


@pytest.fixture
def generation(engine: ScriptedEngine, person: User, model: HostedModel) -> Generation:
    order = Order(user=person, kind=Generation.Kind.CHAT, model=model, messages=PROMPT)
    return start_generation(order)


async def test_a_follower_gets_every_event_from_the_start(
    page: Client, generation: Generation
) -> None:
    socket = await connected(page)
    await socket.send_json_to({"type": "follow", "generation": str(generation.pk), "after": -1})
    messages = await events_of(socket)
    assert [message["seq"] for message in messages] == list(range(len(messages)))
    assert [message["event"]["type"] for message in messages] == [
        "Accepted", "Started", "Delta", "Delta", "Finished",
    ]  # fmt: skip
    assert messages[2]["event"]["text"] == "Hello"
    await socket.disconnect()


async def test_a_follower_who_comes_back_gets_the_rest(
    page: Client, generation: Generation
) -> None:
    # Nobody has seen event 2 before it is there: to come back one must have been here.
    for after, expected in ((-1, [0, 1, 2, 3, 4]), (2, [3, 4])):
        socket = await connected(page)
        follow = {"type": "follow", "generation": str(generation.pk), "after": after}
        await socket.send_json_to(follow)
        assert [message["seq"] for message in await events_of(socket)] == expected
        await socket.disconnect()


async def test_two_pages_get_everything_each(page: Client, generation: Generation) -> None:
    tabs = [await connected(page), await connected(page)]
    for tab in tabs:
        await tab.send_json_to({"type": "follow", "generation": str(generation.pk)})
    assert [len(await events_of(tab)) for tab in tabs] == [5, 5]
    for tab in tabs:
        await tab.disconnect()


async def test_another_persons_generation_cannot_be_followed(
    strangers_page: Client, generation: Generation
) -> None:
    socket = await connected(strangers_page)
    for name in (str(generation.pk), "../x"):
        await socket.send_json_to({"type": "follow", "generation": name})
        assert (await socket.receive_json_from())["type"] == "error"
    assert await socket.receive_nothing()
    await socket.disconnect()


async def test_what_is_not_acknowledged_waits_in_redis(
    page: Client, engine: ScriptedEngine, person: User, model: HostedModel
) -> None:
    engine.script = (*(delta(str(number)) for number in range(600)), finished())
    order = Order(user=person, kind=Generation.Kind.CHAT, model=model, messages=PROMPT)
    generation = str((await sync_to_async(start_generation)(order)).pk)
    socket = await connected(page)
    await socket.send_json_to({"type": "follow", "generation": generation})
    for seq in range(sockets.MAX_UNACKNOWLEDGED):
        assert (await socket.receive_json_from(timeout=5))["seq"] == seq
    assert await socket.receive_nothing()
    await socket.send_json_to({"type": "ack", "generation": generation, "seq": 511})
    assert (await events_of(socket))[-1]["seq"] == 601
    await socket.disconnect()


async def test_a_stream_that_is_gone_is_said_to_be_lost(
    page: Client, person: User, model: HostedModel
) -> None:
    row = await Generation.objects.acreate(
        user=person, kind="chat", model_name="demo", tenant="t", priority="interactive",
        state="done",
    )  # fmt: skip
    socket = await connected(page)
    await socket.send_json_to({"type": "follow", "generation": str(row.pk)})
    message = await socket.receive_json_from(timeout=15)
    assert message == {"type": "lost", "generation": str(row.pk)}
    await socket.disconnect()


async def test_hints_reach_ones_own_pages_only(
    page: Client, strangers_page: Client, person: User
) -> None:
    mine, theirs = await connected(page), await connected(strangers_page)
    conversation = await Conversation.objects.acreate(owner=person)
    await sync_to_async(hint)(person_id=person.pk, conversation_id=conversation.pk)
    message = await mine.receive_json_from(timeout=5)
    assert message == {"type": "hint", "conversation": str(conversation.pk)}
    assert await theirs.receive_nothing()
    await mine.disconnect()
    await theirs.disconnect()


@pytest.mark.parametrize("message", ["{", '"follow"', '{"type": "dance"}', "[" * 20_000])
async def test_nonsense_is_answered_and_survived(page: Client, message: str) -> None:
    socket = await connected(page)
    await socket.send_to(text_data=message)
    assert json.loads(await socket.receive_from())["type"] == "error"
    await socket.disconnect()


@pytest.mark.parametrize("frame", [{"text": ""}, {"bytes": b"\x00\xff"}])
async def test_a_frame_without_text_is_answered_like_other_nonsense(
    page: Client, frame: dict[str, Any]
) -> None:
    socket = await connected(page)
    for _ in range(2):
        await socket.send_input({"type": "websocket.receive", **frame})
        assert json.loads(await socket.receive_from())["type"] == "error"
    await socket.disconnect()


async def test_a_place_that_no_stream_has_is_named_and_nothing_is_followed(
    page: Client, generation: Generation
) -> None:
    socket = await connected(page)
    follow = {"type": "follow", "generation": str(generation.pk)}
    for after in (-2, -(10**30), 10**30, 1.5, True, "x", None):
        await socket.send_json_to({**follow, "after": after})
        answer = await socket.receive_json_from(timeout=5)
        assert (answer["type"], answer["message"].split()[0]) == ("error", "after"), after
    await socket.send_json_to(follow)
    assert [message["seq"] for message in await events_of(socket)] == list(range(5))
    await socket.disconnect()


async def test_another_sites_page_is_refused(page: Client) -> None:
    is_connected, _ = await socket_of(page, origin=b"https://evil.example").connect()
    assert not is_connected


async def test_nobody_in_particular_is_told_to_sign_in(transactional_db: None) -> None:
    socket = socket_of(None)
    await socket.connect()
    assert await socket.receive_output() == {
        "type": "websocket.close",
        "code": socket_watch.SIGNED_OUT,
    }


@pytest.mark.parametrize("how", ["sign out", "deactivate"])
async def test_it_closes_when_the_person_may_not_stay(
    page: Client, person: User, how: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(socket_watch, "CHECK_SECONDS", 0.05)
    socket = await connected(page)
    if how == "sign out":
        await sync_to_async(page.logout)()
    else:
        await User.objects.filter(pk=person.pk).aupdate(is_active=False)
    closed = await socket.receive_output(timeout=5)
    assert (closed["type"], closed["code"]) == ("websocket.close", socket_watch.SIGNED_OUT)


async def test_a_sign_out_while_the_database_is_away_closes_it_afterwards(
    page: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(socket_watch, "CHECK_SECONDS", 0.01)
    socket = await connected(page)
    with lost_database() as failed:
        await sync_to_async(wait_until)(lambda: len(failed) > 1)
    await sync_to_async(page.logout)()
    closed = await socket.receive_output(timeout=5)
    assert (closed["type"], closed["code"]) == ("websocket.close", socket_watch.SIGNED_OUT)


def test_every_event_can_be_sent() -> None:
    call = wire.ToolCallPart(index=0, call_id="c", name="f")
    event = delta("{}", wire.Channel.TOOL_CALL, tool_call=call)
    message = sockets.event_message("g", 3, event)
    assert json.loads(json.dumps(message)) == {
        "type": "event",
        "generation": "g",
        "seq": 3,
        "event": {
            "type": "Delta", "channel": "tool_call", "text": "{}", "token_ids": [1],
            "tool_call": {"index": 0, "call_id": "c", "name": "f"},
        },
    }  # fmt: skip


def test_how_a_prompt_fared_among_other_peoples_is_not_sent() -> None:
    told = wire.replace(finished(), prefix=wire.PrefixUse(nearest_tokens=900))
    assert "prefix" not in sockets.event_message("g", 4, told)["event"]


async def test_what_comes_while_it_closes_leaves_no_channel_behind(
    page: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    layer, closing = get_channel_layer(), sockets.ChatSocket.disconnect

    async def disconnect(socket: sockets.ChatSocket, code: int) -> None:
        queue = layer.channels[socket.channel_name]
        for _ in range(2):  # the first of them is waited for
            await layer.send(socket.channel_name, {"type": "conversation.hint"})
        await sync_to_async(wait_until)(lambda: queue.qsize() == 1)
        await closing(socket, code)

    monkeypatch.setattr(sockets.ChatSocket, "disconnect", disconnect)
    await (await connected(page)).disconnect()
    assert not layer.channels


async def test_where_redis_is_away_it_is_that_what_is_told(page: Client, settings: Any) -> None:
    layers = copy.deepcopy(settings.CHANNEL_LAYERS)
    layers["default"]["CONFIG"]["hosts"] = ["unix:///nowhere/redis.sock"]
    settings.CHANNEL_LAYERS = layers
    with pytest.raises(redis.ConnectionError):
        await connected(page)
