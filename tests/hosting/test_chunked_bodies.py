"""Bodies without a length, in chunks, over a real socket: as good as those with one."""

from __future__ import annotations

import json
from collections.abc import Iterator

import httpx
import pytest
from django.conf import settings as django_settings

from tests.hosting.hostile_requests import EMBEDDINGS, GOOD, MESSAGES, RERANK, RESPONSES
from tests.hosting.scripted_engine import ScriptedEngine
from tests.hosting.web_process import web

__all__ = ["web"]
pytestmark = pytest.mark.usefixtures("model")

BODIES = {
    **GOOD,
    "/v1/messages/count_tokens": GOOD[MESSAGES],
    "/v1/responses/input_tokens": GOOD[RESPONSES],
    "/v2/rerank": GOOD[RERANK],
    "/rerank": GOOD[RERANK],
}
VECTORS = (EMBEDDINGS, RERANK, "/v2/rerank", "/rerank")


def chunked(body: bytes, size: int = 7) -> Iterator[bytes]:
    return (body[start : start + size] for start in range(0, len(body), size))


def post(web: str, route: str, api_key: str, content: Iterator[bytes] | bytes) -> httpx.Response:
    headers = {"Authorization": f"Bearer {api_key}", "Content-Type": "application/json"}
    url = web.removesuffix("/v1") + route
    return httpx.post(url, headers=headers, content=content, timeout=30)


@pytest.mark.parametrize("route", list(BODIES))
def test_each_route_answers_as_to_a_body_with_a_length(
    web: str, api_key: str, engine: ScriptedEngine, route: str
) -> None:
    body = json.dumps(BODIES[route]).encode()
    answer = post(web, route, api_key, chunked(body))
    assert answer.status_code == post(web, route, api_key, body).status_code, answer.text
    assert "required" not in answer.text
    assert answer.is_success or route in VECTORS  # this model makes none


def test_one_above_the_limit_is_told_so(web: str, api_key: str) -> None:
    limit = django_settings.DATA_UPLOAD_MAX_MEMORY_SIZE
    answer = post(web, "/v1/chat/completions", api_key, chunked(b" " * (limit + 1), 2**20))
    assert (answer.status_code, answer.json()["error"]["code"]) == (413, "request_too_large")


@pytest.mark.parametrize("body", [b"{", b"[]", b"\xff", b'{"model": NaN}'])
def test_what_is_no_json_object_is_told_so(web: str, api_key: str, body: bytes) -> None:
    answer = post(web, "/v1/chat/completions", api_key, chunked(body))
    assert (answer.status_code, answer.json()["error"]["code"]) == (400, "invalid_json")
