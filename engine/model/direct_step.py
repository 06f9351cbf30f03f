"""Models that are built as Llama's or Qwen3's without their modules: decode steps, and what
computes slices on CUDA (direct_body.py).

Of a token's time much is the way through Python's objects, layer by layer; on CUDA most is handing
over one operation after the other (cuda_layer.py). Here a layer's arrays are at hand. Models of
other kinds go the family's own way, and so does one that answers otherwise like this when it is
loaded.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from typing import Any

import mlx.core as mx
from mlx import nn
from mlx.utils import tree_flatten
from mlx_lm.models.base import create_attention_mask
from mlx_lm.models.cache import BatchKVCache, KVCache

from engine.model import cuda_heads, kernels
from engine.model.caches import Caches
from engine.model.capability import NO_BATCH_ERRORS, check_steps
from engine.model.cpu_body import FewRowsStep, make_cpu_body
from engine.model.cuda_layer import CudaLayer, may_take
from engine.model.direct_body import DirectBody
from engine.model.direct_layer import DirectLayer, function_of
from engine.model.structure import known_layers, parts_of

Forward = Callable[..., mx.array]

logger = logging.getLogger(__name__)

_PLAIN = (nn.Linear, nn.RMSNorm, *cuda_heads.ROPES)


def finding(model: Any, *, has_batches: bool) -> Iterator[Forward | None]:
    """None after each layer and each forward; at last how decode steps are called: the model, or
    what does the same sooner."""
    step = None
    ways: list[Forward] = []
    num_alike: int | None = 0
    try:
        for step in _making(model):  # noqa: B007 - the last one is it
            yield None
        ways = _ways(model, step)
        for num_alike in check_steps(model, ways, has_batches=has_batches):  # noqa: B007
            yield None
    except NO_BATCH_ERRORS as error:
        logger.warning("decode steps go the model's own way", extra={"error": repr(error)})
        num_alike = 0
    yield [model, *ways][num_alike or 0]


def _ways(model: Any, step: DirectStep | None) -> list[Forward]:
    """The later ones are quicker."""
    if step is None:
        return []
    body = make_cpu_body(model) if kernels.attends_in_numpy(model) else None
    return [step] if body is None else [step, FewRowsStep(body, step)]


def found(model: Any, *, has_batches: bool = True) -> Forward:
    """The last of `finding`."""
    (*_, decode) = finding(model, has_batches=has_batches)
    assert decode is not None
    return decode


class DirectStep:
    """In the place of a model, for one token of each row. `on_cuda`: padding is left out by kernels
    that know where a row begins, every row has a position, and `slice_body` computes slices."""

    def __init__(self, model: Any, layers: list[DirectLayer], *, on_cuda: bool) -> None:
        self._model, self._layers, self._on_cuda = model, layers, on_cuda
        body, head = parts_of(model)
        self._embed, self._norm = body.embed_tokens, function_of(body.norm)
        self._head = function_of(head)
        self.slice_body: DirectBody | None = None
        if on_cuda:
            self.slice_body = DirectBody(
                layers, embed=self._embed, norm=self._norm, head=self._head
            )

    def __call__(self, token_ids: mx.array, *, cache: Caches) -> mx.array:
        """Token ids [B, 1] to logits [B, 1, V], lazily."""
        first = cache[0]
        if type(first) not in (KVCache, BatchKVCache):
            return self._model(token_ids, cache=cache)  # type: ignore[no-any-return]
        x, positions, mask = self._embed(token_ids), first.offset, None
        if not self._on_cuda:
            mask = create_attention_mask(x, first)
        elif not isinstance(positions, mx.array):
            positions = mx.array([positions] * len(token_ids), mx.int32)
        for layer, one in zip(self._layers, cache, strict=True):
            x = layer(x, one, positions, mask)
        return self._head(self._norm(x))


def _making(model: Any) -> Iterator[DirectStep | None]:
    """None for each layer that is made, at last the step; nothing where it is not known."""
    layers = known_layers(model)
    if layers is None:
        return
    on_cuda = kernels.plans_shapes(model)
    if on_cuda and not _is_plain(model, layers):
        return
    made: list[DirectLayer] = []
    for layer in layers:
        made.append(CudaLayer(layer) if on_cuda else DirectLayer(layer))
        yield None
    yield DirectStep(model, made, on_cuda=on_cuda)


def _is_plain(model: Any, layers: list[Any]) -> bool:
    """Whether all parts are what the kernels on CUDA take the place of, in one dtype."""
    parameters: Any = tree_flatten(model.parameters())
    parts = (part for layer in layers for part in layer.modules() if not part.children())
    return (
        len({one.dtype for _, one in parameters}) == 1
        and all(type(part) in _PLAIN for part in parts)
        and all(may_take(layer) for layer in layers)
    )
