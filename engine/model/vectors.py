"""Rows of tokens into vectors or scores, with a causal model of mlx_lm. It knows no requests.

Rows are padded on the right: what stands there cannot be seen by the tokens before it. A long row
is computed in pieces on a cache of its own, so that decoding rows wait for a piece only.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import mlx.core as mx
import numpy as np

from engine import wire
from engine.model.caches import evaluate, new_caches
from engine.model.encoder_parts import last_state, mean_state
from engine.model.loader import LoadFailed
from engine.model.sentence_files import Pooling, PoolingKind, read_pooling
from engine.model.vector_results import as_event, normalized

_YES, _NO = "yes", "no"


@dataclasses.dataclass(slots=True)
class LongRow:
    """A row that is computed in pieces. Owner: the model thread."""

    token_ids: tuple[int, ...]
    caches: list[Any]
    num_computed: int = 0
    total: mx.array | None = None  # of the states so far, where their mean is wanted

    @property
    def num_left(self) -> int:
        return len(self.token_ids) - self.num_computed


class VectorRunner:
    """Gives a result per row: a vector, or a score from 0 to 1."""

    def __init__(
        self, model: Any, *, pooling: Pooling | None = None, judge: tuple[int, int] | None = None
    ):
        """`pooling` for a model that gives vectors; `judge`, the token ids of yes and no, for one
        that scores."""
        self._body = model.model
        self._model = model
        self._pooling = pooling
        self._judge = judge

    def run(self, rows: Sequence[tuple[int, ...]]) -> list[Any]:
        """Whole rows in one forward."""
        lengths = [len(row) for row in rows]
        padded = [[*row, *(0 for _ in range(max(lengths) - len(row)))] for row in rows]
        states = self._body(mx.array(padded, mx.uint32)).astype(mx.float32)
        return self._result((mean_state if self._is_mean else last_state)(states, lengths))

    def begin(self, row: tuple[int, ...]) -> LongRow:
        return LongRow(row, new_caches(self._model))

    def go_on(self, long: LongRow, num_tokens: int) -> list[Any] | None:
        """The next piece; the result with the last one."""
        stop = min(long.num_computed + num_tokens, len(long.token_ids))
        piece = long.token_ids[long.num_computed : stop]
        states = self._body(mx.array([piece], mx.uint32), cache=long.caches).astype(mx.float32)
        long.num_computed = stop
        if self._is_mean:
            total = states.sum(axis=1)
            long.total = total if long.total is None else long.total + total
            mx.eval(long.total)
        evaluate(long.caches)
        if long.num_left:
            return None
        return self._result(states[:, -1] if long.total is None else long.total / stop)

    def event(self, result: Any, *, place: int, dimensions: int | None) -> wire.Event:
        return as_event(result, place=place, dimensions=dimensions, pooling=self._pooling)

    @property
    def _is_mean(self) -> bool:
        return self._pooling is not None and self._pooling.kind is PoolingKind.MEAN

    def _result(self, states: mx.array) -> list[Any]:
        if self._judge is not None:
            logits = self._head(states)[:, list(self._judge)]
            return list(np.array(mx.softmax(logits, axis=-1)[:, 0]))
        is_normalized = self._pooling is not None and self._pooling.is_normalized
        return list(np.array(normalized(states) if is_normalized else states))

    def _head(self, states: mx.array) -> mx.array:
        head = getattr(self._model, "lm_head", None) or self._body.embed_tokens.as_linear
        dtype = self._body.norm.weight.dtype
        logits: mx.array = head(states.astype(dtype))
        return logits.astype(mx.float32)


def open_runner(model: Any, tokenizer: Any, spec: wire.ModelSpec) -> VectorRunner:
    """Raises LoadFailed for a model that cannot do what its kind says."""
    if not hasattr(getattr(model, "model", None), "norm"):
        raise LoadFailed("this architecture cannot give vectors")
    if spec.kind is wire.ModelKind.RERANK:
        return VectorRunner(model, judge=_judge(tokenizer))
    pooling = read_pooling(Path(spec.path), default=PoolingKind.LAST)
    if pooling.kind is PoolingKind.FIRST:
        raise LoadFailed("its way of pooling is not supported: a first token sees no other")
    return VectorRunner(model, pooling=pooling)


def _judge(tokenizer: Any) -> tuple[int, int]:
    ids = [tokenizer.encode(word, add_special_tokens=False) for word in (_YES, _NO)]
    if any(len(one) != 1 for one in ids):
        raise LoadFailed("its tokenizer has no single tokens for yes and no")
    return ids[0][0], ids[1][0]
