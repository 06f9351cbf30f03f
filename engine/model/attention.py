"""Whose attention a model uses: the one thing of mlx-lm that is replaced in place.

mlx-lm's models look `scaled_dot_product_attention` up in their own module, so `bind` puts ours
there and changes nothing else. The loader's self-check compares it with MLX's on every load, and a
model that answers differently keeps that.
"""

from __future__ import annotations

import platform
import sys
from collections.abc import Callable, Iterator
from types import ModuleType
from typing import Any

import mlx.core as mx
from mlx_lm.models import base

from engine.model import cpu_attention, cuda_attention

Attention = Callable[..., mx.array]

_NAME = "scaled_dot_product_attention"
_of_mlx: Attention = getattr(base, _NAME)


def wanted() -> Attention | None:
    """What is better than MLX's own on this device; None where that is best."""
    if mx.default_device() == mx.Device(mx.cpu):
        has_slow_exp = (sys.platform, platform.machine()) == ("linux", "x86_64")
        return cpu_attention.attention if has_slow_exp else None
    return cuda_attention.attention if mx.cuda.is_available() else None


def bind(model: Any, ours: Attention) -> bool:
    """Use ours in this family. False: it has none of that name, or ours already."""
    return _replace(model, _of_mlx, ours)


def plans_shapes(model: Any) -> bool:
    """Whether what cuda_attention.py says of shapes is true of it."""
    return any(getattr(one, _NAME, None) is cuda_attention.attention for one in _modules_of(model))


def unbind(model: Any) -> bool:
    """Undo `bind`; False: there is nothing to undo."""
    from_cpu = _replace(model, cpu_attention.attention, _of_mlx)
    return _replace(model, cuda_attention.attention, _of_mlx) or from_cpu


def _replace(model: Any, old: Attention, new: Attention) -> bool:
    modules = [one for one in _modules_of(model) if getattr(one, _NAME, None) is old]
    for module in modules:
        setattr(module, _NAME, new)
    return bool(modules)


def _modules_of(model: Any) -> Iterator[ModuleType]:
    names = {type(part).__module__ for part in model.modules()}
    return (sys.modules[name] for name in sorted(names) if name in sys.modules)
