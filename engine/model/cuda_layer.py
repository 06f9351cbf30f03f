"""A layer on CUDA, in fewer operations.

What a GPU computes in 4 to 9 ms takes a host 5 to 20 to submit, operation by operation, so these
are what a step costs there. Here three projections are one product and so are gate and up, and what
lies between the products are kernels of our own.
"""

from __future__ import annotations

from typing import Any

import mlx.core as mx
from mlx_lm.models import activations

from engine.model import cuda_gate, cuda_heads
from engine.model.cuda_heads import heads_of
from engine.model.direct_layer import DirectLayer, Function, bound, product_of


def may_take(layer: Any) -> bool:
    """Whether this is all that the kernels know. Its parts are plain ones, in one dtype."""
    is_silu = bound(layer.mlp, "swiglu") is activations.swiglu
    return is_silu and heads_of(layer.self_attn) is not None


class CudaLayer(DirectLayer):
    """Of a layer that it may take."""

    def _take_heads(self, layer: Any) -> None:
        heads = heads_of(layer)
        assert heads is not None
        self._parts, self._project = heads, _merged(layer.q_proj, layer.k_proj, layer.v_proj)

    def _take_gates(self, layer: Any) -> None:
        self._widen = _merged(layer.gate_proj, layer.up_proj)

    def _heads(self, x: mx.array, positions: mx.array) -> tuple[mx.array, mx.array, mx.array]:
        return cuda_heads.prepare(self._parts, self._project(x), positions)

    def _open(self, x: mx.array) -> mx.array:
        return cuda_gate.gate(self._widen(x))


def _merged(*layers: Any) -> Function:
    """The product of linear layers side by side. Their own weights are parts of its, from now on,
    so none is there twice."""
    whole = mx.concatenate([layer.weight for layer in layers])
    ends = [sum(one.weight.shape[0] for one in layers[: n + 1]) for n in range(len(layers) - 1)]
    for layer, weight in zip(layers, mx.split(whole, ends), strict=True):
        layer.weight = weight
    biases = [layer.bias for layer in layers if "bias" in layer]
    mx.eval(whole, [layer.weight for layer in layers])
    return product_of(whole, mx.concatenate(biases) if biases else None)
