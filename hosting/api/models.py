"""GET /v1/models and one of them."""

from __future__ import annotations

from typing import Any

from drf_spectacular.utils import extend_schema
from rest_framework.request import Request
from rest_framework.response import Response

from accounts.limits import allowance_of
from hosting.actions.admission import check_may_use
from hosting.actions.conversations import get_servable_model
from hosting.api import anthropic_models
from hosting.api.answer_view import AwaitedView
from hosting.api.anthropic_errors import anthropic_form
from hosting.api.anthropic_models import speaks_anthropic
from hosting.api.anthropic_request import model_name
from hosting.api.errors import ErrorForm, openai_form
from hosting.api.schema_shapes import Error, Model, ModelList
from hosting.models import HostedModel


class ModelView(AwaitedView):
    """Two dialects share these addresses, so the headers tell which one is spoken."""

    @property
    def error_form(self) -> ErrorForm:
        return anthropic_form if speaks_anthropic(self.request) else openai_form


class Models(ModelView):
    @extend_schema(
        operation_id="list_models",
        summary="The models that can be named",
        responses={200: ModelList, **dict.fromkeys((401, 500, 503), Error)},
    )
    def get(self, http_request: Request) -> Response:
        limits = allowance_of(http_request.user, http_request.auth).effective
        models = HostedModel.objects.servable().open_to(http_request.user)
        rows = [row for row in models if limits.may_use(row.name)]
        if speaks_anthropic(http_request):
            return Response(anthropic_models.model_list(rows, http_request))
        return Response({"object": "list", "data": [_model(row) for row in rows]})


class OneModel(ModelView):
    @extend_schema(
        operation_id="retrieve_model",
        summary="One model",
        responses={200: Model, **dict.fromkeys((401, 403, 404, 500, 503), Error)},
    )
    def get(self, http_request: Request, name: str) -> Response:
        is_anthropic = speaks_anthropic(http_request)
        row = get_servable_model(model_name(name) if is_anthropic else name)
        check_may_use(http_request.user, http_request.auth, row)
        return Response(anthropic_models.one_model(row) if is_anthropic else _model(row))


def _model(row: HostedModel) -> dict[str, Any]:
    return {
        "id": row.name,
        "object": "model",
        "created": int(row.created_at.timestamp()),
        "owned_by": "hearth",
        "kind": row.kind,
        "input_modalities": ["text", "image"] if row.supports_images else ["text"],
        "context_length": row.context_limit_tokens,
        "max_model_len": row.context_limit_tokens,
    }
