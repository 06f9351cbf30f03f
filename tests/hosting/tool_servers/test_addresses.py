"""Where a tool server may be: what is not allowed gets no byte, however its address is spelled."""

from __future__ import annotations

import contextlib
import socket
import ssl
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from hosting.mcp import addresses
from hosting.mcp.addresses import ForbiddenAddress, check_url, find_place
from hosting.mcp.client import Session
from hosting.mcp.errors import ToolServerError
from hosting.mcp.http import Exchange

PRIVATE = [
    *("127.0.0.1", "127.8.8.8", "10.0.0.1", "172.16.0.1", "192.168.1.1", "100.64.0.1"),
    *("[::1]", "[fd00::1]", "[::ffff:127.0.0.1]", "[::ffff:10.0.0.1]"),
    *("2130706433", "0x7f000001", "0177.0.0.1", "127.1", "localhost"),
    *("[fec0::1]", "192.0.0.170", "192.88.99.1"),
]
NEVER = [
    *("0.0.0.0", "169.254.169.254", "[fe80::1]", "[::]", "224.0.0.1", "[ff02::1]"),
    *("255.255.255.255", "240.0.0.1", "[::ffff:169.254.169.254]", "[64:ff9b::a9fe:a9fe]"),
    *("[fd00:ec2::254]", "[fd20:ce::254]", "100.100.100.200", "168.63.129.16", "192.0.0.192"),
    *("[2002:7f00:1::]", "[64:ff9b::7f00:1]", "[::127.0.0.1]", "2852039166"),
]
BAD = [
    *("", "ftp://example.org", "file:///etc/passwd", "https://", "https:///x", "gopher://x"),
    *("https://user@example.org/", "https://user:pass@127.0.0.1/", "https://example.org/#x"),
    *("https://exa mple.org", "https://example.org\\@127.0.0.1", "https://example.org:99999"),
    *("https://example.org/\r\nHost: x", "https://ex\x00ample.org", "https://[::1", "//x"),
    *("http://example.org/mcp", "https://exämple.org", "javascript:alert(1)"),
]


@pytest.mark.parametrize("host", [*PRIVATE, *NEVER])
def test_no_private_address_without_leave(host: str) -> None:
    with pytest.raises(ForbiddenAddress):
        find_place(f"https://{host}/mcp", may_be_private=False)


@pytest.mark.parametrize("host", NEVER)
def test_some_addresses_are_never_asked(host: str) -> None:
    with pytest.raises(ToolServerError):
        find_place(f"http://{host}/mcp", may_be_private=True)


@pytest.mark.parametrize("host", PRIVATE)
def test_private_addresses_with_leave(host: str) -> None:
    place = find_place(f"http://{host}:8080/mcp?x=1", may_be_private=True)
    assert (place.scheme, place.port, place.path) == ("http", 8080, "/mcp?x=1")


def test_public_addresses_need_no_leave() -> None:
    for host in ("1.1.1.1", "[2606:4700:4700::1111]"):
        assert find_place(f"https://{host}/", may_be_private=False).port == 443


@pytest.mark.parametrize("url", BAD)
def test_what_is_no_address_is_refused(url: str) -> None:
    with pytest.raises(ForbiddenAddress):
        check_url(url, may_be_private=False)


def test_one_forbidden_address_of_a_name_is_enough(monkeypatch: pytest.MonkeyPatch) -> None:
    found = [(0, 0, 0, "", (address, 443)) for address in ("1.1.1.1", "127.0.0.1")]
    monkeypatch.setattr(socket, "getaddrinfo", lambda *_, **__: found)
    with pytest.raises(ForbiddenAddress):
        find_place("https://rebinding.example/", may_be_private=False)


def test_a_look_up_that_takes_too_long_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    is_over = threading.Event()
    monkeypatch.setattr(socket, "getaddrinfo", lambda *_, **__: is_over.wait() and [])
    monkeypatch.setattr(addresses, "LOOK_UP_SECONDS", 0.05)
    with pytest.raises(ToolServerError, match="was not found within"):
        find_place("https://slow.example/", may_be_private=False)
    is_over.set()


def test_where_the_first_address_does_not_answer_the_next_is_asked(
    raw: Raw, monkeypatch: pytest.MonkeyPatch
) -> None:
    port = int(raw.url.split(":")[2].split("/")[0])
    found = [(0, 0, 0, "", (address, port)) for address in ("127.0.0.9", "127.0.0.1")]
    with monkeypatch.context() as looking_up:
        looking_up.setattr(socket, "getaddrinfo", lambda *_, **__: found)
        place = find_place(f"http://two.example:{port}/mcp", may_be_private=True)
    raw.answer = b"HTTP/1.1 500 No\r\nContent-Length: 0\r\n\r\n"
    with Exchange(place, seconds=5) as exchange, pytest.raises(ToolServerError, match="500"):
        Session(exchange).begin()
    assert b"Host: two.example" in raw.heard[0]


def test_a_name_is_looked_up_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """What it leads to later is not asked: each connection goes to the address that was checked."""
    place = find_place("https://1.1.1.1/", may_be_private=False)
    monkeypatch.setattr(socket, "getaddrinfo", _no_lookup(socket.getaddrinfo))
    with Exchange(place, seconds=0.2) as exchange, pytest.raises(ToolServerError):
        Session(exchange).begin()


def _no_lookup(real: Any) -> Any:
    def look_up(host: str, *rest: Any, **options: Any) -> Any:
        assert host == "1.1.1.1"  # numbers only
        return real(host, *rest, **options)

    return look_up


