"""Rows of tokens into vectors or scores, with an encoder. It knows no requests.

A token looks both ways, so a long row cannot be cut into pieces of tokens: it is computed some of
the layers at a time, so that decoding rows wait for those only.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import mlx.core as mx
import numpy as np
import tokenizers

from engine import wire
from engine.model.encoder import Encoder
from engine.model.encoder_parts import last_state, mean_state
from engine.model.loader import LoadFailed
from engine.model.sentence_files import Pooling, PoolingKind, read_pooling
from engine.model.vector_results import as_event, normalized


@dataclasses.dataclass(slots=True)
class LongRow:
    """A row of which the first layers are computed. Owner: the model thread."""

    token_ids: tuple[int, ...]
    states: mx.array
    num_layers: int
    layers_done: int = 0

    @property
    def num_computed(self) -> int:
        """In tokens, as all layers of so many would have cost."""
        return len(self.token_ids) * self.layers_done // self.num_layers

    @property
    def num_left(self) -> int:
        return len(self.token_ids) - self.num_computed


class EncoderRunner:
    """Gives a result per row: a vector, or a score from 0 to 1."""

    def __init__(
        self, encoder: Encoder, *, pooling: Pooling | None, separator_id: int | None = None
    ):
        """`pooling` None: it scores. `separator_id`: after it a row's second text begins."""
        self._encoder = encoder
        self._pooling = pooling
        self._separator_id = separator_id

    def run(self, rows: Sequence[tuple[int, ...]]) -> list[Any]:
        """Whole rows in one forward."""
        lengths = [len(row) for row in rows]
        states, masks = self._embed(rows), self._encoder.masks(lengths)
        for number in range(self._encoder.num_layers):
            states = self._encoder.run_layer(number, states, masks)
        return self._results(states, lengths)

    def begin(self, row: tuple[int, ...]) -> LongRow:
        return LongRow(row, self._embed([row]), self._encoder.num_layers)

    def go_on(self, long: LongRow, num_tokens: int) -> list[Any] | None:
        """At least one layer; the result with the last one."""
        length = len(long.token_ids)
        masks = self._encoder.masks([length])
        stop = long.layers_done + max(1, num_tokens * long.num_layers // length)
        for number in range(long.layers_done, min(stop, long.num_layers)):
            long.states = self._encoder.run_layer(number, long.states, masks)
            long.layers_done = number + 1
        mx.eval(long.states)
        return None if long.num_left else self._results(long.states, [length])

    def event(self, result: Any, *, place: int, dimensions: int | None) -> wire.Event:
        return as_event(result, place=place, dimensions=dimensions, pooling=self._pooling)

    def _embed(self, rows: Sequence[tuple[int, ...]]) -> mx.array:
        longest = max(map(len, rows))
        ids = np.zeros((len(rows), longest), np.uint32)
        for row, place in zip(rows, ids, strict=True):
            place[: len(row)] = row
        return self._encoder.embed(mx.array(ids), mx.array(self._types(ids)))

    def _types(self, ids: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
        """Which text each token belongs to: 0, or 1 behind the first separator."""
        is_end = ids == self._separator_id
        types: np.ndarray[Any, Any] = (np.cumsum(is_end, axis=1) > is_end).astype(np.uint32)
        return types

    def _results(self, states: mx.array, lengths: list[int]) -> list[Any]:
        states = self._encoder.finish(states)
        if self._pooling is None:
            logits = self._encoder.score(states, lengths).astype(mx.float32)
            return list(np.array(mx.sigmoid(logits[:, 0])))
        pooled = _pooled(states.astype(mx.float32), lengths, self._pooling.kind)
        return list(np.array(normalized(pooled) if self._pooling.is_normalized else pooled))


def open_encoder(encoder: Encoder, spec: wire.ModelSpec) -> EncoderRunner:
    """Raises LoadFailed for a folder that does not say what is needed."""
    path = Path(spec.path)
    if spec.kind is wire.ModelKind.RERANK:
        if not hasattr(encoder, "head"):
            raise LoadFailed("it was not trained to score: its config names no such head")
        return EncoderRunner(encoder, pooling=None, separator_id=_separator_id(path))
    return EncoderRunner(encoder, pooling=read_pooling(path, default=PoolingKind.MEAN))


def _pooled(states: mx.array, lengths: list[int], kind: PoolingKind) -> mx.array:
    match kind:
        case PoolingKind.MEAN:
            return mean_state(states, lengths)
        case PoolingKind.LAST:
            return last_state(states, lengths)
    return states[:, 0]


def _separator_id(path: Path) -> int:
    """The token that ends the first of two texts."""
    try:
        pair = tokenizers.Tokenizer.from_file(str(path / "tokenizer.json")).encode("", "")
    except Exception as error:  # the library raises plain Exception
        raise LoadFailed("its tokenizer.json cannot be read") from error
    first = [one for one, kind in zip(pair.ids, pair.type_ids, strict=True) if kind == 0]
    if not first:
        raise LoadFailed("its tokenizer puts no token between two texts")
    return int(first[-1])
