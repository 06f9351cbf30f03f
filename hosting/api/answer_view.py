"""An address that answers with a generation, whole or as a stream, in the dialect of its class."""

from __future__ import annotations

import dataclasses
from typing import Any

from asgiref.sync import iscoroutinefunction
from django.http import HttpRequest, HttpResponseBase, StreamingHttpResponse
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from accounts.auth import client_name
from hosting.actions.database_threads import in_database_thread
from hosting.actions.repeats import Served
from hosting.api.dialect import Call, Caller
from hosting.api.parsers import JsonBody
from hosting.api.repeat_key import repeat_key
from hosting.api.run import Run, begin_if_an_engine_lives, unless_left
from hosting.rate_headers import tell_meters


class AwaitedView(APIView):
    """Django awaits it; handlers that are not async run in a database thread.

    Where its errors are not OpenAI's, `error_form`.
    """

    parser_classes = [JsonBody]
    view_is_async = True

    async def dispatch(
        self, http_request: HttpRequest, *args: Any, **kwargs: Any
    ) -> HttpResponseBase:
        """DRF's own, awaited. Who asks is looked up in a database thread."""
        self.args, self.kwargs = args, kwargs
        self.request = self.initialize_request(http_request, *args, **kwargs)
        self.headers = self.default_response_headers
        try:
            await self._prepare(*args, **kwargs)
            response = await self._handler()(self.request, *args, **kwargs)
        except Exception as error:
            response = self.handle_exception(error)
        self.response = self.finalize_response(self.request, response, *args, **kwargs)
        return self.response

    async def _prepare(self, *args: Any, **kwargs: Any) -> None:
        await in_database_thread(self.initial)(self.request, *args, **kwargs)

    def _handler(self) -> Any:
        name = (self.request.method or "").lower()
        allowed = name in self.http_method_names
        handler = getattr(self, name, None) if allowed else None
        handler = handler or self.http_method_not_allowed
        return handler if iscoroutinefunction(handler) else in_database_thread(handler)


class AnswerView(AwaitedView):
    """A dialect gives `read`; where its errors are not OpenAI's, `error_form` (errors.py) too.

    `post` of a subclass, which carries its description, returns `await self.answer(request)`.
    """

    def read(self, body: dict[str, Any], caller: Caller) -> Call:
        """Check the body. Raises ApiError, ValidationError or Refusal."""
        raise NotImplementedError

    async def answer(self, http_request: Request) -> Response | StreamingHttpResponse:
        run = await Run.start(self._call, self._served)
        tell_meters(http_request, run.meters)
        return run.stream() if self._call.is_stream else await run.whole()

    async def _prepare(self, *args: Any, **kwargs: Any) -> None:
        """Who asks, what, and its start, in one go: each way to a database thread is half a
        millisecond."""
        if self.request.method != "POST":
            return await super()._prepare(*args, **kwargs)

        def begin() -> Served | None:
            self.initial(self.request, *args, **kwargs)
            self._call = self._read(self.request)
            return begin_if_an_engine_lives(self._call)

        self._served = await unless_left(begin)

    def _read(self, http_request: Request) -> Call:
        call = self.read(http_request.data, caller_of(http_request))
        return dataclasses.replace(call, repeat_key=repeat_key(http_request))


def caller_of(http_request: Request) -> Caller:
    return Caller(
        user=http_request.user,
        api_key=http_request.auth,
        client=client_name(http_request.headers.get("User-Agent", "")),
    )
