"""The one place that knows mlx-lm's cache classes, by their public calls only (mlx-lm 0.32.2).

A *row cache* is a list of layer caches that hold one sequence, unpadded. *Level* caches hold
several sequences of equal length in the same plain classes: they need no mask array. *Padded*
caches are mlx-lm's batch classes: any lengths, padded on the left, a mask array at every step.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator
from typing import Any

import mlx.core as mx
from mlx.utils import tree_map
from mlx_lm.models.cache import (
    ArraysCache,
    CacheList,
    KVCache,
    make_prompt_cache,
)

from engine.model import layout
from engine.model.token_arrays import PADDED, PLAIN, length_of, plain, replace_tokens, tokens_of

Caches = list[Any]


def new_caches(model: Any) -> Caches:
    caches: Caches = make_prompt_cache(model)
    return caches


def may_merge(caches: Caches) -> bool:
    """False for classes without a batch form (chunked, and some families' own)."""
    return all(_layer_may_merge(layer) for layer in caches)


def _layer_may_merge(layer: Any) -> bool:
    if isinstance(layer, CacheList):
        return all(_layer_may_merge(part) for part in layer.caches)
    return isinstance(layer, PLAIN) or hasattr(layer, "merge")


def evaluate(caches: Caches) -> None:
    mx.eval([layer.state for layer in caches])


def start_evaluating(caches: Caches) -> None:
    mx.async_eval([layer.state for layer in caches])  # type: ignore[no-untyped-call]


def share_counts(caches: Caches) -> None:
    """Layers of padded rows count tokens alike: in one array, which is computed once, not in one of
    each layer. A layer that counts on makes a new one (mlx-lm 0.32.2)."""
    padded = [layer for layer in _growing_layers(caches) if isinstance(layer, PADDED)]
    for layer in padded[1:]:
        layer.offset = padded[0].offset


def release_inputs(caches: Caches) -> None:
    """Recurrent layers keep the end of what they convolved as a view, which holds all of it."""
    for layer in caches:
        if isinstance(layer, CacheList):
            release_inputs(layer.caches)
        elif isinstance(layer, ArraysCache):
            layer.cache = [one if one is None else mx.contiguous(one) for one in layer.cache]


def num_bytes(caches: Caches) -> int:
    return sum(layer.nbytes for layer in caches)


def full_tokens(caches: Caches) -> int:
    """How many tokens the buffers hold, where the next token does not fit; 0 where it does."""
    layer = next(_growing_layers(caches), None)
    return _capacity(layer) if layer is not None and _missing_tokens(layer, 1) > 0 else 0


def capacity(caches: Caches) -> int:
    """Tokens that each row has room for; 0 where what it holds does not grow with them."""
    layer = next(_growing_layers(caches), None)
    return _capacity(layer) if layer is not None and layer.keys is not None else 0


def _missing_tokens(layer: Any, num_tokens: int) -> int:
    """By how many tokens the buffers are too short for so many more; empty ones never are."""
    if layer.keys is None:
        return 0
    return length_of(layer) + num_tokens - _capacity(layer)


def _capacity(layer: Any) -> int:
    return tokens_of(layer)[0].shape[2]


def _growing_layers(caches: Caches) -> Iterator[Any]:
    """All grow in the same steps."""
    for layer in caches:
        if isinstance(layer, CacheList):
            yield from _growing_layers(layer.caches)
        elif isinstance(layer, (*PLAIN, *PADDED)):
            yield layer


def held_tokens(layer: Any) -> tuple[mx.array, mx.array, int]:
    """Of a plain or padded layer: keys and values [B, H, L, D], and how many of L are not room."""
    keys, values, *_, num_tokens = layer.state
    return keys, values, num_tokens


def bytes_per_token(caches: Caches) -> int:
    """What a token takes in the layers that hold one entry for each; padding takes the same."""
    return sum(_layer_bytes_per_token(layer) for layer in caches)


def _layer_bytes_per_token(layer: Any) -> int:
    if isinstance(layer, CacheList):
        return bytes_per_token(layer.caches)
    if type(layer) not in PLAIN:
        return 0
    return sum(one.nbytes // (one.shape[0] * one.shape[2]) for one in tokens_of(layer))


def level_row(caches: Caches, row: int) -> Caches:
    """One row of level caches."""
    return [_take_row(layer, row) for layer in caches]


def padded_row(caches: Caches, row: int, *, num_tokens: int) -> Caches:
    """One row of padded caches, without its padding. Lazy; as far as it can be, a view."""
    return [_unpadded(layer, row, num_tokens) for layer in caches]


def _unpadded(layer: Any, row: int, num_tokens: int) -> Any:
    if type(layer) not in PADDED:
        return layer.extract(row)
    end = length_of(layer)
    span = slice(end - num_tokens, end)
    return plain(layer, [one[row : row + 1, :, span] for one in tokens_of(layer)], num_tokens)


def split_level(caches: Caches, num_rows: int) -> list[Caches]:
    """The row caches of level caches."""
    return [level_row(caches, row) for row in range(num_rows)]


def stack_level(rows: list[Caches]) -> Caches | None:
    """Level caches of several level caches; None where a layer's layouts differ."""
    parts_of = [[_trimmed(part) for part in parts] for parts in zip(*rows, strict=True)]
    if not all(_may_stack(parts) for parts in parts_of):
        return None
    return [_stack_layer(parts) for parts in parts_of]


def may_stack_level(rows: list[Caches]) -> bool:
    return all(_may_stack([_trimmed(one) for one in parts]) for parts in zip(*rows, strict=True))


# What follows evaluates array by array and takes each layer out of `rows` as it is copied, so that
# old and new keys or values of one layer are alive together, not of all. Memory is full of caches
# when it is short.


class Apart:
    """Evaluates arrays in the order in which they come, so many bytes at a time: a device that the
    host runs ahead of is waited for at each."""

    def __init__(self, together_bytes: int = 0):
        self._together_bytes = together_bytes
        self._pending: list[mx.array] = []
        self._pending_bytes = 0

    def take(self, layer: Any) -> None:
        for leaf in _leaves(layer):
            if isinstance(leaf, mx.array):
                self._pending.append(leaf)
                self._pending_bytes += leaf.nbytes
                if self._pending_bytes >= self._together_bytes:
                    self.finish()

    def finish(self) -> None:
        if self._pending:
            mx.eval(self._pending)
        self._pending, self._pending_bytes = [], 0


def _own(array: mx.array) -> mx.array:
    """Of no elements there is nothing to copy: on CUDA MLX ended the process at MiniMax-M3's."""
    return mx.contiguous(array) if array.size else array


def owning(row: Caches, apart: Apart) -> Iterator[Any]:
    """The layers of a row that is a part of other buffers as long as it is not evaluated."""
    for index in range(len(row)):
        own = _map_arrays(_take_layer([row], index)[0], _own)
        apart.take(own)
        yield own
    apart.finish()


def stacking_level(rows: list[Caches], apart: Apart) -> Iterator[Any]:
    """The layers of level caches of several level caches, which may be stacked."""
    for index in range(len(rows[0])):
        stacked = _stack_roomy(_take_layer(rows, index))
        apart.take(stacked)
        yield stacked
    apart.finish()


def merging_padded(rows: list[Caches], apart: Apart) -> Iterator[Any]:
    """The layers of padded caches of several row caches."""
    for index in range(len(rows[0])):
        layer = _merge_layer(_take_layer(rows, index))
        apart.take(layer)
        yield layer
    apart.finish()


def extending_padded(
    caches: Caches, kept: layout.Kept, rows: list[Caches], apart: Apart
) -> Iterator[Any]:
    """The layers of `caches` with these rows of it, and then further ones."""
    for index in range(len(caches)):
        layer = _extended(caches, _take_layer(rows, index), index, kept)
        apart.take(layer)
        yield layer
    apart.finish()


def keep_level(caches: Caches, rows: list[int], apart: Apart) -> None:
    """Only these rows stay in level caches."""
    index = mx.array(rows)
    for place in range(len(caches)):
        caches[place] = _map_arrays(caches[place], lambda array: array[index])
        apart.take(caches[place])
    apart.finish()


def make_room(caches: Caches, apart: Apart, *, num_tokens: int = 1) -> None:
    """For the next tokens, where buffers are too short: what a model call makes longer by itself is
    alive twice in as many layers as the host submits ahead of the device. Called at every step."""
    first = next(_growing_layers(caches), None)
    if first is None or _missing_tokens(first, num_tokens) <= 0:
        return
    for layer in _growing_layers(caches):
        if _missing_tokens(layer, num_tokens) > 0:
            _add_room(layer, num_tokens)
            apart.take(layer)
    apart.finish()


def _add_room(layer: Any, num_tokens: int) -> None:
    capacity, step = _capacity(layer), KVCache.step
    wanted = -(-(capacity + _missing_tokens(layer, num_tokens)) // step) * step
    width = [(0, 0), (0, 0), (0, wanted - capacity), (0, 0)]
    replace_tokens(layer, [mx.pad(one, width) for one in tokens_of(layer)])


def _take_row(layer: Any, row: int) -> Any:
    return _map_arrays(layer, lambda array: array[row : row + 1])


def _map_arrays(layer: Any, change: Any) -> Any:
    def change_leaf(leaf: Any) -> Any:
        return change(leaf) if isinstance(leaf, mx.array) else leaf

    if hasattr(layer, "from_state"):
        return type(layer).from_state(tree_map(change_leaf, layer.state))
    changed = copy.copy(layer)  # a class that only its family has
    vars(changed).update({name: change_leaf(leaf) for name, leaf in vars(layer).items()})
    return changed


def _trimmed(layer: Any) -> Any:
    """Without spare capacity, so that equal lengths mean equal shapes."""
    if type(layer) not in PLAIN or layer.keys is None:
        return layer
    length = length_of(layer)
    return plain(layer, [one[..., :length, :] for one in tokens_of(layer)], length)


def _take_layer(rows: list[Caches], index: int) -> list[Any]:
    parts = [row[index] for row in rows]
    for row in rows:
        row[index] = None
    return parts


def _extended(caches: Caches, rows: list[Any], index: int, kept: layout.Kept) -> Any:
    (layer,) = _take_layer([caches], index)
    if isinstance(layer, PADDED):
        return layout.extended(layer, kept, rows)
    if not kept.is_everyone:
        layer.filter(kept.places)
    if rows:
        layer.extend(rows[0].merge(rows))
    return layer


def _merge_layer(parts: list[Any]) -> Any:
    if not _are_plain(parts):
        return parts[0].merge(parts)
    return layout.merged(parts)


def _stack_roomy(parts: list[Any]) -> Any:
    return layout.level(parts) if _are_plain(parts) else _stack_layer(parts)


def _are_plain(parts: list[Any]) -> bool:
    return all(type(one) in PLAIN for one in parts) and any(map(length_of, parts))


def _may_stack(layers: list[Any]) -> bool:
    layouts = [_layout(_leaves(layer)) for layer in layers]
    return all(one == layouts[0] for one in layouts)


def _stack_layer(layers: list[Any]) -> Any:
    leaves = [_leaves(layer) for layer in layers]
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
