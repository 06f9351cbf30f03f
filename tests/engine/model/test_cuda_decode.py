"""The kernel for single queries on CUDA: what it takes, and, where it runs, its sums.

`test_kernels.py` holds who calls it, and with what.
"""

from __future__ import annotations

import math
import struct
from typing import Any

import mlx.core as mx
import pytest

from engine.model import cuda_decode

DTYPES = (mx.float32, mx.float16, mx.bfloat16)
EVERY_KERNEL = ["whole", "in_parts", "joining"]
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


@on_cuda
@pytest.mark.parametrize("num_keys", [40, 6000], ids=["whole", "in parts"])
@pytest.mark.parametrize("place", ["keys", "values"])
def test_what_is_no_number_stays_none_in_its_row(place: str, num_keys: int) -> None:
    queries, keys, values, _ = rows_of([num_keys] * 2, heads=4, key_heads=2, size=64)
    broken = keys if place == "keys" else values
    broken[1, :, 7] = math.nan
    found = cuda_decode.attend(queries, keys, values, scale=0.125, mask=None, starts=None)
    assert mx.isnan(found[1]).all()
    assert not mx.isnan(found[0]).any()


class FakeKernels:
    """What cuda_decode.cu does with what it is launched with, in plain sums."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.names: list[str] = []
        for name in EVERY_KERNEL:
            monkeypatch.setattr(cuda_decode, f"_{name}", lambda name=name: getattr(self, name))

    def whole(self, **launch: Any) -> list[mx.array]:
        self.names.append("whole")
        assert launch["grid"][0] == launch["threadgroup"][0]
        sums, scales = self._parts(launch)
        return self._checked(launch, [(sums / scales[..., 1:])[:, :, 0][:, :, None]])

    def in_parts(self, **launch: Any) -> list[mx.array]:
        self.names.append("in_parts")
        return self._checked(launch, list(self._parts(launch)))

    def joining(self, **launch: Any) -> list[mx.array]:
        self.names.append("joining")
        sums, scales = launch["inputs"]
        rows, heads, _, size = sums.shape
        assert launch["grid"] == (rows * heads * size, 1, 1)
        assert launch["threadgroup"] == (size, 1, 1)
        shares = mx.power(2.0, scales[..., :1] - scales[..., :1].max(axis=2, keepdims=True))
        total = (scales[..., 1:] * shares).sum(axis=2, keepdims=True)
        return self._checked(launch, [(sums * shares).sum(axis=2, keepdims=True) / total])

    def _parts(self, launch: dict[str, Any]) -> tuple[mx.array, mx.array]:
        queries, keys, values, mask, starts = launch["inputs"]
        named = dict(launch["template"])
        (scale,) = struct.unpack("f", struct.pack("i", named["SCALE"]))
        threads, head_groups, rows = launch["grid"]
        assert (head_groups * named["G"], named["D"]) == (queries.shape[1], queries.shape[3])
        num_parts, num_keys = threads // launch["threadgroup"][0], keys.shape[2]
        keys, values = (
            mx.repeat(one, queries.shape[1] // keys.shape[1], 1) for one in (keys, values)
        )
        scores = (queries @ keys.swapaxes(-1, -2))[:, :, 0] * scale * math.log2(math.e)
        if mask.ndim == 4:
            scores = mx.where(mask[:, 0], scores, -mx.inf)
        sums, scales = [], []
        for part in range(num_parts):
            bounds = [starts + (num_keys - starts) * p // num_parts for p in (part, part + 1)]
            at = mx.arange(num_keys)[None]
            ours = ((at >= bounds[0][:, None]) & (at < bounds[1][:, None]))[:, None]
            own = mx.where(ours, scores, -mx.inf)
            greatest = mx.maximum(own.max(axis=-1, keepdims=True), -1e30)
            weights = mx.power(2.0, own - greatest)
            sums.append((weights[:, :, None] @ values)[:, :, 0])
            scales.append(mx.concatenate([greatest, weights.sum(-1, keepdims=True)], -1))
        assert len(starts) == rows
        return mx.stack(sums, axis=2), mx.stack(scales, axis=2)

    def _checked(self, launch: dict[str, Any], results: list[mx.array]) -> list[mx.array]:
        assert [one.shape for one in results] == launch["output_shapes"]
        return [one.astype(t) for one, t in zip(results, launch["output_dtypes"], strict=True)]


@pytest.mark.parametrize("is_masked", [True, False])
@pytest.mark.parametrize(
    ("lengths", "names"),
    [([40, 9, 1], ["whole"]), ([1500, 700, 1500], ["in_parts", "joining"])],
)
def test_kernels_are_launched_with_what_they_need(
    lengths: list[int], names: list[str], is_masked: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    queries, keys, values, starts = rows_of(lengths, heads=8, key_heads=2, size=16)
    mask = mask_of(starts, max(lengths)) if is_masked else None
    kernels = FakeKernels(monkeypatch)
    given = {"scale": 0.25, "mask": mask, "starts": starts if is_masked else None}
    cuda_decode._compile_all.cache_clear()
    cuda_decode.attend(queries, keys, values, **given)
    assert kernels.names == [*EVERY_KERNEL, *names], "the first use compiles all"
    kernels.names.clear()
    found = cuda_decode.attend(queries, keys, values, **given)
    assert kernels.names == names
    cuda_decode._compile_all.cache_clear()
    assert mx.allclose(found, exact(queries, keys, values, mask), atol=1e-5)


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
