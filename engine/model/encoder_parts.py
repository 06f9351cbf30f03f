"""What encoders are made of besides their own layers: masks, activations, kinds of pooling."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import mlx.core as mx
import mlx.nn as nn

_ACTIVATIONS: dict[str, Callable[[mx.array], mx.array]] = {
    "gelu": nn.gelu,
    "gelu_new": nn.gelu_approx,
    "gelu_pytorch_tanh": nn.gelu_approx,
    "relu": nn.relu,
    "silu": nn.silu,
}


def activation(name: str) -> Callable[[mx.array], mx.array]:
    """Raises LookupError for one that no known model has."""
    return _ACTIVATIONS[name]


def is_real(lengths: Sequence[int]) -> mx.array:
    """[R, T]: which tokens of rows padded on the right are a text's own."""
    return mx.arange(max(lengths))[None, :] < mx.array(list(lengths))[:, None]


def padding_mask(lengths: Sequence[int]) -> mx.array | None:
    """[R, 1, 1, T], or None where nothing is padded."""
    if len(set(lengths)) == 1:
        return None
    return is_real(lengths)[:, None, None, :]


def mean_state(states: mx.array, lengths: Sequence[int]) -> mx.array:
    """[R, D], of each row's own tokens."""
    total = mx.where(is_real(lengths)[:, :, None], states, 0).sum(axis=1)
    return total / mx.array(list(lengths))[:, None]


def last_state(states: mx.array, lengths: Sequence[int]) -> mx.array:
    return states[mx.arange(len(lengths)), mx.array(list(lengths)) - 1]
