"""The gate of a SwiGLU layer on CUDA: both of its halves come out of one product.

silu(x W_gate) * (x W_up),  silu(x) = x / (1 + exp(-x))     (Shazeer, "GLU Variants", 2020)
"""

from __future__ import annotations

import functools
from typing import Any

import mlx.core as mx

from engine.model.cuda_source import make_kernel

_THREADS = 256

_SOURCE = """
  const int width = halves_shape[2] / 2, at = blockIdx.x * blockDim.x + threadIdx.x;
  if (at >= width) return;
  const T* from = halves + static_cast<long long>(blockIdx.y) * 2 * width + at;
  const float x = static_cast<float>(from[0]), up = static_cast<float>(from[width]);
  const float open = x / (1.f + expf(-x));
  gated[static_cast<long long>(blockIdx.y) * width + at] = static_cast<T>(open * up);
"""


def gate(halves: mx.array) -> mx.array:
    """[B, n, 2 N], gates before ups -> [B, n, N]."""
    rows, num_tokens, width = halves.shape
    blocks = -(-width // 2 // _THREADS)
    gated: list[mx.array] = _kernel()(
        inputs=[halves],
        template=[("T", halves.dtype)],
        grid=(blocks * _THREADS, rows * num_tokens, 1),
        threadgroup=(_THREADS, 1, 1),
        output_shapes=[(rows, num_tokens, width // 2)],
        output_dtypes=[halves.dtype],
    )
    return gated[0]


@functools.cache
def _kernel() -> Any:
    return make_kernel("hearth_gate", ["halves"], ["gated"], _SOURCE)
