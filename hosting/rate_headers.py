"""How much of its limits a caller of the API has left, in the headers that its SDK reads.

On every answer of the API to a known key, refusals included. Of person and key the tighter one is
told.
"""

from __future__ import annotations

import datetime
from collections.abc import Sequence
from typing import Any

from asgiref.sync import iscoroutinefunction
from django.db import OperationalError
from django.http import HttpRequest, HttpResponseBase
from django.utils import timezone
from django.utils.decorators import sync_and_async_middleware
from rest_framework.request import Request

from accounts.limits import allowance_for_request
from accounts.models import ApiKey
from hosting.actions.database_threads import in_database_thread
from hosting.actions.meters import Meter, meters_of

_REQUESTS = ("requests_per_minute",)
_TOKENS = ("tokens_per_minute", "tokens_per_day", "tokens_per_month")


@sync_and_async_middleware
def rate_headers(get_response: Any) -> Any:
    async def answer_async(request: HttpRequest) -> Any:
        response = await get_response(request)
        if isinstance(key := _key_of(request), ApiKey):
            meters = _told(request) or await in_database_thread(_read_meters)(key)
            _add(response, _headers(request.path, meters))
        return response

    def answer(request: HttpRequest) -> Any:
        response = get_response(request)
        if isinstance(key := _key_of(request), ApiKey):
            _add(response, _headers(request.path, _told(request) or _read_meters(key)))
        return response

    return answer_async if iscoroutinefunction(get_response) else answer


def tell_meters(http_request: Request, meters: Sequence[Meter]) -> None:
    """What admission has read need not be read again."""
    http_request._request.meters = meters


def _add(response: HttpResponseBase, headers: dict[str, str]) -> None:
    for name, value in headers.items():
        response[name] = value


def _key_of(request: HttpRequest) -> Any:
    """REST framework puts the key that it checked here."""
    return getattr(request, "auth", None)


def _told(request: HttpRequest) -> Sequence[Meter]:
    return getattr(request, "meters", ())


def _read_meters(key: ApiKey) -> Sequence[Meter]:
    try:
        allowance = allowance_for_request(key.user, key)
        return meters_of(key.user, key, allowance, timezone.now())
    except OperationalError:
        return ()  # the answer itself says what there is to say about the database


def _headers(path: str, meters: Sequence[Meter]) -> dict[str, str]:
    now = timezone.now()
    form = _anthropic if path.startswith("/v1/messages") else _openai
    found: dict[str, str] = {}
    for what, names in (("requests", _REQUESTS), ("tokens", _TOKENS)):
        if meter := _tightest(meters, names):
            found |= form(what, meter, now)
    return found


def _tightest(meters: Sequence[Meter], names: Sequence[str]) -> Meter | None:
    of_kind = (meter for meter in meters if meter.name in names)
    return min(of_kind, key=lambda meter: meter.left, default=None)


def _openai(what: str, meter: Meter, now: datetime.datetime) -> dict[str, str]:
    return {
        f"x-ratelimit-limit-{what}": str(meter.limit),
        f"x-ratelimit-remaining-{what}": str(meter.left),
        f"x-ratelimit-reset-{what}": _duration(meter.resets_at - now),
    }


def _anthropic(what: str, meter: Meter, now: datetime.datetime) -> dict[str, str]:
    utc = meter.resets_at.astimezone(datetime.UTC).replace(microsecond=0)
    return {
        f"anthropic-ratelimit-{what}-limit": str(meter.limit),
        f"anthropic-ratelimit-{what}-remaining": str(meter.left),
        f"anthropic-ratelimit-{what}-reset": utc.isoformat().replace("+00:00", "Z"),
    }


def _duration(wait: datetime.timedelta) -> str:
    """As OpenAI spells it: 250ms, 1s, 6m0s, 23h0m0s."""
    seconds = max(0.0, wait.total_seconds())
    if seconds < 1:
        return f"{round(seconds * 1000)}ms"
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    hour_part = f"{hours}h" if hours else ""
    minute_part = f"{minutes}m" if hours or minutes else ""
    return f"{hour_part}{minute_part}{rest}s"
