"""The kernel for single queries on CUDA: what it takes, and, where it runs, its sums.

`test_kernels.py` holds who calls it, and with what.
"""

from __future__ import annotations

import math
from typing import Any

import mlx.core as mx
import pytest

from engine.model import cuda_decode

DTYPES = (mx.float32, mx.float16, mx.bfloat16)
on_cuda = pytest.mark.skipif(not mx.cuda.is_available(), reason="needs an NVIDIA GPU")


def rows_of(
    lengths: list[int], *, heads: int, key_heads: int, size: int, dtype: mx.Dtype = mx.float32
) -> tuple[mx.array, mx.array, mx.array, mx.array]:
    """Queries, keys and values as a batch has them, views of longer buffers padded on the left;
    and the first key of each row."""
    mx.random.seed(7)
    longest = max(lengths)
    queries = mx.random.normal((len(lengths), 1, heads, size)).astype(dtype).swapaxes(1, 2)
    shape = (len(lengths), key_heads, longest + 100, size)
    keys, values = (mx.random.normal(shape).astype(dtype)[..., :longest, :] for _ in range(2))
    return queries, keys, values, mx.array([longest - length for length in lengths])


def mask_of(starts: mx.array, num_keys: int) -> mx.array:
    return mx.arange(num_keys)[None, None, None] >= starts[:, None, None, None]


def exact(queries: mx.array, keys: mx.array, values: mx.array, mask: Any) -> mx.array:
    """In float32 on the CPU: products on CUDA round to TF32."""
    with mx.stream(mx.cpu):
        group = queries.shape[1] // keys.shape[1]
        q, k, v = (one.astype(mx.float32) for one in (queries, keys, values))
        k, v = (mx.repeat(one, group, axis=1) for one in (k, v))
        scores = (q @ k.swapaxes(-1, -2)) * queries.shape[-1] ** -0.5
        if mask is not None:
            scores = mx.where(mask, scores, -mx.inf)
        result = mx.softmax(scores, axis=-1) @ v
        mx.eval(result)
    return result


@on_cuda
@pytest.mark.parametrize("is_masked", [True, False])
@pytest.mark.parametrize(
    ("heads", "key_heads", "size"),
    [(4, 2, 64), (32, 8, 128), (16, 2, 128), (4, 1, 256), (14, 2, 64), (12, 1, 96), (40, 40, 80)],
)
def test_it_equals_exact_sums(heads: int, key_heads: int, size: int, is_masked: bool) -> None:
    lengths = [1, 37, 700, 1500] if is_masked else [1500] * 4
    queries, keys, values, starts = rows_of(lengths, heads=heads, key_heads=key_heads, size=size)
    mask = mask_of(starts, 1500) if is_masked else None
    for dtype, tolerance in zip(DTYPES, (1e-5, 2e-3, 2e-2), strict=True):
        given = [one.astype(dtype) for one in (queries, keys, values)]
        assert cuda_decode.suits(*given, mask)
        found = cuda_decode.attend(
            *given, scale=size**-0.5, mask=mask, starts=starts if is_masked else None
        )
        assert found.dtype == dtype
        difference = mx.abs(found.astype(mx.float32) - exact(*given, mask)).max().item()
        assert difference < tolerance, (dtype, difference)


@on_cuda
def test_keys_that_a_mask_leaves_out_behind_the_first_do_not_count() -> None:
    queries, keys, values, starts = rows_of([500, 300], heads=4, key_heads=2, size=64)
    mask = mask_of(starts, 500) & (mx.arange(500) % 3 != 1)
    found = cuda_decode.attend(queries, keys, values, scale=0.125, mask=mask, starts=None)
    assert mx.allclose(found, exact(queries, keys, values, mask), atol=1e-5)


@on_cuda
def test_padding_is_not_read_and_a_row_without_keys_is_zeros() -> None:
    queries, keys, values, _ = rows_of([400, 400, 400], heads=4, key_heads=2, size=64)
    keys[1, :, :390], values[1, :, :390] = math.nan, math.nan
    starts = mx.array([0, 390, 400])
    mask = mask_of(starts, 400)
    found = cuda_decode.attend(queries, keys, values, scale=0.125, mask=mask, starts=starts)
    assert not mx.isnan(found).any()
    assert not found[2].any()


def test_what_it_does_not_take_is_said() -> None:
    queries, keys, values, starts = rows_of([9, 5, 7], heads=4, key_heads=2, size=64)
    mask = mask_of(starts, 9)
    assert cuda_decode.suits(queries, keys, values, mask)
    assert cuda_decode.suits(queries, keys, values, None)
    one = [array[:1] for array in (queries, keys, values)]
    assert not cuda_decode.suits(*one, None), "a row that is alone"
    assert not cuda_decode.suits(mx.repeat(queries, 2, axis=2), keys, values, None)
    assert not cuda_decode.suits(queries, keys, values, "causal")
    assert not cuda_decode.suits(queries, keys, values, mx.where(mask, 0.0, -mx.inf))
    assert not cuda_decode.suits(queries, keys, values, mask[:1]), "a mask for all rows"
    assert not cuda_decode.suits(queries, keys.astype(mx.float16), values, None)
    assert not cuda_decode.suits(queries, keys, values[..., :32], None)
    narrow = [array[..., :60] for array in (queries, keys, values)]
    assert not cuda_decode.suits(*narrow, None), "numbers are read eight at a time"


@pytest.mark.parametrize(
    ("blocks", "num_keys", "parts"),
    [(512, 100_000, 1), (256, 4096, 1), (64, 8192, 4), (16, 32_000, 16), (16, 500, 1), (8, 512, 2)],
)
def test_few_rows_are_cut_into_parts(blocks: int, num_keys: int, parts: int) -> None:
    assert cuda_decode.parts_of(blocks, num_keys) == parts


@pytest.mark.parametrize(("heads_per_key", "group"), [(1, 1), (4, 4), (7, 7), (8, 8), (12, 6)])
def test_a_block_serves_heads_that_share_keys(heads_per_key: int, group: int) -> None:
    assert cuda_decode._group(heads_per_key) == group
