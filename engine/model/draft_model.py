"""A smaller model that drafts for a larger one of the same vocabulary, a row at a time.

It draws with the row's own sampling and randomness: noise that makes the larger model take an
unlikely token makes the smaller one take it as well. Owner: the model thread.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import mlx.core as mx

from engine.model import caches as row_caches
from engine.model import rewinding
from engine.model.direct_step import Forward
from engine.model.loader import num_weight_bytes
from engine.model.reading import Reader
from engine.model.sampling import BatchSampler, SampledRow

_PORTION_TOKENS = 512  # of a row that is read for the first time, between two of its steps
_TAIL_TOKENS = 64  # more are not drafted


class DraftModel:
    """`decode`: how its decode steps are called. `vocab_size`: of the larger model's logits;
    `own_vocab_size`: of its own."""

    def __init__(
        self, model: Any, decode: Forward, *, vocab_size: int, own_vocab_size: int
    ) -> None:
        self._model, self._decode, self._vocab_size = model, decode, vocab_size
        self._last_token_id = own_vocab_size - 1
        self._reader = Reader(model, getattr(decode, "slice_body", None))
        self._row_id: int | None = None
        self.forget()
        self.token_bytes = self._token_bytes()

    @property
    def weight_bytes(self) -> int:
        return num_weight_bytes(self._model)

    @property
    def num_bytes(self) -> int:
        """Of what it has read."""
        return row_caches.num_bytes(self._caches)

    def forget(self) -> None:
        """What it has read of a row."""
        self._row_id = None
        self._caches = row_caches.new_caches(self._model)
        self._read: list[int] = []  # what the caches hold

    def draft(
        self, row_id: int, token_ids: list[int], row: Callable[[], SampledRow], *, at_most: int
    ) -> tuple[int, ...]:
        """Nothing while it has not read all of the row."""
        if row_id != self._row_id:
            self.forget()
            self._row_id = row_id
        self._take_back(token_ids)
        unread = token_ids[len(self._read) : -1]
        if portion := unread[:_PORTION_TOKENS]:
            self._reader.read(self._known([portion]), self._caches)
            row_caches.start_evaluating(self._caches)
            self._read += portion
        return self._draw(token_ids[-1], row(), at_most) if len(portion) == len(unread) else ()

    def _take_back(self, token_ids: list[int]) -> None:
        """What was drafted wrongly, at the end of what was read."""
        num_right = min(len(self._read), len(token_ids) - 1)
        for place in range(max(0, num_right - _TAIL_TOKENS), num_right):
            if self._read[place] != token_ids[place]:
                num_right = place
                break
        rewinding.cut(self._caches, len(self._read) - num_right)
        del self._read[num_right:]

    def _draw(self, last_token_id: int, row: SampledRow, num_tokens: int) -> tuple[int, ...]:
        sampler, drawn = BatchSampler(), []
        sampler.arrange([row.after((), self._vocab_size)])
        inputs = self._known([last_token_id])
        for _ in range(min(num_tokens, _TAIL_TOKENS)):
            logits = self._decode(inputs[:, None], cache=self._caches)[:, -1]
            inputs = sampler.draw(self._fitted(logits)).token_ids
            mx.async_eval(inputs)  # type: ignore[no-untyped-call]
            drawn.append(inputs)
        token_ids: list[int] = mx.concatenate(drawn).tolist()  # type: ignore[assignment]
        self._read += [last_token_id, *token_ids[:-1]]
        return tuple(token_ids)

    def _known(self, token_ids: list[Any]) -> mx.array:
        """Of padding that only the larger vocabulary has there is no embedding: any will do."""
        return mx.minimum(mx.array(token_ids, mx.uint32), self._last_token_id)

    def _fitted(self, logits: mx.array) -> mx.array:
        """Vocabularies of one family are padded to different sizes; noise depends on the size."""
        missing = self._vocab_size - logits.shape[-1]
        if missing > 0:
            return mx.pad(logits, [(0, 0), (0, missing)], constant_values=-mx.inf)
        return logits[:, : self._vocab_size]

    def _token_bytes(self) -> int:
        self._reader.read(mx.array([[0]], mx.uint32), self._caches)
        num_bytes = row_caches.bytes_per_token(self._caches)
        self.forget()
        return num_bytes
