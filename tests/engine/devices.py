"""What some tests cannot ask of every device that MLX computes on."""

from __future__ import annotations

import mlx.core as mx
import pytest

_on_cuda = mx.cuda.is_available()

needs_processor_kernels = pytest.mark.skipif(_on_cuda, reason="CUDA's take the same places")
# MLX has products for larger heads only
needs_quantised_caches = pytest.mark.skipif(_on_cuda, reason="not on CUDA with heads of 32")
needs_slow_prompts = pytest.mark.skipif(
    _on_cuda, reason="a GPU computes these prompts sooner than a disk brings them"
)
# A product's workspace is larger than these models, and what was used is given back a moment later
needs_exact_memory = pytest.mark.skipif(_on_cuda, reason="CUDA takes more than arrays have")
