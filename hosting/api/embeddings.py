"""POST /v1/embeddings."""

from __future__ import annotations

import base64
import struct
from collections.abc import Sequence
from typing import Any

from drf_spectacular.utils import extend_schema_field
from rest_framework import serializers
from rest_framework.request import Request

from engine import wire
from hosting.actions.conversations import get_servable_model
from hosting.actions.vector_orders import EmbedOrder
from hosting.api.answer_view import AnswerView
from hosting.api.checked import checked
from hosting.api.description import described
from hosting.api.dialect import Call, Caller, History
from hosting.api.errors import invalid
from hosting.api.sampling_fields import deadline
from hosting.api.schema_shapes import EmbeddingList
from hosting.api.vector_reply import WholeReply, usage_tokens
from hosting.fields import Text, Whole
from hosting.models import Generation

MAX_INPUTS = 2048


@extend_schema_field(
    {
        "oneOf": [
            {"type": "string"},
            {"type": "array", "items": {"type": "string"}, "minItems": 1},
            {"type": "array", "items": {"type": "integer"}, "minItems": 1},
            {"type": "array", "items": {"type": "array", "items": {"type": "integer"}}},
        ]
    }
)
class Input(serializers.JSONField):
    """A text, texts, token ids, or several rows of them."""


class EmbeddingRequest(serializers.Serializer[Any]):
    """Fields that are not listed are ignored."""

    model = Text()
    input = Input(
        help_text="Text, texts, or token ids of this very model: others give wrong vectors. "
        "LangChain's OpenAIEmbeddings sends OpenAI's, unless check_embedding_ctx_length is False."
    )
    encoding_format = serializers.ChoiceField(
        choices=("float", "base64"), required=False, allow_null=True
    )
    dimensions = Whole(required=False, allow_null=True, min_value=1, max_value=65_536)
    deadline_seconds = deadline()


class Embeddings(AnswerView):
    @described(
        "create_embeddings",
        "Turn texts into vectors",
        takes=EmbeddingRequest,
        gives=EmbeddingList,
        example={"input": ["a warm fire", "a cold night"]},
        is_streamed=False,
    )
    async def post(self, http_request: Request) -> Any:
        return await self.answer(http_request)

    def read(self, body: dict[str, Any], caller: Caller) -> Call:
        data = checked(EmbeddingRequest, body)
        texts, inputs = _read_input(body["input"])
        order = EmbedOrder(
            user=caller.user,
            kind=Generation.Kind.API,
            model=get_servable_model(data["model"]),
            texts=texts,
            inputs=inputs,
            dimensions=data.get("dimensions"),
            deadline_seconds=data.get("deadline_seconds"),
            api_key=caller.api_key,
            client=caller.client,
        )
        is_base64 = data.get("encoding_format") == "base64"
        return Call(
            orders=(order,),
            is_stream=False,
            make_reply=lambda generations: _EmbeddingReply(
                model=order.model.name, is_base64=is_base64
            ),
        )


class _EmbeddingReply(WholeReply):
    def __init__(self, *, model: str, is_base64: bool) -> None:
        self._model = model
        self._is_base64 = is_base64

    def whole(self, histories: Sequence[History]) -> dict[str, Any]:
        vectors = {
            event.place: event.vector for event in histories[0] if isinstance(event, wire.Embedded)
        }
        num_tokens = usage_tokens(histories)
        return {
            "object": "list",
            "data": [
                {"object": "embedding", "index": place, "embedding": self._shown(vectors[place])}
                for place in sorted(vectors)
            ],
            "model": self._model,
            "usage": {"prompt_tokens": num_tokens, "total_tokens": num_tokens},
        }

    def _shown(self, vector: str) -> str | list[float]:
        if self._is_base64:
            return vector
        raw = base64.b64decode(vector)
        return list(struct.unpack(f"<{len(raw) // 4}f", raw))


def _read_input(given: Any) -> tuple[tuple[str, ...], tuple[tuple[int, ...], ...]]:
    """Texts or rows of token ids; the other one is empty. Raises ApiError."""
    if isinstance(given, str):
        return (given,), ()
    if not isinstance(given, list) or not given:
        raise invalid("input", "This must be text, or a list of at least one text.")
    if all(isinstance(one, str) for one in given):
        _check_number(len(given))
        return tuple(given), ()
    rows = given if isinstance(given[0], list) else [given]
    _check_number(len(rows))
    for place, row in enumerate(rows):
        if not isinstance(row, list) or not all(type(one) is int for one in row):
            raise invalid(f"input[{place}]", "This must be text or a list of token ids.")
    return (), tuple(tuple(row) for row in rows)


def _check_number(num_inputs: int) -> None:
    if num_inputs > MAX_INPUTS:
        raise invalid("input", f"At most {MAX_INPUTS} inputs may be sent at once.")
