"""Orders for vectors and for scores: started, followed and settled as all generations are."""

from __future__ import annotations

import dataclasses
import time
from typing import Any

from engine import wire
from hosting.actions.admission import Terms
from hosting.actions.orders import Order
from hosting.models import Generation


class _VectorOrder(Order):
    """Reads several prompts, and writes nothing."""

    @property
    def most_answer_tokens(self) -> int:
        return 0


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class EmbedOrder(_VectorOrder):
    """Either texts or rows of token ids."""

    texts: tuple[str, ...] = ()
    inputs: tuple[tuple[int, ...], ...] = ()
    dimensions: int | None = None

    @property
    def content(self) -> tuple[Any, ...]:
        return (*self.texts, *self.inputs)

    @property
    def num_prompts(self) -> int:
        return len(self.texts) + len(self.inputs)

    def command(self, generation: Generation, terms: Terms) -> wire.Embed:
        return wire.Embed(
            **_common(self, generation, terms),
            texts=self.texts,
            inputs=self.inputs,
            dimensions=self.dimensions,
        )


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class RerankOrder(_VectorOrder):
    query: str
    documents: tuple[str, ...]

    @property
    def content(self) -> tuple[Any, ...]:
        """The query is read once for each document."""
        return tuple(part for document in self.documents for part in (self.query, document))

    @property
    def num_prompts(self) -> int:
        return len(self.documents)

    def command(self, generation: Generation, terms: Terms) -> wire.Rerank:
        return wire.Rerank(
            **_common(self, generation, terms), query=self.query, documents=self.documents
        )


def _common(order: Order, generation: Generation, terms: Terms) -> dict[str, Any]:
    return {
        "request_id": str(generation.pk),
        "model": generation.model_name,
        "tenant": generation.tenant,
        "priority": wire.Priority(generation.priority),
        "submitted_at": time.time(),
        "max_context_tokens": terms.limits.max_context_tokens,
        "budget_tokens": terms.budget_tokens,
        "weight": terms.limits.weight,
        "deadline_seconds": order.deadline_seconds,
    }
