"""One layer of a model that is built as Llama's or Qwen3's, in NumPy.

It computes what direct_layer.py says, for a slice of a prompt or one token of a few rows. MLX hands
every operation to another thread, its loops use no vectors on x86 processors, and it multiplies a
row by a matrix as if it were many: at a quarter of the memory's speed. Weights and caches are
MLX's: nothing is there twice.
"""

from __future__ import annotations

import functools
from typing import Any, NamedTuple

import mlx.core as mx
import numpy as np
import numpy.typing as npt
from mlx import nn

from engine.model.cpu_slices import BLOCK_SCORES, Floats, attend, attend_next

_TURNS_AT_ONCE = 1024  # positions
_MOST_KNOWN = 8  # times as many
FEW_ROWS = 3  # are multiplied one by one sooner than together


class Turns(NamedTuple):
    """Cosines and sines of positions, [n, R / 2] of a slice or [B, 1, 1, R / 2] of each row's;
    which of a head's numbers turn."""

    cosines: Floats
    sines: Floats
    parts: tuple[slice, slice]

    def last(self) -> Turns:
        return Turns(self.cosines[..., -1:, :], self.sines[..., -1:, :], self.parts)

    def apply(self, heads: Floats) -> Floats:
        """`heads` [B, H, n, D], in place."""
        first, second = heads[..., self.parts[0]], heads[..., self.parts[1]]
        turned = first * self.cosines - second * self.sines
        heads[..., self.parts[1]] = first * self.sines + second * self.cosines
        heads[..., self.parts[0]] = turned
        return heads


class Rotation:
    """What a model's rotary embedding does, found by turning ones; the positions used last are
    known."""

    def __init__(self, rope: Any) -> None:
        self._rope, half = rope, rope.dims // 2
        apart = slice(0, half), slice(half, 2 * half)
        self._parts = (slice(0, 2 * half, 2), slice(1, 2 * half, 2)) if rope.traditional else apart
        self._known = functools.lru_cache(_MOST_KNOWN)(self._turned)

    def of_slice(self, start: int, stop: int) -> Turns:
        first, last = start // _TURNS_AT_ONCE, (stop - 1) // _TURNS_AT_ONCE
        known = [self._known(number) for number in range(first, last + 1)]
        cosines, sines = (
            np.concatenate(one)[start - first * _TURNS_AT_ONCE :][: stop - start]
            for one in zip(*known, strict=True)
        )
        return Turns(cosines, sines, self._parts)

    def of_rows(self, positions: npt.NDArray[Any]) -> Turns:
        """`positions` [B]"""
        each = [self.of_slice(one, one + 1) for one in positions.tolist()]
        cosines = np.stack([one.cosines for one in each])[:, None]
        sines = np.stack([one.sines for one in each])[:, None]
        return Turns(cosines, sines, self._parts)

    def _turned(self, number: int) -> tuple[Floats, Floats]:
        """Cosines and sines of so many positions from the `number`th time as many on."""
        ones = np.zeros((1, 1, _TURNS_AT_ONCE, self._rope.dims), np.float32)
        ones[..., self._parts[0]] = 1.0
        offset = number * _TURNS_AT_ONCE
        turned = np.asarray(self._rope(mx.array(ones), offset=offset))[0, 0]
        return turned[:, self._parts[0]].copy(), turned[:, self._parts[1]].copy()


class Norm:
    """x / sqrt(mean(x^2) + eps) * weight"""

    def __init__(self, norm: nn.RMSNorm) -> None:
        self._weight, self._eps = np.asarray(norm.weight), np.float32(norm.eps)

    def __call__(self, x: Floats) -> Floats:
        squares = np.einsum("...d,...d->...", x, x)[..., None] / np.float32(x.shape[-1])
        normed: Floats = x * (1.0 / np.sqrt(squares + self._eps))
        normed *= self._weight
        return normed


class Product:
    """x W^T + b"""

    def __init__(self, part: Any) -> None:
        self._turned = np.asarray(part.weight).T
        self._bias = np.asarray(part.bias) if "bias" in part else None

    @property
    def width(self) -> int:
        return int(self._turned.shape[1])

    def __call__(self, x: Floats) -> Floats:
        flat = x.reshape(-1, x.shape[-1])
        if len(flat) <= FEW_ROWS:
            product: Floats = np.stack([row @ self._turned for row in flat])
        else:
            product = flat @ self._turned
        product = product.reshape(*x.shape[:-1], -1)
        if self._bias is not None:
            product += self._bias
        return product


