"""POST /v1/chat/completions. Headers go out when intake has accepted; waiting is in the stream."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack

from adrf.views import APIView
from asgiref.sync import sync_to_async
from channels.db import database_sync_to_async
from django.http import StreamingHttpResponse
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import extend_schema
from rest_framework.request import Request
from rest_framework.response import Response

from accounts.auth import client_name
from engine import wire
from hosting.actions.served import abandon_generations, cancel_generations, start_served
from hosting.api import errors, openai_chat
from hosting.api.chat_request import ChatCompletionRequest, ChatRequest, read_chat_request
from hosting.api.following import Following, Numbered
from hosting.api.parsers import JsonBody
from hosting.api.schema_shapes import ChatCompletion, Error
from hosting.engine_client import EngineUnavailable, StreamLost
from hosting.models import Generation

ADMISSION_SECONDS = 10.0
HEARTBEAT_SECONDS = 10.0
_ENGINE_POLL_SECONDS = 0.25
_STREAM_HEADERS = {"Cache-Control": "no-cache", "X-Accel-Buffering": "no"}

logger = logging.getLogger(__name__)


class ChatCompletions(APIView):
    parser_classes = [JsonBody]

    @extend_schema(
        operation_id="create_chat_completion",
        summary="Answer a conversation",
        request=ChatCompletionRequest,
        responses={
            (200, "application/json"): ChatCompletion,
            (200, "text/event-stream"): OpenApiTypes.STR,
            **{(status, "application/json"): Error for status in (400, 401, 404, 413, 429, 503)},
        },
    )
    async def post(self, http_request: Request) -> Response | StreamingHttpResponse:
        chat = await sync_to_async(self._read)(http_request)
        run = await Run.start(chat)
        if chat.is_stream:
            return EventStream(run.stream(), on_close=run.end_soon)
        return await run.answer()

    def _read(self, http_request: Request) -> ChatRequest:
        return read_chat_request(
            http_request.data,
            user=http_request.user,
            api_key=http_request.auth,
            client=client_name(http_request.headers.get("User-Agent", "")),
        )


class Run:
    """One accepted call: its generations and their events. What the client leaves is cancelled."""

    def __init__(self, chat: ChatRequest, generations: list[Generation]) -> None:
        self._generations = generations
        self._started = time.monotonic()
        self._loop = asyncio.get_running_loop()
        self._following = Following([str(generation.pk) for generation in generations])
        self._backlog: list[Numbered] = []
        self._heading = openai_chat.Heading(
            id=f"chatcmpl-{generations[0].pk.hex}",
            created=int(generations[0].created_at.timestamp()),
            model=generations[0].model_name,
            num_choices=len(generations),
            includes_usage=chat.includes_usage,
            wants_logprobs=chat.wants_logprobs,
        )

    @classmethod
    async def start(cls, chat: ChatRequest) -> Run:
        """Rows, submission, acceptance. Raises ApiError."""
        run = cls(chat, await _start_when_an_engine_lives(chat))
        async with AsyncExitStack() as unless_accepted:
            unless_accepted.push_async_callback(run._leave)
            await run._admission()
            unless_accepted.pop_all()
        return run

    async def answer(self) -> Response:
        """Wait for the end of every choice. Raises ApiError."""
        histories: list[list[wire.Event]] = [[] for _ in self._generations]
        try:
            async for numbered in self._events():
                if numbered is not None:
                    choice, event = numbered
                    _check_goes_on(event)
                    histories[choice].append(event)
        finally:
            await self._leave()
        body = openai_chat.completion(self._heading, histories)
        return Response(body, headers=self._timing_headers(histories))

    async def stream(self) -> AsyncIterator[str]:
        writer = openai_chat.ChatStream(self._heading)
        yield writer.opening()
        try:
            async for numbered in self._events():
                lines = writer.lines(*numbered) if numbered else openai_chat.KEEP_ALIVE
                if lines:
                    yield lines
            yield writer.closing()
        except errors.ApiError as error:
            yield openai_chat.error_line(error)
        except (EngineUnavailable, StreamLost):
            yield openai_chat.error_line(errors.engine_unavailable())
        except Exception:
            logger.exception("stream ended", extra={"request_id": self._generations[0].pk})
            yield openai_chat.error_line(errors.internal())
        finally:
            await self._following.close()

    def end_soon(self) -> None:
        """Called once when the response is closed, from any thread, however it ended."""
        self._loop.call_soon_threadsafe(self._following.leave)
        if not self._following.is_over:
            cancel_generations(self._generations)

    async def _events(self) -> AsyncIterator[Numbered | None]:
        """All events; None when it is time for a sign of life."""
        for numbered in self._backlog:
            yield numbered
        while not self._following.is_over:
            yield await self._following.next(within_seconds=HEARTBEAT_SECONDS)

    async def _admission(self) -> None:
        """Wait for the first event of every choice. Raises ApiError when one is no Accepted."""
        until = time.monotonic() + ADMISSION_SECONDS
        unanswered = set(range(len(self._generations)))
        while unanswered:
            try:
                numbered = await self._following.next(within_seconds=until - time.monotonic())
            except (EngineUnavailable, StreamLost):
                numbered = None
            if numbered is None:
                await database_sync_to_async(abandon_generations)(self._generations)
                raise errors.engine_unavailable()
            _check_goes_on(numbered[1])
            unanswered.discard(numbered[0])
            self._backlog.append(numbered)

    async def _leave(self) -> None:
        """Stop reading, and cancel what has not ended."""
        await self._following.close()
        if not self._following.is_over:
            cancel = database_sync_to_async(cancel_generations, thread_sensitive=False)
            await asyncio.shield(cancel(self._generations))

    def _timing_headers(self, histories: list[list[wire.Event]]) -> dict[str, str]:
        finished = [h[-1] for h in histories if isinstance(h[-1], wire.Finished)]
        timings = openai_chat.timings_of(finished)
        return {
            "openai-processing-ms": str(round((time.monotonic() - self._started) * 1000)),
            "x-queue-ms": str(round(timings["queued_seconds"] * 1000)),
            "x-ttft-ms": str(round((timings["ttft_seconds"] or 0) * 1000)),
            "x-cached-tokens": str(finished[0].usage.cached_tokens),
        }


class EventStream(StreamingHttpResponse):
    """`on_close` runs also when the client left before the first line was asked for."""

    def __init__(self, lines: AsyncIterator[str], *, on_close: Callable[[], None]) -> None:
        super().__init__(
            lines, content_type="text/event-stream; charset=utf-8", headers=_STREAM_HEADERS
        )
        self._on_close: Callable[[], None] | None = on_close

    def close(self) -> None:
        on_close, self._on_close = self._on_close, None
        if on_close is not None:
            on_close()
        super().close()


async def _start_when_an_engine_lives(chat: ChatRequest) -> list[Generation]:
    """An engine that died is back within seconds, so it is worth a wait. Raises ApiError."""
    until = time.monotonic() + ADMISSION_SECONDS
    while True:
        try:
            return await _start(chat)
        except EngineUnavailable:
            if time.monotonic() > until:
                raise errors.engine_unavailable() from None
        await asyncio.sleep(_ENGINE_POLL_SECONDS)


async def _start(chat: ChatRequest) -> list[Generation]:
    """A client that leaves in this moment leaves nothing behind."""
    starting = asyncio.ensure_future(sync_to_async(start_served)(chat.orders))
    try:
        return await asyncio.shield(starting)
    except asyncio.CancelledError:
        cancel = database_sync_to_async(cancel_generations, thread_sensitive=False)
        await cancel(await starting)
        raise


def _check_goes_on(event: wire.Event) -> None:
    if isinstance(event, (wire.Refused, wire.Failed)):
        raise errors.of_event(event)
    if isinstance(event, wire.Finished) and event.reason == wire.FinishReason.CANCELLED:
        raise errors.cancelled()
