"""GET /v1/admin/usage and /v1/admin/live: what the administrator's pages show, for programs.

For keys of administrators that were made for it. Nothing is changed here, and nothing tells what
was asked or answered.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from drf_spectacular.utils import OpenApiParameter, extend_schema
from rest_framework.request import Request
from rest_framework.response import Response

from accounts.figures import Sums, Usage
from hosting.admin.live_data import live_data
from hosting.api.answer_view import AwaitedView
from hosting.api.errors import invalid
from hosting.api.schema_shapes import AdminLive, AdminUsage, Error
from hosting.usage.choices import WINDOWS, ask_team
from hosting.usage.names import named_keys, names_of_people, renamed

_ERRORS = {401: Error, 403: Error}


class AdminUsageView(AwaitedView):
    @extend_schema(
        operation_id="admin_usage",
        summary="Usage of everybody, by person, model and key",
        parameters=[
            OpenApiParameter("window", enum=list(WINDOWS)),
            *(OpenApiParameter(name) for name in ("person", "group", "model", "key")),
        ],
        responses={200: AdminUsage, 400: Error, **_ERRORS},
    )
    def get(self, http_request: Request) -> Response:
        asked = ask_team(http_request.user, http_request.query_params)
        _check_matched(asked.unmatched)
        usage = Usage(asked.choice)
        people = usage.by("user_id")
        return Response(
            {
                "object": "usage",
                "window": asked.window,
                "from": asked.choice.first.isoformat(),
                "to": asked.choice.last.isoformat(),
                "total": _figures(usage.total),
                "people": _rows(renamed(people, names_of_people(people))),
                "models": _rows(usage.by("model_name")),
                "keys": _rows(named_keys(usage.by("api_key_id"))),
            }
        )


class AdminLiveView(AwaitedView):
    @extend_schema(
        operation_id="admin_live",
        summary="Engines and open requests, now",
        responses={200: AdminLive, **_ERRORS},
    )
    def get(self, http_request: Request) -> Response:
        return Response({"object": "live", **live_data()})


def _check_matched(unmatched: Sequence[str]) -> None:
    for name in unmatched:
        wanted = f"one of {', '.join(WINDOWS)}" if name == "window" else "an id that there is"
        raise invalid(name, f"'{name}' must be {wanted}.")


def _rows(rows: Sequence[Sums]) -> list[dict[str, Any]]:
    return [{"name": row.label, **_figures(row)} for row in rows]


def _figures(row: Sums) -> dict[str, Any]:
    return {
        "requests": row.requests,
        "errors": row.errors,
        "prompt_tokens": row.prompt_tokens,
        "cached_tokens": row.cached_tokens,
        "completion_tokens": row.completion_tokens,
        "reasoning_tokens": row.reasoning_tokens,
        "ttft_p50_seconds": row.ttft_p50,
        "ttft_p95_seconds": row.ttft_p95,
    }
