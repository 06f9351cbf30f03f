"""One layer of a model that is built as Llama's or Qwen3's, without its modules.

    x = x + W_o attention(rotate(norm(W_q n)), rotate(norm(W_k n)), W_v n),  n = norm(x)
    x = x + W_down (silu(W_gate n) * W_up n),                                n = norm(x)

Qwen3 norms queries and keys, Llama does not.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import mlx.core as mx
from mlx import nn

Function = Callable[..., mx.array]


class DirectLayer:
    """Whose attention and activation it uses is as kernels.py has bound them."""

    def __init__(self, layer: Any) -> None:
        self._norm = function_of(layer.input_layernorm)
        self._take_heads(layer.self_attn)
        self._attention = bound(layer.self_attn, "scaled_dot_product_attention")
        self._scale = layer.self_attn.scale
        self._join = function_of(layer.self_attn.o_proj)
        self._second_norm = function_of(layer.post_attention_layernorm)
        self._take_gates(layer.mlp)
        self._narrow = function_of(layer.mlp.down_proj)

    def _take_heads(self, layer: Any) -> None:
        self._num_heads, self._num_key_heads = layer.n_heads, layer.n_kv_heads
        self._queries, self._keys, self._values = (
            function_of(layer[name]) for name in ("q_proj", "k_proj", "v_proj")
        )
        self._norms = [function_of(layer[name]) for name in ("q_norm", "k_norm") if name in layer]
        self._rotate = function_of(layer.rope)

    def _take_gates(self, layer: Any) -> None:
        self._gate, self._up = function_of(layer.gate_proj), function_of(layer.up_proj)
        self._swiglu = bound(layer, "swiglu")

    def __call__(
        self, x: mx.array, cache: Any, positions: Any, mask: Any, *, last_only: bool = False
    ) -> mx.array:
        """x [B, n, hidden] before and after. `positions`: of all rows' first tokens, or of each
        [B]. `last_only`: after, that of the last token [B, 1, hidden]."""
        queries, keys, values = self._heads(self._norm(x), positions)
        keys, values = cache.update_and_fetch(keys, values)
        if last_only:  # MLX's CUDA plans for 60 ms for queries that lie apart
            x, queries, mask = x[:, -1:], mx.contiguous(queries[:, :, -1:]), None
        answer = self._attention(queries, keys, values, cache=cache, scale=self._scale, mask=mask)
        x = x + self._join(_beside(answer))
        return x + self._narrow(self._open(self._second_norm(x)))

    def keep(self, x: mx.array, cache: Any, positions: Any) -> None:
        """Only keys and values of x [B, n, hidden]."""
        _, keys, values = self._heads(self._norm(x), positions)
        cache.update_and_fetch(keys, values)

    def _heads(self, x: mx.array, positions: Any) -> tuple[mx.array, mx.array, mx.array]:
        """[B, heads, n, size] each."""
        queries = _apart(self._queries(x), self._num_heads)
        keys = _apart(self._keys(x), self._num_key_heads)
        values = _apart(self._values(x), self._num_key_heads)
        if self._norms:
            queries, keys = self._norms[0](queries), self._norms[1](keys)
        return self._rotate(queries, offset=positions), self._rotate(keys, offset=positions), values

    def _open(self, x: mx.array) -> mx.array:
        return self._swiglu(self._gate(x), self._up(x))


def _apart(x: mx.array, num_heads: int) -> mx.array:
    """[B, n, heads * size] -> [B, heads, n, size]."""
    rows, num_tokens, _ = x.shape
    if num_tokens == 1:
        return x.reshape(rows, num_heads, 1, -1)
    return x.reshape(rows, num_tokens, num_heads, -1).swapaxes(1, 2)


def _beside(x: mx.array) -> mx.array:
    """The other way round."""
    rows, _, num_tokens, _ = x.shape
    if num_tokens > 1:
        x = x.swapaxes(1, 2)
    return x.reshape(rows, num_tokens, -1)


def function_of(part: Any) -> Function:
    """What it computes, of its arrays as they are now. Other parts than these are called."""
    if type(part) is nn.RMSNorm:
        return partial(mx.fast.rms_norm, weight=part.weight, eps=part.eps)
    if type(part) is nn.RoPE:
        how = {name: getattr(part, name) for name in ("dims", "traditional", "base", "scale")}
        return partial(mx.fast.rope, **how)
    if type(part) is nn.Linear:
        return product_of(part.weight, part.get("bias"))
    return part  # type: ignore[no-any-return]


def product_of(weight: mx.array, bias: mx.array | None) -> Function:
    """x W^T + b. `weight` [outputs, inputs]."""
    turned = weight.T
    mx.eval(turned)
    return partial(_product, turned) if bias is None else partial(_sum, bias, turned)


def _product(weight: mx.array, x: mx.array) -> mx.array:
    return x @ weight


def _sum(bias: mx.array, weight: mx.array, x: mx.array) -> mx.array:
    return mx.addmm(bias, x, weight)


def bound(part: Any, name: str) -> Function:
    """As this part's own code would find it."""
    found: Function = type(part).__call__.__globals__[name]
    return found
