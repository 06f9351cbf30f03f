"""Whose attention and activation a model uses: what is replaced of mlx-lm in place.

mlx-lm's models look these functions up in their own module, so `bind` puts ours there and changes
nothing else. What ours do is MLX's own sum in another order. On CUDA, rows of one batch and a row
alone take different ones, so the loader's self-check compares them on every load, and a model that
answers differently keeps MLX's.
"""

from __future__ import annotations

import platform
import sys
from collections.abc import Callable, Iterator, Mapping
from types import ModuleType
from typing import Any

import mlx.core as mx
from mlx_lm.models import activations, base

from engine.model import cpu_activation, cpu_attention, cpu_linear, cuda_attention

Kernel = Callable[..., mx.array]
Kernels = Mapping[str, Kernel]  # by the name that families call it

_ATTENTION = "scaled_dot_product_attention"
_SHARED = {activations.__name__, base.__name__}
_OF_MLX: Kernels = {_ATTENTION: getattr(base, _ATTENTION), "swiglu": activations.swiglu}
ON_CPU: Kernels = {_ATTENTION: cpu_attention.attention, "swiglu": cpu_activation.swiglu}
ON_CUDA: Kernels = {_ATTENTION: cuda_attention.attention}


def wanted() -> Kernels:
    """What is better than MLX's own on this device."""
    if is_x86_processor():
        return ON_CPU
    return ON_CUDA if mx.cuda.is_available() else {}


def is_x86_processor() -> bool:
    """Where MLX computes on one; its loops there do not use the processor's vectors."""
    is_x86 = (sys.platform, platform.machine()) == ("linux", "x86_64")
    return is_x86 and mx.default_device() == mx.Device(mx.cpu)


def lay_out_weights(model: Any) -> None:
    """As products on this device read them fastest; lazily."""
    if is_x86_processor():
        cpu_linear.lay_out(model)


def bind(model: Any, ours: Kernels) -> bool:
    """Use ours in this family. False: it has none of these names, or ours already."""
    return _replace(model, _OF_MLX, ours)


def unbind(model: Any) -> bool:
    """Undo `bind`; False: there is nothing to undo."""
    from_cpu = _replace(model, ON_CPU, _OF_MLX)
    return _replace(model, ON_CUDA, _OF_MLX) or from_cpu


def plans_shapes(model: Any) -> bool:
    """Whether what cuda_attention.py says of shapes is true of it."""
    return _attends_by(model, ON_CUDA)


def attends_in_numpy(model: Any) -> bool:
    """Slices do, in float32 (cpu_attention.py)."""
    return _attends_by(model, ON_CPU)


def _attends_by(model: Any, ours: Kernels) -> bool:
    return any(getattr(one, _ATTENTION, None) is ours[_ATTENTION] for one in _modules_of(model))


def _replace(model: Any, old: Kernels, new: Kernels) -> bool:
    found = [
        (module, name)
        for module in _modules_of(model)
        for name in old.keys() & new.keys()
        if getattr(module, name, None) is old[name]
    ]
    for module, name in found:
        setattr(module, name, new[name])
    return bool(found)


def _modules_of(model: Any) -> Iterator[ModuleType]:
    """The family's own: where mlx-lm's functions come from they stay what they are."""
    names = {type(part).__module__ for part in model.modules()} - _SHARED
    return (sys.modules[name] for name in sorted(names) if name in sys.modules)