class CpuLayer:
    """Numbers are float32."""

    def __init__(self, layer: Any) -> None:
        attention, mlp = layer.self_attn, layer.mlp
        self._norm = Norm(layer.input_layernorm)
        self._queries, self._keys, self._values, self._join = (
            Product(attention[name]) for name in ("q_proj", "k_proj", "v_proj", "o_proj")
        )
        names = [name for name in ("q_norm", "k_norm") if name in attention]
        self._norms = [Norm(attention[name]) for name in names]
        self._num_heads, self._num_key_heads = attention.n_heads, attention.n_kv_heads
        self._scale = np.float32(attention.scale)
        self._second_norm = Norm(layer.post_attention_layernorm)
        self._gate, self._up, self._narrow = (
            Product(mlp[name]) for name in ("gate_proj", "up_proj", "down_proj")
        )

    def __call__(self, x: Floats, cache: Any, turns: Turns, *, wants_all: bool = True) -> Floats:
        """x [B, n, hidden] before and after; if not `wants_all`, of the last position alone."""
        normed = self._norm(x)
        held = cache.update_and_fetch(*map(mx.array, self._keys_and_values(normed, turns)))
        mx.eval(held)
        if not wants_all:
            x, normed, turns = x[:, -1:], normed[:, -1:], turns.last()
        keys, values = map(np.asarray, held)
        attended = attend(self._asked(normed, turns), keys, values, is_causal=True)
        return self._joined(x, attended)

    def bytes_for(self, num_tokens: int) -> int:
        """What it takes beside MLX's arrays, at most: in its attention, or in its wide part."""
        hidden, wide = self._join.width, self._gate.width
        attending = num_tokens * (3 * hidden + 3 * self._queries.width + 2 * self._keys.width)
        return 4 * max(attending + BLOCK_SCORES, num_tokens * (4 * hidden + 3 * wide))

    def keep(self, x: Floats, cache: Any, turns: Turns) -> None:
        """Only what the cache is to hold of these positions."""
        cache.update_and_fetch(*map(mx.array, self._keys_and_values(self._norm(x), turns)))

    def step(
        self,
        x: Floats,
        held: tuple[Floats, Floats],
        turns: Turns,
        *,
        hidden: npt.NDArray[np.bool_] | None,
    ) -> tuple[Floats, Floats, Floats]:
        """x [B, 1, hidden] before and after; keys and values [B, Hkv, 1, D] for the cache, which
        holds `held` so far (cpu_slices.attend_next)."""
        normed = self._norm(x)
        keys, values = self._keys_and_values(normed, turns)
        asked = self._asked(normed, turns)
        attended = attend_next(asked, *held, keys, values, hidden=hidden)
        return self._joined(x, attended), keys, values

    def _asked(self, normed: Floats, turns: Turns) -> Floats:
        """Queries [B, H, n, D]"""
        queries = self._of_heads(self._queries(normed), self._num_heads)
        if self._norms:
            queries = self._norms[0](queries)
        queries = turns.apply(queries)
        queries *= self._scale
        return queries

    def _keys_and_values(self, normed: Floats, turns: Turns) -> tuple[Floats, Floats]:
        """[B, Hkv, n, D] each."""
        keys = self._of_heads(self._keys(normed), self._num_key_heads)
        if self._norms:
            keys = self._norms[1](keys)
        values = self._of_heads(self._values(normed), self._num_key_heads)
        return turns.apply(keys), values

    def _joined(self, x: Floats, attended: Floats) -> Floats:
        x = x + self._join(attended.swapaxes(1, 2).reshape(*x.shape[:2], -1))
        return self._widened(x)

    def _of_heads(self, x: Floats, num_heads: int) -> Floats:
        """[B, n, H D] as [B, H, n, D]."""
        return x.reshape(*x.shape[:2], num_heads, -1).swapaxes(1, 2)

    def _widened(self, x: Floats) -> Floats:
        normed = self._second_norm(x)
        gate = self._gate(normed)
        gate /= 1.0 + np.exp(-gate)
        gate *= self._up(normed)
        x += self._narrow(gate)
        return x