class Raw:
    """Answers each connection with these bytes, slowly if it is told to, and keeps what it got."""

    def __init__(self) -> None:
        self.answer = b""
        self.drip_seconds: float | None = None
        self.heard: list[bytes] = []
        self._tls: ssl.SSLContext | None = None
        self._is_over = threading.Event()
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self._listener.getsockname()[1]}/mcp"
        self._thread = threading.Thread(target=self._serve)
        self._thread.start()

    def certify(self, folder: Path) -> None:
        """Speak TLS from now on, with a certificate of its own making."""
        files = [str(folder / name) for name in ("key.pem", "cert.pem")]
        command = ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt"]
        command += ["ec_paramgen_curve:P-256", "-nodes", "-subj", "/CN=127.0.0.1"]
        subprocess.run(
            [*command, "-keyout", files[0], "-out", files[1]], check=True, stderr=subprocess.DEVNULL
        )
        self._tls = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        self._tls.load_cert_chain(files[1], files[0])
        self.url = self.url.replace("http:", "https:")

    def close(self) -> None:
        self._is_over.set()
        socket.create_connection(self._listener.getsockname()).close()
        self._thread.join()
        self._listener.close()

    def _serve(self) -> None:
        while True:
            connection, _ = self._listener.accept()
            with connection:
                if self._is_over.is_set():
                    return
                if self._tls is not None:
                    with contextlib.suppress(OSError):
                        self._tls.wrap_socket(connection, server_side=True).close()
                    continue
                self.heard.append(_request(connection))
                self._say(connection)

    def _say(self, connection: socket.socket) -> None:
        try:
            if self.drip_seconds is None:
                return connection.sendall(self.answer)
            for place in range(len(self.answer)):
                connection.sendall(self.answer[place : place + 1])
                if self._is_over.wait(self.drip_seconds):
                    return None
        except OSError:
            return None
        return None


def _request(connection: socket.socket) -> bytes:
    """All of it: what is left unread would reset the connection."""
    heard = b""
    while b"initialize" not in heard or not heard.endswith(b"}"):
        heard += connection.recv(65536)
    return heard


@pytest.fixture
def raw() -> Iterator[Raw]:
    made = Raw()
    yield made
    made.close()


def begin(raw: Raw, seconds: float = 5.0) -> str:
    """What is said of it."""
    place = find_place(raw.url, may_be_private=True)
    with Exchange(place, seconds=seconds) as exchange, pytest.raises(ToolServerError) as refused:
        Session(exchange, token="secret").begin()
    return refused.value.message


def http(status: str, body: bytes = b"", **headers: str) -> bytes:
    lines = [f"HTTP/1.1 {status}", f"Content-Length: {len(body)}"]
    lines += [f"{name.replace('_', '-')}: {value}" for name, value in headers.items()]
    return "\r\n".join([*lines, "", ""]).encode() + body


def test_a_redirect_is_not_followed(raw: Raw) -> None:
    raw.answer = http("302 Found", Location="http://169.254.169.254/latest")
    assert begin(raw) == "The tool server sends elsewhere (302). That is not followed."
    assert len(raw.heard) == 1


def test_a_slow_drip_does_not_stretch_the_time(raw: Raw) -> None:
    raw.answer = http("200 OK", b"{" + b" " * 10_000, Content_Type="application/json")
    raw.drip_seconds = 0.02
    assert begin(raw, seconds=0.5) == "The tool server did not answer within 0.5 s."


@pytest.mark.parametrize(
    ("answer", "sentence"),
    [
        (b"", "The connection to the tool server failed"),
        (b"SSH-2.0-OpenSSH_9.6\r\n", "The tool server's answer is not HTTP, or was cut."),
        (b"HTTP/1.1 200 OK\r\nContent-Length: -5\r\n\r\n", "neither JSON nor a stream"),
        (http("200 OK", b"<html>"), "neither JSON nor a stream of events."),
        (http("200 OK", b"<html>", Content_Type="application/json"), "is not JSON."),
        (http("200 OK", b"[" * 200_000, Content_Type="application/json"), "is not JSON."),
        (http("200 OK", b"[1]", Content_Type="application/json"), "ended its answer too early."),
        (http("200 OK", b"9" * 9999, Content_Type="application/json"), "is not JSON."),
        (http("200 OK", b"data: \n\n", Content_Type="text/event-stream"), "too early."),
        (http("401 No"), "The tool server does not let us in (401)."),
        (http("500 Oh"), "The tool server answered with status 500."),
        (http("200 OK", b"x", Content_Encoding="gzip"), "packed its answer"),
        (
            http(
                "200 OK",
                b'{"id": 1, "error": {"code": -1, "message": "No <b>way</b>\\ud800\\u0000"}}',
                Content_Type="application/json",
            ),
            "The tool server refused: No <b>way</b>?",
        ),
    ],
)
def test_whatever_a_server_says_is_a_sentence(raw: Raw, answer: bytes, sentence: str) -> None:
    raw.answer = answer
    assert sentence in begin(raw) or not answer


@pytest.mark.parametrize("kind", ["application/json", "text/event-stream"])
def test_an_answer_without_end_is_cut(raw: Raw, kind: str) -> None:
    head = f"HTTP/1.1 200 OK\r\nContent-Type: {kind}\r\n\r\n".encode()
    raw.answer = head + (b"data: " + b"x" * 994) * 6000
    assert "longer than 4 MiB" in begin(raw)


def test_the_token_goes_to_the_server(raw: Raw) -> None:
    raw.answer = http("500 Oh")
    begin(raw)
    assert b"Authorization: Bearer secret\r\n" in raw.heard[0]


def test_a_certificate_that_nobody_vouches_for_is_refused(raw: Raw, tmp_path: Path) -> None:
    raw.certify(tmp_path)
    raw.answer = http("500 Oh")
    assert "certificate is not valid" in begin(raw)
    assert raw.heard == []
