"""/healthz, /readyz and /metrics: for balancers, supervisors and Prometheus.

/healthz says only that this process answers. /readyz says whether requests would be answered.
/metrics is for whoever has HEARTH_METRICS_TOKEN, and without one for this machine only.
"""

from __future__ import annotations

import hmac
import os

from django.http import HttpRequest, HttpResponse, JsonResponse
from django.urls import path
from django.views.decorators.http import require_safe
from prometheus_client import CONTENT_TYPE_LATEST

from hosting.metrics import exposition
from hosting.readiness import reasons_not_ready

LOOPBACK = ("127.0.0.1", "::1")


@require_safe
async def healthz(request: HttpRequest) -> HttpResponse:
    return HttpResponse("ok\n", content_type="text/plain")


@require_safe
def readyz(request: HttpRequest) -> JsonResponse:
    reasons = reasons_not_ready()
    body = {"status": "not ready" if reasons else "ready", "reasons": reasons}
    response = JsonResponse(body, status=503 if reasons else 200)
    # Being asked while not ready is no error: Django must not log each 503 as one
    response._has_been_logged = True  # type: ignore[attr-defined]
    return response


@require_safe
def metrics(request: HttpRequest) -> HttpResponse:
    if not may_read_metrics(request, token=os.environ.get("HEARTH_METRICS_TOKEN", "")):
        return HttpResponse("forbidden\n", status=403, content_type="text/plain")
    return HttpResponse(exposition(), content_type=CONTENT_TYPE_LATEST)


def may_read_metrics(request: HttpRequest, *, token: str) -> bool:
    if token:
        sent = request.headers.get("Authorization", "").removeprefix("Bearer ")
        return hmac.compare_digest(sent.encode(), token.encode())
    # Behind a proxy on this machine everybody comes from loopback
    is_forwarded = "X-Forwarded-For" in request.headers or "Forwarded" in request.headers
    return request.META.get("REMOTE_ADDR") in LOOPBACK and not is_forwarded


urlpatterns = [
    path("healthz", healthz, name="healthz"),
    path("readyz", readyz, name="readyz"),
    path("metrics", metrics, name="metrics"),
]
