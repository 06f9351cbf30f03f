"""/api/hello: what Anthropic's programs ask first, to learn whether anybody is there."""

from __future__ import annotations

from django.http import HttpRequest, JsonResponse
from django.views.decorators.http import require_safe


@require_safe
async def hello(http_request: HttpRequest) -> JsonResponse:
    return JsonResponse({"message": "hello"})
