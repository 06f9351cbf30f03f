"""Attention of decode steps on CUDA, by a kernel of our own (cuda_decode.cu).

Rows of unequal length bring a mask array, with which MLX's fused kernel takes three to seven times
as long there. This one begins each row at its first token, so padding is neither read nor
computed, and it is a single operation for the host to submit. It knows nothing of caches.
"""

from __future__ import annotations

import functools
from typing import Any

import mlx.core as mx

from engine.model.cuda_source import bits_of, make_kernel

_THREADS = 256  # of a block, as in cuda_decode.cu
_ENOUGH_BLOCKS = 256  # two for each processor of a large GPU
_LEAST_PART_KEYS = 256
_MOST_HEADS = 8  # of a block; their sums are kept in registers
_MOST_SIZE = 256
_DTYPES = (mx.float32, mx.float16, mx.bfloat16)

Template = tuple[tuple[str, Any], ...]  # what a kernel is compiled for, by its names in the source

_READ = """
  const bool* allowed = mask_ndim == 4 ? mask : nullptr;
  hearth::attend<T, D, G>(
      hearth::Tokens<T>{queries, queries_strides[0], queries_strides[1], queries_strides[2]},
      queries_strides[3],
      hearth::Tokens<T>{keys, keys_strides[0], keys_strides[1], keys_strides[2]},
      hearth::Tokens<T>{values, values_strides[0], values_strides[1], values_strides[2]},
      keys_shape[2], queries_shape[1] / keys_shape[1], __int_as_float(SCALE),
      hearth::Mask{allowed, mask_strides[0], mask_strides[3]}, starts,
      [=](long long line, float greatest, float total, float sum) {
        %s
      });
"""
_WHOLE = "out[line * D + threadIdx.x] = static_cast<T>(hearth::answer(sum, total));"
_PART = """const long long at = line * gridDim.x + blockIdx.x;
        parts[at * D + threadIdx.x] = sum;
        if (threadIdx.x == 0) scales[at * 2] = greatest, scales[at * 2 + 1] = total;"""
_JOIN = "hearth::join<T, D>(parts, scales, scales_shape[2], out);"
_INPUTS = ["queries", "keys", "values", "mask", "starts"]


def suits(queries: mx.array, keys: mx.array, values: mx.array, mask: Any) -> bool:
    """Whether `attend` takes these: several rows with one query each, a mask of booleans or none,
    all of one dtype and head size."""
    rows, _, num_queries, size = queries.shape
    return (
        rows > 1
        and num_queries == 1
        and queries.dtype in _DTYPES
        and queries.dtype == keys.dtype == values.dtype
        and size == keys.shape[-1] == values.shape[-1]
        and size % 8 == 0
        and size <= _MOST_SIZE
        and (mask is None or _is_of_rows(mask, rows, keys.shape[2]))
    )


def _is_of_rows(mask: Any, rows: int, num_keys: int) -> bool:
    if not isinstance(mask, mx.array) or mask.dtype != mx.bool_:
        return False
    return mask.shape == (rows, 1, 1, num_keys)


def attend(
    queries: mx.array,
    keys: mx.array,
    values: mx.array,
    *,
    scale: float,
    mask: mx.array | None,
    starts: mx.array | None,
) -> mx.array:
    """softmax(q k^T * scale) v: queries [B, H, 1, D], keys and values [B, Hkv, L, D] with the last
    axis dense, result [B, H, 1, D].

    `mask` [B, 1, 1, L]: which keys count. `starts` [B]: the first key of each row, or None.
    """
    rows, heads, _, size = queries.shape
    key_heads, num_keys = keys.shape[1:3]
    group = _group(heads // key_heads)
    template = (("T", queries.dtype), ("D", size), ("G", group), ("SCALE", bits_of(scale)))
    _compile_all(template)
    inputs = [
        queries,
        keys,
        values,
        _everything() if mask is None else mask,
        _from_the_first(rows) if starts is None else starts,
    ]
    return _launch(inputs, template, num_parts=parts_of(rows * heads // group, num_keys))


def _launch(inputs: list[mx.array], template: Template, *, num_parts: int) -> mx.array:
    queries = inputs[0]
    rows, heads, _, size = queries.shape
    group = dict(template)["G"]
    read: dict[str, Any] = {
        "inputs": inputs,
        "template": [*template],
        "grid": (_THREADS * num_parts, heads // group, rows),
        "threadgroup": (_THREADS, 1, 1),
    }
    out: dict[str, Any] = {
        "output_shapes": [(rows, heads, 1, size)],
        "output_dtypes": [queries.dtype],
    }
    if num_parts == 1:
        results: list[mx.array] = _whole()(**read, **out)
    else:
        shapes = [(rows, heads, num_parts, size), (rows, heads, num_parts, 2)]
        parts = _in_parts()(**read, output_shapes=shapes, output_dtypes=[mx.float32] * 2)
        lines = {"grid": (rows * heads * size, 1, 1), "threadgroup": (size, 1, 1)}
        results = _joining()(inputs=parts, template=[*template[:2]], **lines, **out)
    return results[0]


@functools.cache
def _compile_all(template: Template) -> None:
    """Both ways at the first use, which is the loader's self-check: who waits for a token later
    does not wait for a compiler."""
    values = dict(template)
    queries = mx.zeros((2, values["G"], 1, values["D"]), values["T"])
    keys = mx.zeros((2, 1, 2, values["D"]), values["T"])
    inputs = [queries, keys, keys, _everything(), _from_the_first(2)]
    mx.eval([_launch(inputs, template, num_parts=num_parts) for num_parts in (1, 2)])


def parts_of(blocks: int, num_keys: int) -> int:
    """Into how many parts each row's keys are cut, so that few rows fill the device, too."""
    parts = 1
    while blocks * parts < _ENOUGH_BLOCKS and num_keys >= 2 * parts * _LEAST_PART_KEYS:
        parts *= 2
    return parts


def _group(heads_per_key: int) -> int:
    """How many heads a block serves."""
    return max(one for one in range(1, _MOST_HEADS + 1) if heads_per_key % one == 0)


@functools.cache
def _everything() -> mx.array:
    return mx.ones((1,), mx.bool_)


@functools.cache
def _from_the_first(rows: int) -> mx.array:
    return mx.zeros((rows,), mx.int32)


@functools.cache
def _whole() -> Any:
    return _kernel("hearth_attend", _INPUTS, ["out"], _READ % _WHOLE)


@functools.cache
def _in_parts() -> Any:
    return _kernel("hearth_attend_part", _INPUTS, ["parts", "scales"], _READ % _PART)


@functools.cache
def _joining() -> Any:
    return _kernel("hearth_join_parts", ["parts", "scales"], ["out"], _JOIN)


def _kernel(name: str, inputs: list[str], outputs: list[str], body: str) -> Any:
    return make_kernel(name, inputs, outputs, body, header="cuda_decode.cu", copies_views=False)
