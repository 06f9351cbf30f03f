"""The ways in which a model's weights can be quantised, and what a copy of it takes then. Pure.

    weight   [ rows x columns ]   numbers of `bits`, packed along the columns
    scales   [ rows x groups ]    one for each `group_size` of them; affine ways have a bias besides

Which layers mlx-lm really quantises only its model classes know; the sizes here are estimates.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable
from typing import Any

from engine.sizing.tensors import ITEM_BYTES, Tensor
from engine.sizing.text_config import text_config

AFFINE = "affine"
_AFFINE_BITS = (2, 3, 4, 5, 6, 8)
_AFFINE_GROUPS = (32, 64, 128)
_DTYPES = {"float16": "F16", "bfloat16": "BF16", "float32": "F32"}  # what a copy is cast to
_MARKS = (".scales", ".qweight", ".weight_scale", ".weight_scale_inv")  # beside packed numbers
_NEVER = ("conv", "vision", "visual", "multi_modal")  # kernels; and what mlx-lm leaves out


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Way:
    """`mode` as mlx spells it."""

    mode: str = AFFINE
    bits: int = 4
    group_size: int = 64

    def __str__(self) -> str:
        name = "" if self.mode == AFFINE else f"{self.mode}, "
        return f"{name}{self.bits} bits, groups of {self.group_size}"

    def scale_bytes(self, item_bytes: int) -> int:
        """Of one group."""
        return 2 * item_bytes if self.mode == AFFINE else 1


WAYS = (
    *(Way(bits=bits, group_size=size) for bits in _AFFINE_BITS for size in _AFFINE_GROUPS),
    Way(mode="mxfp4", bits=4, group_size=32),
    Way(mode="mxfp8", bits=8, group_size=32),
    Way(mode="nvfp4", bits=4, group_size=16),
)


def is_quantised(config: dict[str, Any], tensors: Iterable[Tensor]) -> bool:
    """Whether it is already, by mlx or by others."""
    parts = (config, text_config(config))
    if any(part.get(name) for part in parts for name in ("quantization", "quantization_config")):
        return True
    return any(one.name.endswith(_MARKS) for one in tensors)


def copy_bytes(config: dict[str, Any], tensors: Iterable[Tensor], way: Way) -> int | None:
    """About what the weights of a quantised copy take; None where no layer can be quantised so."""
    dtype = _dtype_of(config)
    is_possible, total = False, 0
    for tensor in tensors:
        cast = dtype if dtype and tensor.dtype in _DTYPES.values() else tensor.dtype
        item_bytes = ITEM_BYTES.get(cast, 1)
        if _is_taken(tensor, way):
            is_possible = True
            per_group = way.bits * way.group_size // 8 + way.scale_bytes(item_bytes)
            total += tensor.size // way.group_size * per_group
        else:
            total += tensor.size * item_bytes
    return total if is_possible else None


def _dtype_of(config: dict[str, Any]) -> str | None:
    """As mlx-lm's `convert` finds it."""
    told = config.get("torch_dtype")
    inner = config.get("text_config")
    if told is None and isinstance(inner, dict):
        told = inner.get("dtype")
    return _DTYPES.get(told) if isinstance(told, str) else None


def _is_taken(tensor: Tensor, way: Way) -> bool:
    is_matrix = len(tensor.shape) in (2, 3) and tensor.dtype in _DTYPES.values()
    if not is_matrix or any(mark in tensor.name for mark in _NEVER):
        return False
    return tensor.shape[-1] > 0 and tensor.shape[-1] % way.group_size == 0
