"""A decode step on CUDA, of models that are built as Llama's or Qwen3's, in fewer operations.

What a GPU computes in 4 to 9 ms takes a host 5 to 20 to submit, operation by operation, so these
are what a step costs. Here a layer's three projections are one product and so are its gate and its
up, and what lies between the products are kernels of our own.

mlx-lm's families write their layers alike, many to the letter: where a layer's code is the same as
Llama's or Qwen3's, so is what it computes. Prompts, and models of other kinds, go the family's own
way.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import mlx.core as mx
from mlx import nn
from mlx.utils import tree_flatten
from mlx_lm.models import llama, qwen3
from mlx_lm.models.cache import BatchKVCache, KVCache

from engine.model import cuda_gate, cuda_heads, kernels
from engine.model.caches import Caches, new_caches
from engine.model.capability import answer_alike
from engine.model.cuda_attention import attention
from engine.model.cuda_heads import Heads, heads_of
from engine.model.reading import parts_of

Forward = Callable[..., mx.array]

_PARTS = (nn.Linear, nn.RMSNorm, *cuda_heads.ROPES)


def decoding(model: Any) -> Forward:
    """How this model's decode steps are called: itself, or what does the same sooner."""
    step = _step_of(model) if kernels.plans_shapes(model) else None
    return model if step is None or not answer_alike(model, step) else step


def _step_of(model: Any) -> Forward | None:
    body, head = parts_of(model)
    layers = getattr(body, "layers", None)
    if not layers or head is None or not all(map(_is_known, layers)):
        return None
    parameters: Any = tree_flatten(model.parameters())
    dtypes = {one.dtype for _, one in parameters}
    if len(dtypes) > 1 or any(type(one) is not KVCache for one in new_caches(model)):
        return None
    heads = [heads_of(layer.self_attn) for layer in layers]
    if None in heads:
        return None
    made = [_Layer(layer, one) for layer, one in zip(layers, heads, strict=True) if one]
    return _Step(model, body, head, made)


def _is_known(layer: Any) -> bool:
    """Whether it is written as Llama's, or Qwen3's, and of plain parts."""
    return (
        _says_the_same(layer, llama.TransformerBlock)
        and _says_the_same(layer.self_attn, llama.Attention, qwen3.Attention)
        and _says_the_same(layer.mlp, llama.MLP)
        and all(type(part) in _PARTS for part in layer.modules() if not part.children())
    )


def _says_the_same(part: Any, *known: Any) -> bool:
    return _text_of(type(part)) in map(_text_of, known)


def _text_of(kind: Any) -> Any:
    """All that the code of its call says, wherever it stands."""
    code = getattr(kind.__call__, "__code__", None)
    return code and (code.co_code, code.co_names, code.co_varnames, code.co_consts)


class _Product:
    """x W + b of linear layers side by side. Their own weights are parts of its, from now on, so
    none is there twice."""

    def __init__(self, *layers: Any) -> None:
        whole = mx.concatenate([layer.weight for layer in layers])
        ends = [sum(one.weight.shape[0] for one in layers[: n + 1]) for n in range(len(layers) - 1)]
        for layer, weight in zip(layers, mx.split(whole, ends), strict=True):
            layer.weight = weight
        biases = [layer.bias for layer in layers if "bias" in layer]
        self._bias = mx.concatenate(biases) if biases else None
        self._weight = whole.T  # [inputs, outputs]
        mx.eval(self._weight, self._bias, [layer.weight for layer in layers])

    def __call__(self, x: mx.array) -> mx.array:
        if self._bias is None:
            return x @ self._weight
        return mx.addmm(self._bias, x, self._weight)


class _Layer:
    """`x` [B, 1, hidden] before and after."""

    def __init__(self, layer: Any, heads: Heads) -> None:
        attends, thinks = layer.self_attn, layer.mlp
        self._heads, self._scale = heads, attends.scale
        self._norms = [layer.input_layernorm, layer.post_attention_layernorm]
        self._project = _Product(attends.q_proj, attends.k_proj, attends.v_proj)
        self._join = _Product(attends.o_proj)
        self._widen = _Product(thinks.gate_proj, thinks.up_proj)
        self._narrow = _Product(thinks.down_proj)

    def __call__(self, x: mx.array, cache: Any, positions: mx.array) -> mx.array:
        projected = self._project(_normed(x, self._norms[0]))
        queries, keys, values = cuda_heads.prepare(self._heads, projected, positions)
        keys, values = cache.update_and_fetch(keys, values)
        answer = attention(queries, keys, values, cache, self._scale, None)
        x = x + self._join(answer.reshape(x.shape[0], 1, -1))
        open_gates = cuda_gate.gate(self._widen(_normed(x, self._norms[1])))
        return x + self._narrow(open_gates)


class _Step:
    """In the place of a model, for one token of each row."""

    def __init__(self, model: Any, body: Any, head: Forward, layers: list[_Layer]) -> None:
        self._model, self._body, self._head, self._layers = model, body, head, layers

    def __call__(self, token_ids: mx.array, *, cache: Caches) -> mx.array:
        """Token ids [B, 1] to logits [B, 1, V], lazily."""
        rows, first = len(token_ids), cache[0]
        if not (type(first) is KVCache or (type(first) is BatchKVCache and rows > 1)):
            return self._model(token_ids, cache=cache)  # type: ignore[no-any-return]
        positions = first.offset
        if not isinstance(positions, mx.array):
            positions = mx.array([positions] * rows, mx.int32)
        x = self._body.embed_tokens(token_ids)
        for layer, one in zip(self._layers, cache, strict=True):
            x = layer(x, one, positions)
        return self._head(self._body.norm(x))


def _normed(x: mx.array, norm: nn.RMSNorm) -> mx.array:
    return mx.fast.rms_norm(x, norm.weight, norm.eps)
