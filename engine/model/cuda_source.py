"""What is common to our kernels on CUDA: how their source becomes one, and numbers inside it."""

from __future__ import annotations

import struct
from pathlib import Path
from typing import Any

import mlx.core as mx


def make_kernel(
    name: str,
    inputs: list[str],
    outputs: list[str],
    body: str,
    *,
    header: str | None = None,
    copies_views: bool = True,
) -> Any:
    """`header`: the file of this folder that the body builds on. `copies_views`: inputs come
    without gaps; where not, the body asks for their strides."""
    folder = Path(__file__).parent
    return mx.fast.cuda_kernel(
        name=name,
        input_names=inputs,
        output_names=outputs,
        source=body,
        header="" if header is None else (folder / header).read_text(encoding="utf-8"),
        ensure_row_contiguous=copies_views,
    )


def bits_of(number: float) -> int:
    """As __int_as_float reads it: template arguments are whole numbers."""
    bits: int = struct.unpack("i", struct.pack("f", number))[0]
    return bits
