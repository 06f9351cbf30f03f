"""Django's ASGI handler, with a shorter way for API calls.

For each request Django makes a thread and goes there twice, to put away what synchronous views may
have opened. API calls open nothing there: their database work has threads of its own
(`hosting.actions.database_threads`). At many short requests that was an eighth of the web's time.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
from typing import IO, Any

from django.core.exceptions import RequestAborted
from django.core.handlers.asgi import ASGIHandler, get_script_prefix
from django.http import HttpRequest, HttpResponseBase
from django.urls import set_script_prefix

from hosting.django_middleware import API_PREFIX


class Handler(ASGIHandler):
    """Answers HTTP. A client that leaves ends the work on its call."""

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] == "http" and scope["path"].startswith(API_PREFIX):
            await self._answer_call(scope, receive, send)
        else:
            await super().__call__(scope, receive, send)

    def create_request(
        self, scope: Any, body: IO[bytes]
    ) -> tuple[HttpRequest | None, HttpResponseBase | None]:
        """Tells the length of a chunked body, which DRF would take for none."""
        request, refusal = super().create_request(scope, body)
        if request is not None and "CONTENT_LENGTH" not in request.META:
            request.META["CONTENT_LENGTH"] = str(_length_of(body))
        return request, refusal

    async def _answer_call(self, scope: Any, receive: Any, send: Any) -> None:
        try:
            body = await self.read_body(receive)
        except RequestAborted:
            return
        with contextlib.closing(body):
            set_script_prefix(get_script_prefix(scope))
            request, refusal = self.create_request(scope, body)
            answering = asyncio.create_task(self._answer(request, refusal, send))
            leaving = asyncio.create_task(receive())
            try:
                await asyncio.wait({answering, leaving}, return_when=asyncio.FIRST_COMPLETED)
            finally:
                leaving.cancel()
                if not answering.done():
                    answering.cancel()
                await asyncio.wait({answering, leaving})
        if not answering.cancelled():
            answering.result()

    async def _answer(
        self, request: HttpRequest | None, refusal: HttpResponseBase | None, send: Any
    ) -> None:
        response = refusal if request is None else await self.run_get_response(request)
        assert response is not None
        try:
            await self.send_response(response, send)
        finally:
            response.close()


def _length_of(body: IO[bytes]) -> int:
    length = body.seek(0, os.SEEK_END)
    body.seek(0)
    return length
