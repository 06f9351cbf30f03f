"""On the wire each page, dead ends too, is as long as it says: the next answer begins behind it."""

from __future__ import annotations

import contextlib
import http.client
from urllib.parse import urlsplit

import pytest
from django.conf import settings as django_settings
from django.test import Client

from tests.hosting.web_process import web

__all__ = ["web"]
pytestmark = pytest.mark.django_db(transaction=True)

PAGES = [
    ("/accounts/data/forget", 405),
    ("/accounts/sign-out/", 405),
    ("/nowhere", 404),
    ("/accounts/sign-in/", 302),
    ("/", 200),
]


@pytest.mark.parametrize(("path", "status"), PAGES)
@pytest.mark.parametrize("method", ["GET", "HEAD"])
def test_the_next_answer_on_the_same_connection_is_whole(
    web: str, page: Client, path: str, status: int, method: str
) -> None:
    name = django_settings.SESSION_COOKIE_NAME
    headers = {"Cookie": f"{name}={page.cookies[name].value}", "Accept": "text/html"}
    connection = http.client.HTTPConnection(urlsplit(web).netloc, timeout=30)
    with contextlib.closing(connection):
        for _ in range(2):
            connection.request(method, path, headers=headers)
            answer = connection.getresponse()
            body = answer.read()
            assert answer.status == status
            assert bool(body) == (method == "GET" and status != 302)
        connection.request("GET", "/healthz")
        assert connection.getresponse().status == 200
