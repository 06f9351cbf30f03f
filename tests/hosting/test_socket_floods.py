"""Who sends more to a websocket than any page would is hung up on, and nobody waits for it."""

from __future__ import annotations

import base64
import contextlib
import json
import os
import socket
import struct
import time
from urllib.parse import urlsplit

import httpx
import pytest
from django.conf import settings as django_settings
from django.test import Client

from accounts.models import User
from hosting.actions.generations import start_generation
from hosting.actions.orders import Order
from hosting.models import Generation, HostedModel
from hosting.socket_limits import MAX_FRAMES, MAX_MESSAGE_BYTES
from hosting.sockets_of_person import MAX_OF_PERSON, TOO_MANY
from tests.hosting.hostile_requests import HELLO
from tests.hosting.scripted_engine import ScriptedEngine, delta, finished
from tests.hosting.web_process import wait_until, web

__all__ = ["web"]
pytestmark = pytest.mark.django_db(transaction=True)

TEXT, CONTINUATION, PING, CLOSE = 0x81, 0x00, 0x89, 0x88
PROMPT_SECONDS = 3.0  # it was 8 to 16


def frame(first_byte: int, payload: bytes = b"") -> bytes:
    """Masked with zeros, so as it is."""
    length = len(payload)
    said = bytes([0x80 | length]) if length < 126 else b"\xfe" + struct.pack(">H", length)
    return bytes([first_byte]) + said + bytes(4) + payload


def head(web: str, browser: Client | None = None) -> bytes:
    host = urlsplit(web).netloc
    name = django_settings.SESSION_COOKIE_NAME
    cookie = f"Cookie: {name}={browser.cookies[name].value}\r\n" if browser else ""
    return (
        f"GET /ws/chat HTTP/1.1\r\nHost: {host}\r\nOrigin: http://{host}\r\n{cookie}"
        "Upgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Version: 13\r\n"
        f"Sec-WebSocket-Key: {base64.b64encode(os.urandom(16)).decode()}\r\n\r\n"
    ).encode()


def connected(web: str) -> socket.socket:
    address = urlsplit(web)
    return socket.create_connection((address.hostname, address.port), timeout=30)


def opened(web: str, page: Client) -> socket.socket:
    connection = connected(web)
    connection.sendall(head(web, page))
    answer = b""
    while not answer.endswith(b"\r\n\r\n"):  # no byte of what comes behind it
        answer += connection.recv(1)
    assert answer.startswith(b"HTTP/1.1 101 ")
    return connection


def is_hung_up(connection: socket.socket, data: bytes) -> bool:
    """Whether sending `data` ends the connection, rather than with an answer to all of it."""
    try:
        connection.sendall(data)
        while received := connection.recv(65536):
            if received.endswith(b"\x8a\x03end"):
                return False
    except ConnectionError:
        pass
    return True


def seconds_to_health(web: str) -> float:
    began = time.monotonic()
    answer = httpx.get(web.removesuffix("/v1") + "/healthz", timeout=60)
    assert answer.status_code == 200
    return time.monotonic() - began


def test_a_strangers_flood_right_behind_the_upgrade_holds_nobody_up(web: str) -> None:
    with connected(web) as stranger:
        stranger.sendall(head(web))
        assert is_hung_up(stranger, frame(TEXT, b"1") * 300_000)
        assert seconds_to_health(web) < PROMPT_SECONDS


def test_an_upgrade_with_a_large_body_is_hung_up_on(web: str) -> None:
    body = frame(TEXT, b"1") * 100_000
    upgrade = head(web).replace(b"\r\n\r\n", b"\r\nContent-Length: %d\r\n\r\n" % len(body))
    with connected(web) as stranger:
        assert is_hung_up(stranger, upgrade + body)
        assert seconds_to_health(web) < PROMPT_SECONDS


@pytest.mark.parametrize("what", [frame(TEXT, b"1"), frame(PING), frame(CONTINUATION)])
def test_a_members_flood_holds_nobody_up(web: str, page: Client, what: bytes) -> None:
    begun = frame(0x01, b"1") if what == frame(CONTINUATION) else b""
    with opened(web, page) as member:
        assert is_hung_up(member, begun + what * 300_000)
        assert seconds_to_health(web) < PROMPT_SECONDS


LONG, HALF = b"1" * (MAX_MESSAGE_BYTES + 1), b"1" * (MAX_MESSAGE_BYTES // 2 + 1)


@pytest.mark.parametrize(
    "said", [frame(TEXT, LONG), frame(0x01, HALF) + frame(CONTINUATION, HALF)], ids=["one", "two"]
)
def test_a_message_longer_than_any_of_a_page_is_hung_up_on(
    web: str, page: Client, said: bytes
) -> None:
    with opened(web, page) as member:
        assert is_hung_up(member, said + frame(PING, b"end"))


def test_what_we_say_may_be_longer(
    web: str, page: Client, person: User, model: HostedModel, engine: ScriptedEngine
) -> None:
    """A long piece of an answer, or an instrument's history."""
    words = "x" * 10 * MAX_MESSAGE_BYTES
    engine.script = (delta(words), finished())
    order = Order(user=person, kind=Generation.Kind.CHAT, model=model, messages=HELLO)
    follow = json.dumps({"type": "follow", "generation": str(start_generation(order).pk)}).encode()
    received = b""
    with opened(web, page) as member:
        member.sendall(frame(TEXT, follow))
        while words.encode() not in received:
            more = member.recv(65536)
            assert more, "it is hung up"
            received += more


def test_as_much_as_a_page_may_say_is_answered(web: str, page: Client) -> None:
    with opened(web, page) as member:
        said = frame(TEXT, b'{"type": "unfollow", "generation": "x"}') * (MAX_FRAMES - 2)
        assert not is_hung_up(member, said + frame(PING, b"end"))


def test_who_follows_again_and_again_and_reads_nothing_is_hung_up_on(
    web: str, page: Client, person: User, model: HostedModel, engine: ScriptedEngine
) -> None:
    """Each time there was fresh credit, for some bytes the whole answer in memory."""
    engine.script = (*(delta("x" * 1000) for _ in range(400)), finished())
    order = Order(user=person, kind=Generation.Kind.CHAT, model=model, messages=HELLO)
    follow = json.dumps({"type": "follow", "generation": str(start_generation(order).pk)}).encode()
    with opened(web, page) as member:

        def is_hung_up() -> bool:
            try:
                member.sendall(frame(TEXT, follow))
            except ConnectionError:
                return True
            return False

        wait_until(is_hung_up, "hung up on")


def test_one_person_has_so_many_sockets_open_and_no_more(
    web: str, page: Client, strangers_page: Client
) -> None:
    with contextlib.ExitStack() as tabs:
        several = [tabs.enter_context(opened(web, page)) for _ in range(MAX_OF_PERSON)]
        too_many = struct.pack(">H", TOO_MANY)
        with opened(web, page) as further:
            assert further.recv(4096) == b"\x88\x02" + too_many
        with opened(web, strangers_page) as somebody_elses:
            assert not is_hung_up(somebody_elses, frame(PING, b"end"))
        several[0].close()
        wait_until(lambda: has_room(web, page), "counted as closed")


def has_room(web: str, page: Client) -> bool:
    with opened(web, page) as tab:
        return not is_hung_up(tab, frame(PING, b"end"))
