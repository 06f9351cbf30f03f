"""A layer of a decode step on CUDA, in fewer operations.

What a GPU computes in 4 to 9 ms takes a host 5 to 20 to submit, operation by operation, so these
are what a step costs there. Here three projections are one product and so are gate and up, and what
lies between the products are kernels of our own.
"""

from __future__ import annotations

from typing import Any

import mlx.core as mx

from engine.model import cuda_gate, cuda_heads
from engine.model.cuda_heads import Heads
from engine.model.direct_layer import DirectLayer, Function, product_of


class CudaLayer(DirectLayer):
    def __init__(self, layer: Any, heads: Heads) -> None:
        attends, thinks = layer.self_attn, layer.mlp
        self._in_one = _merged(attends.q_proj, attends.k_proj, attends.v_proj)
        self._widen = _merged(thinks.gate_proj, thinks.up_proj)
        super().__init__(layer)
        self._parts = heads

    def _heads(self, x: mx.array, positions: mx.array) -> tuple[mx.array, mx.array, mx.array]:
        return cuda_heads.prepare(self._parts, self._in_one(x), positions)

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
