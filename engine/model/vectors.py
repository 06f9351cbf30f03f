"""Rows of tokens into vectors or scores, with a causal model of mlx_lm. It knows no requests.

Rows are padded on the right: what stands there cannot be seen by the tokens before it. A long row
is computed in pieces on a cache of its own, so that decoding rows wait for a piece only.
"""

from __future__ import annotations

import base64
import dataclasses
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import mlx.core as mx
import numpy as np

from engine import wire
from engine.model.caches import evaluate, new_caches
from engine.model.loader import LoadFailed

_YES, _NO = "yes", "no"


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Pooling:
    """How one vector is made of all tokens' states: their mean, or the last one's."""

    is_mean: bool = False


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
    """Gives a result per row: a vector of length 1, or a score."""

    def __init__(self, model: Any, *, pooling: Pooling, judge: tuple[int, int] | None = None):
        """`judge`: the token ids of yes and no, for a model that scores."""
        self._body = model.model
        self._model = model
        self._pooling = pooling
        self._judge = judge

    def run(self, rows: Sequence[tuple[int, ...]]) -> list[Any]:
        """Whole rows in one forward."""
        lengths = mx.array([len(row) for row in rows])
        longest = max(map(len, rows))
        padded = [[*row, *(0 for _ in range(longest - len(row)))] for row in rows]
        states = self._body(mx.array(padded, mx.uint32)).astype(mx.float32)
        if self._pooling.is_mean:
            is_real = mx.arange(longest)[None, :] < lengths[:, None]
            total = mx.where(is_real[:, :, None], states, 0).sum(axis=1)
            return self._result(total / lengths[:, None])
        return self._result(states[mx.arange(len(rows)), lengths - 1])

    def begin(self, row: tuple[int, ...]) -> LongRow:
        return LongRow(row, new_caches(self._model))

    def go_on(self, long: LongRow, num_tokens: int) -> list[Any] | None:
        """The next piece; the result with the last one."""
        stop = min(long.num_computed + num_tokens, len(long.token_ids))
        piece = long.token_ids[long.num_computed : stop]
        states = self._body(mx.array([piece], mx.uint32), cache=long.caches).astype(mx.float32)
        long.num_computed = stop
        if self._pooling.is_mean:
            total = states.sum(axis=1)
            long.total = total if long.total is None else long.total + total
            mx.eval(long.total)
        evaluate(long.caches)
        if long.num_left:
            return None
        mean = long.total / stop if long.total is not None else states[:, -1]
        return self._result(mean)

    def event(self, result: Any, *, place: int, dimensions: int | None) -> wire.Event:
        """One row's result as the wire carries it."""
        if self._judge is not None:
            return wire.Scored(place=place, score=float(result))
        return wire.Embedded(place=place, vector=vector_text(result, dimensions))

    def _result(self, states: mx.array) -> list[Any]:
        if self._judge is None:
            length = mx.linalg.norm(states, axis=-1, keepdims=True)
            return list(np.array(states / mx.maximum(length, 1e-12)))
        logits = self._head(states)[:, list(self._judge)]
        return list(np.array(mx.softmax(logits, axis=-1)[:, 0]))

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
        return VectorRunner(model, pooling=Pooling(), judge=_judge(tokenizer))
    return VectorRunner(model, pooling=_read_pooling(Path(spec.path)))


def vector_text(vector: np.ndarray[Any, Any], dimensions: int | None) -> str:
    """As the wire carries it. A shortened vector is brought to length 1 again."""
    shown = vector[:dimensions].astype("<f4")
    if dimensions is not None:
        shown = shown / max(float(np.linalg.norm(shown)), 1e-12)
    return base64.b64encode(shown.astype("<f4").tobytes()).decode()


def _judge(tokenizer: Any) -> tuple[int, int]:
    ids = [tokenizer.encode(word, add_special_tokens=False) for word in (_YES, _NO)]
    if any(len(one) != 1 for one in ids):
        raise LoadFailed("its tokenizer has no single tokens for yes and no")
    return ids[0][0], ids[1][0]


def _read_pooling(path: Path) -> Pooling:
    """As sentence-transformers writes it; without a word, the last token's state counts."""
    try:
        settings = json.loads((path / "1_Pooling" / "config.json").read_text("utf-8"))
    except FileNotFoundError:
        return Pooling()
    except (OSError, ValueError) as error:
        raise LoadFailed(f"its 1_Pooling/config.json cannot be read: {error}") from error
    if settings.get("pooling_mode_mean_tokens"):
        return Pooling(is_mean=True)
    if settings.get("pooling_mode_lasttoken"):
        return Pooling()
    raise LoadFailed("its way of pooling is not supported: only the mean and the last token are")
