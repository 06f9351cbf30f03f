"""Browser applications of other origins: those that the setting names may call the API."""

from __future__ import annotations

from collections.abc import Iterator

import httpx
import pytest
from django.test import Client

from tests.hosting.hostile_requests import CHAT, GOOD
from tests.hosting.scripted_engine import ScriptedEngine
from tests.hosting.web_process import started_web
from tests.redis_process import RedisProcess

pytestmark = pytest.mark.usefixtures("model")
APP = {"Origin": "https://app.example.org"}
STRANGER = {"Origin": "https://app.example.com"}
ASKS_FIRST = {
    "Access-Control-Request-Method": "POST",
    "Access-Control-Request-Headers": "authorization,content-type,x-stainless-lang",
}
ALLOWED = "Access-Control-Allow-Origin"


@pytest.fixture(scope="module")
def web(django_db_setup: None, _shared_redis: RedisProcess) -> Iterator[str]:
    """The address of a web process that lets the application in."""
    named = {"HEARTH_CORS_ORIGINS": "https://other.example.org, https://app.example.org"}
    with started_web(_shared_redis.url, **named) as (url, _):
        yield url.removesuffix("/v1")


def test_a_browser_that_asks_first_needs_no_key(web: str) -> None:
    answer = httpx.options(web + CHAT, headers=APP | ASKS_FIRST)
    assert (answer.status_code, answer.headers[ALLOWED]) == (200, APP["Origin"])
    assert "POST" in answer.headers["Access-Control-Allow-Methods"]
    # Without cookies the star means every header but the one with the key
    assert answer.headers["Access-Control-Allow-Headers"] == "*, authorization"
    assert "Access-Control-Allow-Credentials" not in answer.headers


def test_a_stream_comes_with_all_its_headers(
    web: str, api_key: str, engine: ScriptedEngine
) -> None:
    headers = APP | {"Authorization": f"Bearer {api_key}"}
    body = {**GOOD[CHAT], "stream": True}
    with httpx.stream("POST", web + CHAT, json=body, headers=headers) as answer:
        lines = [line for line in answer.iter_lines() if line]
    assert answer.headers[ALLOWED] == APP["Origin"]
    assert answer.headers["Access-Control-Expose-Headers"] == "*"
    assert lines[-1] == "data: [DONE]"


def test_a_refusal_can_be_read_too(web: str) -> None:
    answer = httpx.post(web + CHAT, json=GOOD[CHAT], headers=APP)
    assert (answer.status_code, answer.headers[ALLOWED]) == (401, APP["Origin"])


@pytest.mark.parametrize("path", ["/rerank", "/v2/rerank"])
def test_the_api_s_other_addresses_are_open_to_it_too(web: str, path: str) -> None:
    answer = httpx.options(web + path, headers=APP | ASKS_FIRST)
    assert (answer.status_code, answer.headers[ALLOWED]) == (200, APP["Origin"])
    assert httpx.post(web + path, json={}, headers=APP).headers[ALLOWED] == APP["Origin"]


@pytest.mark.parametrize(
    ("path", "origin"), [(CHAT, STRANGER), ("/accounts/sign-in/", APP), ("/chat/models", APP)]
)
def test_nobody_else_and_nothing_else_is_let_in(
    web: str, path: str, origin: dict[str, str]
) -> None:
    for answer in (
        httpx.options(web + path, headers=origin | ASKS_FIRST),
        httpx.get(web + path, headers=origin),
    ):
        assert ALLOWED not in answer.headers


def test_all_may_call_where_the_setting_says_so(redis_url: str) -> None:
    with started_web(redis_url, HEARTH_CORS_ORIGINS="*") as (url, _):
        answer = httpx.get(f"{url}/models", headers=STRANGER)
    assert answer.headers[ALLOWED] == "*"


def test_none_may_where_nothing_is_set() -> None:
    answer = Client().options(CHAT, headers=APP | ASKS_FIRST)
    assert answer.status_code == 401
    assert ALLOWED not in answer.headers
