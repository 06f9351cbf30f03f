"""The one place that knows mlx-lm's cache classes, by their public calls only (mlx-lm 0.32.2).

A *row cache* is a list of layer caches that hold one sequence, unpadded. *Level* caches hold
several sequences of equal length in the same plain classes: they need no mask array. *Padded*
caches are mlx-lm's batch classes: any lengths, padded on the left, a mask array at every step.
"""

from __future__ import annotations

from typing import Any

import mlx.core as mx
from mlx.utils import tree_map
from mlx_lm.models.cache import BatchKVCache, CacheList, KVCache, make_prompt_cache

from engine.model.aligned_rows import AlignedRows

Caches = list[Any]


def new_caches(model: Any) -> Caches:
    caches: Caches = make_prompt_cache(model)
    return caches


def may_merge(caches: Caches) -> bool:
    """False for classes without a batch form (quantised, chunked)."""
    return all(_layer_may_merge(layer) for layer in caches)


def _layer_may_merge(layer: Any) -> bool:
    if isinstance(layer, CacheList):
        return all(_layer_may_merge(part) for part in layer.caches)
    return hasattr(layer, "merge")


def evaluate(caches: Caches) -> None:
    mx.eval([layer.state for layer in caches])


def evaluate_by_layer(caches: Caches) -> None:
    """Old and new buffers of one layer at a time are alive, not of all layers."""
    for layer in caches:
        mx.eval(layer.state)


def start_evaluating(caches: Caches) -> None:
    mx.async_eval([layer.state for layer in caches])  # type: ignore[no-untyped-call]


def num_bytes(caches: Caches) -> int:
    return sum(layer.nbytes for layer in caches)


def bytes_per_token(caches: Caches) -> int:
    """What a token takes in the layers that hold one entry for each; padding takes the same."""
    return sum(_layer_bytes_per_token(layer) for layer in caches)


def _layer_bytes_per_token(layer: Any) -> int:
    if isinstance(layer, CacheList):
        return bytes_per_token(layer.caches)
    if type(layer) is not KVCache or layer.keys is None:
        return 0
    return sum(one.nbytes // (one.shape[0] * one.shape[2]) for one in (layer.keys, layer.values))


def level_row(caches: Caches, row: int) -> Caches:
    """One row of level caches."""
    return [_take_row(layer, row) for layer in caches]


def padded_row(caches: Caches, row: int) -> Caches:
    """One row of padded caches, without its padding."""
    return [layer.extract(row) for layer in caches]


def split_level(caches: Caches, num_rows: int) -> list[Caches]:
    """The row caches of level caches."""
    return [level_row(caches, row) for row in range(num_rows)]


def take_level(caches: Caches, rows: list[int]) -> Caches:
    """Level caches of only these rows."""
    index = mx.array(rows)
    return [_map_arrays(layer, lambda array: array[index]) for layer in caches]


def stack_level(rows: list[Caches]) -> Caches | None:
    """Level caches of several level caches; None where a layer's layouts differ."""
    layers = []
    for parts in zip(*rows, strict=True):
        stacked = _stack_layer([_trimmed(part) for part in parts])
        if stacked is None:
            return None
        layers.append(stacked)
    return layers


def merge_padded(rows: list[Caches], *, aligns: bool) -> Caches:
    """Padded caches of several row caches, evaluated layer by layer.

    `aligns`: for matrix products on CUDA, in whole columns (aligned_rows.py).
    """
    layers = []
    for parts in zip(*rows, strict=True):
        layer = parts[0].merge(list(parts))
        layers.append(AlignedRows.of(layer) if aligns and type(layer) is BatchKVCache else layer)
        mx.eval(layers[-1].state)
    return layers


def extend_padded(caches: Caches, others: Caches) -> None:
    """Append the rows of `others`, layer by layer, which it takes out of there."""
    for index, layer in enumerate(caches):
        layer.extend(others[index])
        mx.eval(layer.state)
        others[index] = None


def keep_padded(caches: Caches, rows: list[int]) -> None:
    for layer in caches:
        layer.filter(rows)


def split_padded(caches: Caches, num_rows: int) -> list[Caches]:
    return [padded_row(caches, row) for row in range(num_rows)]


def _take_row(layer: Any, row: int) -> Any:
    return _map_arrays(layer, lambda array: array[row : row + 1])


def _map_arrays(layer: Any, change: Any) -> Any:
    def change_leaf(leaf: Any) -> Any:
        return change(leaf) if isinstance(leaf, mx.array) else leaf

    return type(layer).from_state(tree_map(change_leaf, layer.state))


def _trimmed(layer: Any) -> Any:
    """A KVCache without its spare capacity, so that equal lengths mean equal shapes."""
    if type(layer) is not KVCache or layer.size() == 0:
        return layer
    keys, values, offset = layer.state
    return type(layer).from_state((keys[..., :offset, :], values[..., :offset, :], offset))


def _stack_layer(layers: list[Any]) -> Any | None:
    leaves = [_leaves(layer) for layer in layers]
    if any(_layout(one) != _layout(leaves[0]) for one in leaves[1:]):
        return None
    stacked = iter([_stack_leaves(list(column)) for column in zip(*leaves, strict=True)])
    return type(layers[0]).from_state(tree_map(lambda _: next(stacked), layers[0].state))


def _leaves(layer: Any) -> list[Any]:
    leaves: list[Any] = []
    tree_map(leaves.append, layer.state)
    return leaves


def _stack_leaves(leaves: list[Any]) -> Any:
    return mx.concatenate(leaves) if isinstance(leaves[0], mx.array) else leaves[0]


def _layout(leaves: list[Any]) -> list[Any]:
    """Everything that must agree: array shapes but for the rows, and all plain values."""
    return [(leaf.shape[1:], leaf.dtype) if isinstance(leaf, mx.array) else leaf for leaf in leaves]
