"""Our kernels on CUDA that are no attention, where they run: what MLX would do.

`test_direct_step.py` holds whole models that use them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import mlx.core as mx
import pytest
from mlx import nn
from mlx_lm.models import rope_utils

from engine.model import cuda_gate, cuda_heads
from tests.engine.model import cuda_by_mlx

pytestmark = pytest.mark.skipif(not mx.cuda.is_available(), reason="needs an NVIDIA GPU")

DTYPES = (mx.float32, mx.float16, mx.bfloat16)
LLAMA3 = {"factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0}
FORMS: dict[str, tuple[int, int, int, bool, Callable[[int], Any]]] = {
    # heads, of keys, numbers of each, whether they are normed, and how they are rotated
    "qwen3": (32, 8, 128, True, lambda size: nn.RoPE(size, base=1e6)),
    "llama": (8, 8, 64, False, lambda size: nn.RoPE(size, base=1e4)),
    "llama3": (
        *(3, 1, 80, False),
        lambda size: rope_utils.Llama3RoPE(size, base=5e5, scaling_config=LLAMA3),
    ),
    "neighbours": (4, 2, 256, True, lambda size: nn.RoPE(size, traditional=True, base=1e4)),
    "half": (4, 2, 96, True, lambda size: nn.RoPE(size // 2, scale=0.25, base=1e4)),
}


def layer_of(form: str, dtype: mx.Dtype) -> Any:
    """What `heads_of` looks at."""
    heads, key_heads, size, is_normed, rope = FORMS[form]
    layer: Any = nn.Module()
    layer.rope, layer.n_heads, layer.n_kv_heads = rope(size), heads, key_heads
    layer.k_proj = nn.Linear(8, key_heads * size)
    for name in ("q_norm", "k_norm") if is_normed else ():
        layer[name] = nn.RMSNorm(size, eps=1e-6)
        layer[name].weight = mx.random.uniform(0.5, 1.5, (size,))
    layer.set_dtype(dtype)
    return layer


@pytest.mark.parametrize("num_tokens", [1, 70])
@pytest.mark.parametrize("form", FORMS)
def test_heads_are_what_mlx_makes_them(form: str, num_tokens: int) -> None:
    heads, key_heads, size, *_ = FORMS[form]
    for dtype in DTYPES:
        mx.random.seed(2)
        known = cuda_heads.heads_of(layer_of(form, dtype))
        assert known is not None
        projected = mx.random.normal((5, num_tokens, (heads + 2 * key_heads) * size))
        projected = projected.astype(dtype)
        positions = mx.array([0, 3, 1024, 32_000, 7], mx.int32)
        found = cuda_heads.prepare(known, projected, positions)
        expected = cuda_by_mlx.prepare(known, projected, positions)
        for ours, theirs in zip(found, expected, strict=True):
            assert (ours.dtype, ours.shape) == (dtype, theirs.shape)
            assert_close(ours, theirs, least=0.01 if num_tokens == 1 else 1.0)


@pytest.mark.parametrize("width", [96, 12_288])
def test_gates_are_exact(width: int) -> None:
    for dtype in DTYPES:
        halves = (mx.random.normal((5, 3, 2 * width)) * 4).astype(dtype)
        exact = cuda_by_mlx.gate(halves.astype(mx.float32))
        assert_close(cuda_gate.gate(halves), exact.astype(dtype))


def assert_close(ours: mx.array, theirs: mx.array, *, least: float = 0.01) -> None:
    """Rounded otherwise here and there. `least`: what is less counts as so much, for of many
    differences of turned pairs some are next to nothing."""
    ulp = mx.finfo(ours.dtype).eps
    first, second = ours.astype(mx.float32), theirs.astype(mx.float32)
    off = mx.abs(first - second) / mx.maximum(mx.abs(second), least)
    assert off.max().item() <= (100 if ours.dtype == mx.float32 else 4) * ulp
    if ours.dtype != mx.float32:
        assert mx.mean(first == second).item() > 0.97
