"""Reading a slice of a prompt: no more of the model is computed than is wanted of it.

That is what its caches hold, and where the slice draws, the logits of its last position. mlx-lm's
models give logits for every position, which for a large vocabulary is a good part of a slice's work
and most of its memory. Nearly all of them are a body (`model`, `backbone`) and a head (`lm_head`,
or the embedding): where these two give the same bits as the whole model, they serve for it.

Of the last layer only keys and values are kept, and the last position's state goes on. What nobody
asks for is never evaluated; so there the last layer is called twice, for its last position and for
those before. Models that are built as Llama's go other ways on x86 processors (cpu_body.py) and on
CUDA (direct_body.py), where these give much the same.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import mlx.core as mx
from mlx.utils import tree_flatten
from mlx_lm.models.cache import KVCache

from engine.model import caches as row_caches
from engine.model import cpu_attention, kernels
from engine.model.caches import Caches
from engine.model.cpu_body import CpuBody, make_cpu_body
from engine.model.direct_body import DirectBody
from engine.model.structure import parts_of

_PROBE = ((11, 7, 5, 13, 17),)
_CUT = 2  # the probe is read in two slices
_TOLERANCE = 0.05  # of the largest logit: one position is not computed as several are

_OTHERWISE = (TypeError, ValueError, AttributeError, RuntimeError)  # it wants something else

LastLogits = Callable[[mx.array, Caches], mx.array]


class Reader:
    """`logits`: of token ids [B, n] and caches, those of the last position [B, V]. None
    where body and head are not the whole model, or cannot be told apart. `trims`: no more of the
    last layer is computed than is wanted."""

    def __init__(self, model: Any, direct_body: DirectBody | None = None) -> None:
        self._model = model
        self.trims = False
        body, head = parts_of(model)
        self._layers: Any = getattr(body, "layers", None) or getattr(model, "layers", None)
        self._own_body: CpuBody | DirectBody | None = None
        self.logits = self._find_logits(body, head)
        whole = self._probe()
        is_same = _is_same(whole, self._trimmed_probe())
        self.trims = self.trims and is_same
        if self.trims and self.logits is not None:
            in_numpy = kernels.attends_in_numpy(model)
            self._try(make_cpu_body(model) if in_numpy else direct_body, whole)

    def read(self, token_ids: mx.array, caches: Caches) -> None:
        """Fill the caches; in MLX lazily."""
        if self._own_body is not None and are_plain(caches):
            return self._own_body.read(token_ids, caches)
        with self._trimming(wants_last=False):
            self._model(token_ids, cache=caches)

    def all_logits(self, token_ids: mx.array, caches: Caches) -> mx.array:
        """Of every one of a few tokens [1, n]: [n, V]."""
        if isinstance(self._own_body, CpuBody) and are_plain(caches):
            return self._own_body.all_logits(token_ids, caches)[0]
        logits: mx.array = self._model(token_ids, cache=caches)
        return logits[0]

    @property
    def bytes_for(self) -> Callable[[int], int] | None:
        """What reading so many tokens takes, where that is not MLX's."""
        return None if self._own_body is None else self._own_body.bytes_for

    def _find_logits(self, body: Any, head: Any) -> LastLogits | None:
        if body is None or head is None or not _are_whole(self._model, body, head):
            return None

        def logits(token_ids: mx.array, caches: Caches) -> mx.array:
            if self._own_body is not None and are_plain(caches):
                return self._own_body.logits(token_ids, caches)
            with self._trimming(wants_last=True):
                states = body(token_ids, cache=caches)
            of_last: mx.array = head(states[:, -1:, :])
            return of_last[:, -1, :]

        return logits

    def _try(self, body: CpuBody | DirectBody | None, whole: list[mx.array]) -> None:
        """It is used where it gives what the whole model does."""
        self._own_body = body
        try:
            is_same = body is not None and _is_same(whole, self._probe())
        except _OTHERWISE:
            is_same = False
        if not is_same:
            self._own_body = None

    @contextmanager
    def _trimming(self, *, wants_last: bool) -> Iterator[None]:
        if not self.trims:
            yield
            return
        whole = self._layers[-1]
        trimmed = self._layers[-1] = _Trimmed(whole, wants_last=wants_last)
        try:
            yield
            self.trims = trimmed.was_called  # some families call a copy of the list
        finally:
            self._layers[-1] = whole

    def _probe(self) -> list[mx.array]:
        """The caches after a few tokens, and logits where they can be had."""
        caches = row_caches.new_caches(self._model)
        tokens = mx.array(_PROBE, mx.uint32)
        self.read(tokens[:, :_CUT], caches)
        logits = [self.logits(tokens[:, _CUT:], caches)] if self.logits else []
        if not logits:
            self.read(tokens[:, _CUT:], caches)
        held: Any = tree_flatten([cache.state for cache in caches])
        return [one for _, one in held if isinstance(one, mx.array)] + logits

    def _trimmed_probe(self) -> list[mx.array] | None:
        if not isinstance(self._layers, list):
            return None
        self.trims = True
        try:
            return self._probe()
        except _OTHERWISE:
            return None


class _Trimmed:
    """In the place of a model's last layer during one call."""

    def __init__(self, layer: Any, *, wants_last: bool) -> None:
        self._layer = layer
        self._wants_last = wants_last
        self.was_called = False

    def __getattr__(self, name: str) -> Any:
        return getattr(self._layer, name)

    def __call__(self, states: mx.array, *arguments: Any, **named: Any) -> Any:
        """`states` [B, n, D]: those of the last position, or what nobody may look at. Arrays among
        the arguments, as a mask, are for all positions: then so is the answer."""
        self.was_called = True
        if not self._wants_last:
            with cpu_attention.unwanted():
                return self._layer(states, *arguments, **named)
        if any(isinstance(one, mx.array) for one in (*arguments, *named.values())):
            return self._layer(states, *arguments, **named)
        if states.shape[1] > 1:
            with cpu_attention.unwanted():
                self._layer(states[:, :-1], *arguments, **named)
        return self._layer(states[:, -1:], *arguments, **named)


def _are_whole(model: Any, body: Any, head: Any) -> bool:
    probe = mx.array(_PROBE, mx.uint32)
    whole = model(probe, cache=row_caches.new_caches(model))
    try:
        parts = head(body(probe, cache=row_caches.new_caches(model)))
    except (TypeError, ValueError, AttributeError):  # it wants other arguments
        return False
    return bool(mx.array_equal(whole, parts))


def are_plain(caches: Caches) -> bool:
    return all(type(one) is KVCache for one in caches)


def _is_same(whole: list[mx.array], trimmed: list[mx.array] | None) -> bool:
    if trimmed is None or [one.shape for one in whole] != [one.shape for one in trimmed]:
        return False
    return all(
        bool(mx.abs(one - other).max() <= _TOLERANCE * mx.abs(one).max())
        for one, other in zip(whole, trimmed, strict=True)
        if one.size
    )
