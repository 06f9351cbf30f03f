"""The shorter way of API calls through Django's handler."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from asgiref.sync import iscoroutinefunction
from asgiref.testing import ApplicationCommunicator
from django.urls import get_resolver
from drf_spectacular.views import SpectacularAPIView, SpectacularSwaggerSplitView

from hosting.api import urls
from hosting.asgi import application

# They read no database, so that it does not matter in which thread they run
WITHOUT_DATABASE = (SpectacularAPIView, SpectacularSwaggerSplitView)


def scope(path: str, method: str = "GET") -> dict[str, Any]:
    return {
        "type": "http",
        "http_version": "1.1",
        "method": method,
        "path": path,
        "query_string": b"",
        "headers": [(b"host", b"localhost")],
    }


def test_what_reads_the_database_for_an_api_call_does_so_in_a_database_thread() -> None:
    """A thread of Django's own would keep its connection for ever: nobody closes it there."""
    for pattern in get_resolver(urls).url_patterns:
        view_class = getattr(pattern.callback, "view_class", None)
        if view_class is None or view_class in WITHOUT_DATABASE:
            continue
        assert iscoroutinefunction(pattern.callback), pattern


@pytest.mark.parametrize("path", ["/v1/models", "/v1/nothing", "/healthz"])
async def test_every_answer_is_whole_and_ends(path: str, db: None) -> None:
    caller = ApplicationCommunicator(application, scope(path))
    await caller.send_input({"type": "http.request", "body": b"", "more_body": False})
    start = await caller.receive_output(timeout=10)
    assert start["status"] in (200, 401, 404)
    body = await caller.receive_output(timeout=10)
    assert body["body"] and not body.get("more_body")
    await caller.wait(timeout=10)


async def test_a_client_that_leaves_ends_the_call(monkeypatch: pytest.MonkeyPatch) -> None:
    ended = asyncio.Event()

    async def never_answers(self: Any, request: Any) -> None:
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()

    monkeypatch.setattr("hosting.asgi_handler.Handler.run_get_response", never_answers)
    caller = ApplicationCommunicator(application, scope("/v1/models"))
    await caller.send_input({"type": "http.request", "body": b"", "more_body": False})
    await caller.send_input({"type": "http.disconnect"})
    await caller.wait(timeout=10)
    assert ended.is_set()
