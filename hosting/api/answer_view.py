"""An address that answers with a generation, whole or as a stream, in the dialect of its class."""

from __future__ import annotations

from typing import Any

from adrf.views import APIView
from asgiref.sync import sync_to_async
from django.http import StreamingHttpResponse
from rest_framework.request import Request
from rest_framework.response import Response

from accounts.auth import client_name
from hosting.api.dialect import Call, Caller
from hosting.api.parsers import JsonBody
from hosting.api.run import Run


class AnswerView(APIView):
    """A dialect gives `read`; where its errors are not OpenAI's, `error_form` (errors.py) too.

    `post` of a subclass, which carries its description, returns `await self.answer(request)`.
    """

    parser_classes = [JsonBody]

    def read(self, body: dict[str, Any], caller: Caller) -> Call:
        """Check the body. Raises ApiError, ValidationError or Refusal."""
        raise NotImplementedError

    async def answer(self, http_request: Request) -> Response | StreamingHttpResponse:
        call = await sync_to_async(self._read)(http_request)
        run = await Run.start(call)
        return run.stream() if call.is_stream else await run.whole()

    def _read(self, http_request: Request) -> Call:
        return self.read(http_request.data, caller_of(http_request))


def caller_of(http_request: Request) -> Caller:
    return Caller(
        user=http_request.user,
        api_key=http_request.auth,
        client=client_name(http_request.headers.get("User-Agent", "")),
    )
