"""POST /v1/rerank, /v2/rerank and /rerank: the shapes of Cohere and Jina, which are nearly one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from rest_framework import serializers
from rest_framework.request import Request

from engine import wire
from hosting.actions.conversations import get_servable_model
from hosting.actions.vector_orders import RerankOrder
from hosting.api.answer_view import AnswerView
from hosting.api.checked import checked
from hosting.api.description import described
from hosting.api.dialect import Call, Caller, History
from hosting.api.errors import invalid
from hosting.api.sampling_fields import deadline
from hosting.api.schema_shapes import Ranking
from hosting.api.vector_reply import WholeReply, usage_tokens
from hosting.fields import Flag, Text, Whole
from hosting.models import Generation

MAX_DOCUMENTS = 1000


class RerankRequest(serializers.Serializer[Any]):
    """Documents are texts, or objects with a `text`. Fields that are not listed are ignored."""

    model = Text()
    query = Text()
    documents = serializers.ListField(min_length=1, max_length=MAX_DOCUMENTS)
    top_n = Whole(required=False, allow_null=True, min_value=1)
    return_documents = Flag(required=False, allow_null=True)
    deadline_seconds = deadline()


class Rerank(AnswerView):
    @described(
        "rerank",
        "Order documents by how well they answer a query",
        takes=RerankRequest,
        gives=Ranking,
        example={"query": "What is warm?", "documents": ["a fire", "the night"]},
        is_streamed=False,
    )
    async def post(self, http_request: Request) -> Any:
        return await self.answer(http_request)

    def read(self, body: dict[str, Any], caller: Caller) -> Call:
        data = checked(RerankRequest, body)
        order = RerankOrder(
            user=caller.user,
            kind=Generation.Kind.API,
            model=get_servable_model(data["model"]),
            query=data["query"],
            documents=tuple(
                _text(one, f"documents[{place}]") for place, one in enumerate(body["documents"])
            ),
            deadline_seconds=data.get("deadline_seconds"),
            api_key=caller.api_key,
            client=caller.client,
        )
        return Call(
            orders=(order,),
            is_stream=False,
            make_reply=lambda generations: _RerankReply(
                generations[0],
                order,
                top_n=data.get("top_n"),
                returns_documents=bool(data.get("return_documents")),
            ),
        )


class _RerankReply(WholeReply):
    def __init__(
        self,
        generation: Generation,
        order: RerankOrder,
        *,
        top_n: int | None,
        returns_documents: bool,
    ) -> None:
        self._id = f"rerank-{generation.pk.hex}"
        self._order = order
        self._top_n = top_n
        self._returns_documents = returns_documents

    def whole(self, histories: Sequence[History]) -> dict[str, Any]:
        scores = {
            event.place: event.score for event in histories[0] if isinstance(event, wire.Scored)
        }
        best_first = sorted(scores, key=lambda place: (-scores[place], place))
        num_tokens = usage_tokens(histories)
        return {
            "id": self._id,
            "model": self._order.model.name,
            "results": [self._result(one, scores[one]) for one in best_first[: self._top_n]],
            "meta": {"tokens": {"input_tokens": num_tokens}},
            "usage": {"prompt_tokens": num_tokens, "total_tokens": num_tokens},
        }

    def _result(self, place: int, score: float) -> dict[str, Any]:
        result: dict[str, Any] = {"index": place, "relevance_score": score}
        if self._returns_documents:
            result["document"] = {"text": self._order.documents[place]}
        return result


def _text(document: Any, where: str) -> str:
    text = document.get("text") if isinstance(document, dict) else document
    if not isinstance(text, str):
        raise invalid(where, "A document must be text, or an object with a text.")
    return text
