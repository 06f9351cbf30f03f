"""Whose address counts behind a proxy, and which bodies are not read to their end."""

from __future__ import annotations

import contextlib
import socket
from typing import Any
from urllib.parse import urlsplit

import pytest

from hosting.behind_proxy import AddressBehindProxy, last_forwarded
from hosting.daphne_server import MAX_BODY_BYTES
from tests.hosting.web_process import web

__all__ = ["web"]

ONE_MEBIBYTE = b" " * 2**20


@pytest.mark.parametrize(
    ("sent", "address"),
    [
        ([b"192.0.2.7"], "192.0.2.7"),
        ([b"10.0.0.1, 192.0.2.7"], "192.0.2.7"),
        ([b"192.0.2.1", b"192.0.2.7"], "192.0.2.7"),
        ([b"2001:db8::7"], "2001:db8::7"),
        ([b"[2001:db8::7]"], "2001:db8::7"),
        ([b"192.0.2.7, unknown"], None),
        ([b""], None),
        ([], None),
    ],
)
def test_the_last_address_is_the_proxys_own_word(sent: list[bytes], address: str | None) -> None:
    assert last_forwarded([(b"x-forwarded-for", value) for value in sent]) == address


@pytest.mark.parametrize(("is_https", "expected"), [(True, "192.0.2.7"), (False, "127.0.0.1")])
async def test_forwarded_addresses_count_behind_a_proxy_only(
    settings: Any, is_https: bool, expected: str
) -> None:
    settings.IS_HTTPS = is_https
    seen = []

    async def application(scope: Any, receive: Any, send: Any) -> None:
        seen.append(scope["client"][0])

    headers = [(b"x-forwarded-for", b"203.0.113.9, 192.0.2.7")]
    scope = {"type": "http", "headers": headers, "client": ["127.0.0.1", 5]}
    await AddressBehindProxy(application)(scope, None, None)
    assert seen == [expected]


@pytest.mark.django_db(transaction=True)
def test_a_body_announced_as_huge_is_refused_at_once(web: str) -> None:
    with _begun_request(web, f"Content-Length: {2**40}") as connection:
        assert connection.recv(100).startswith(b"HTTP/1.1 413 ")


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize(
    "header",
    [
        f"X-Long: {'x' * 100_000}",
        "\r\n".join(f"X-{number}: {'x' * 6_000}" for number in range(3)),
        "\r\n".join(f"X-{number}: x" for number in range(501)),
    ],
    ids=["a long line", "long together", "many"],
)
def test_a_header_that_is_too_long_is_refused_by_its_status(web: str, header: str) -> None:
    with _begun_request(web, header) as connection:
        assert connection.recv(100).startswith(b"HTTP/1.1 431 ")


@pytest.mark.django_db(transaction=True)
def test_a_header_that_is_none_is_a_bad_request(web: str) -> None:
    with _begun_request(web, "no colon") as connection:
        assert connection.recv(100).startswith(b"HTTP/1.1 400 ")


@pytest.mark.django_db(transaction=True)
def test_a_huge_body_of_unknown_length_is_cut_off(web: str) -> None:
    piece = b"%x\r\n%b\r\n" % (len(ONE_MEBIBYTE), ONE_MEBIBYTE)
    num_sent = 0
    connection = _begun_request(web, "Transfer-Encoding: chunked")
    with connection, contextlib.suppress(ConnectionError):
        while num_sent < 3 * MAX_BODY_BYTES:
            connection.sendall(piece)
            num_sent += len(ONE_MEBIBYTE)
    assert MAX_BODY_BYTES <= num_sent < 3 * MAX_BODY_BYTES


def _begun_request(web: str, header: str) -> socket.socket:
    """A connection on which the head of a request was sent."""
    address = urlsplit(web)
    connection = socket.create_connection((address.hostname, address.port), timeout=30)
    head = f"POST /v1/chat/completions HTTP/1.1\r\nHost: 127.0.0.1\r\n{header}\r\n\r\n"
    connection.sendall(head.encode())
    return connection
