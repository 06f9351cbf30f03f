"""Orders for vectors and for scores: started, followed and settled as all generations are."""

from __future__ import annotations

import dataclasses
import time
from typing import Any

from engine import wire
from hosting.actions.admission import Terms
from hosting.actions.generations import Order
from hosting.models import Generation


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class EmbedOrder(Order):
    """Either texts or rows of token ids."""

    texts: tuple[str, ...] = ()
    inputs: tuple[tuple[int, ...], ...] = ()
    dimensions: int | None = None

    @property
    def content(self) -> tuple[Any, ...]:
        return (*self.texts, *self.inputs)

    def command(self, generation: Generation, terms: Terms) -> wire.Embed:
        return wire.Embed(
            **_common(generation, terms),
            texts=self.texts,
            inputs=self.inputs,
            dimensions=self.dimensions,
        )


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class RerankOrder(Order):
    query: str
    documents: tuple[str, ...]

    @property
    def content(self) -> tuple[Any, ...]:
        """The query is read once for each document."""
        return tuple(self.query + document for document in self.documents)

    def command(self, generation: Generation, terms: Terms) -> wire.Rerank:
        return wire.Rerank(**_common(generation, terms), query=self.query, documents=self.documents)


def _common(generation: Generation, terms: Terms) -> dict[str, Any]:
    return {
        "request_id": str(generation.pk),
        "model": generation.model_name,
        "tenant": generation.tenant,
        "priority": wire.Priority(generation.priority),
        "submitted_at": time.time(),
        "weight": terms.limits.weight,
    }
