"""Attention heads on CUDA, by a kernel of our own (cuda_heads.cu).

Between its projections and its caches an attention layer norms, rotates and lays out queries and
keys, in some ten operations. A GPU computes each in no time, but a host submits them one by one, in
every layer. This is one.
"""

from __future__ import annotations

import dataclasses
import functools
import math
from typing import Any, NamedTuple

import mlx.core as mx
from mlx import nn
from mlx_lm.models.rope_utils import Llama3RoPE

from engine.model.cuda_source import bits_of, make_kernel

ROPES = (nn.RoPE, Llama3RoPE)
_WARP = 32
_MOST_SIZE = 256

_SOURCE = """
  const int head = blockIdx.x, num_tokens = projected_shape[1];
  const int row = blockIdx.y / num_tokens, token = blockIdx.y % num_tokens;
  const bool is_query = head < H, is_key = !is_query && head < H + HKV;
  const T* from = projected + (static_cast<long long>(blockIdx.y) * (H + 2 * HKV) + head) * D;
  const long long place = is_query ? static_cast<long long>(row) * H + head
                                   : static_cast<long long>(row) * HKV + (head - H) % HKV;
  T* to = (is_query ? queries : is_key ? keys : values) + (place * num_tokens + token) * D;
  __shared__ T normed[D];
  if (IS_NORMED && (is_query || is_key)) {
    hearth::norm<T, D>(from, is_query ? query_weight : key_weight, __int_as_float(EPS), normed);
    __syncwarp();
    from = normed;
  }
  if (is_query || is_key) {
    const float distance = __int_as_float(SCALE) * static_cast<float>(positions[row] + token);
    hearth::rotate<T, D, R, ARE_NEIGHBOURS>(
        from, distance, HAS_FREQS ? freqs : nullptr, __int_as_float(LOG2_BASE), to);
  } else {
    for (int i = threadIdx.x; i < D; i += hearth::WARP) to[i] = from[i];
  }
"""
_INPUTS = ["projected", "query_weight", "key_weight", "positions", "freqs"]
_OUTPUTS = ["queries", "keys", "values"]


class Form(NamedTuple):
    """How many heads of how many numbers, and what is done with queries and keys: the first
    `rotated` numbers are turned by angles of scale * position / freq, where freqs are given or
    powers of `base`; neighbours are pairs, or the two halves are. `eps`: of the norms; None: there
    are none."""

    num_heads: int
    num_key_heads: int
    size: int
    rotated: int
    are_neighbours: bool
    scale: float
    base: float
    has_freqs: bool
    eps: float | None


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Heads:
    """`weights`: of the norms of queries and keys [size], and `freqs` [rotated / 2], where there
    are any; something else where not."""

    form: Form
    weights: tuple[mx.array, mx.array]
    freqs: mx.array


def heads_of(layer: Any) -> Heads | None:
    """Of an attention layer as Llama's or Qwen3's. None: one part is of another kind."""
    rope, norms = layer.rope, [layer[name] for name in ("q_norm", "k_norm") if name in layer]
    size = layer.k_proj.weight.shape[0] // layer.n_kv_heads
    if type(rope) not in ROPES or not _are_alike(norms) or size % 8 or size > _MOST_SIZE:
        return None
    has_freqs = type(rope) is Llama3RoPE
    form = Form(
        num_heads=layer.n_heads,
        num_key_heads=layer.n_kv_heads,
        size=size,
        rotated=rope.dims,
        are_neighbours=bool(rope.traditional),
        scale=1.0 if has_freqs else rope.scale,
        base=1.0 if has_freqs else rope.base,
        has_freqs=has_freqs,
        eps=norms[0].eps if norms else None,
    )
    dtype = layer.k_proj.weight.dtype
    first, second = [norm.weight for norm in norms] or [mx.zeros((1,), dtype)] * 2
    freqs = rope["_freqs"] if has_freqs else mx.zeros((1,))
    return Heads(form=form, weights=(first, second), freqs=freqs)


def _are_alike(norms: list[Any]) -> bool:
    return all(type(one) is nn.RMSNorm and one.eps == norms[0].eps for one in norms)


def prepare(
    heads: Heads, projected: mx.array, positions: mx.array
) -> tuple[mx.array, mx.array, mx.array]:
    """Queries [B, H, n, size], keys and values [B, Hkv, n, size] of `projected`, which has them all
    in a row [B, n, (H + 2 Hkv) * size]. `positions` [B]: of the first tokens."""
    form, dtype = heads.form, projected.dtype
    rows, num_tokens, _ = projected.shape
    counts = (form.num_heads, form.num_key_heads, form.num_key_heads)
    queries, keys, values = _kernel()(
        inputs=[projected, *heads.weights, positions, heads.freqs],
        template=_template(dtype, form),
        grid=(_WARP * sum(counts), rows * num_tokens, 1),
        threadgroup=(_WARP, 1, 1),
        output_shapes=[(rows, count, num_tokens, form.size) for count in counts],
        output_dtypes=[dtype] * 3,
    )
    return queries, keys, values


@functools.cache
def _template(dtype: mx.Dtype, form: Form) -> list[tuple[str, Any]]:
    """What the kernel is compiled for, by its names in the source."""
    return [
        ("T", dtype),
        ("H", form.num_heads),
        ("HKV", form.num_key_heads),
        ("D", form.size),
        ("R", form.rotated),
        ("ARE_NEIGHBOURS", form.are_neighbours),
        ("HAS_FREQS", form.has_freqs),
        ("IS_NORMED", form.eps is not None),
        ("SCALE", bits_of(form.scale)),
        ("LOG2_BASE", bits_of(math.log2(form.base))),
        ("EPS", bits_of(form.eps or 0.0)),
    ]


@functools.cache
def _kernel() -> Any:
    return make_kernel("hearth_heads", _INPUTS, _OUTPUTS, _SOURCE, header="cuda_heads.cu")
