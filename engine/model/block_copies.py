"""Blocks of a row, copied when it is known which of them are kept; and rows joined from blocks.

A host submits operations to a GPU one by one. So there a block is two arrays, the keys of all
layers [layers, 1, H, tokens, D] and their values, and no block takes an operation for each layer:

    copy    the layers of several neighbours are stacked, each block is cut out of that
    join    the stacks of all blocks are joined, of several layers at once, each is cut out of that

A CPU copies from stacks more slowly: there each layer's array is by itself. It does not know who
keeps what. Owner: the model thread.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence

import mlx.core as mx
from mlx_lm.models.cache import KVCache

TokenSpan = tuple[int, int]  # from, up to
Content = list[mx.array]
Leaf = tuple[mx.array, ...]  # of one layer: keys, then values


@dataclasses.dataclass(frozen=True, slots=True, eq=False)
class Source:
    """The layers of a row that can be cut, as they stand. `stacks`: see above, if the layers are of
    one shape. `most_bytes`: of stacks that blocks are cut out of."""

    leaves: Sequence[Leaf]
    stacks: bool = False
    most_bytes: int = 0

    @property
    def token_bytes(self) -> int:
        return sum(one.nbytes // one.shape[-2] for leaf in self.leaves for one in leaf)

    def copies(self, spans: Sequence[TokenSpan]) -> Iterator[list[Content]]:
        """A content for each span, in their order, lazily. Those of a list are cut out of the same
        stacks, which are gone when they are computed."""
        if not (self.stacks and _are_alike(self.leaves)):
            yield [self._by_layer(span) for span in spans]
            return
        for group in _neighbours(spans, most_tokens=self.most_bytes // self.token_bytes):
            yield list(self._cut_out(group))

    def _by_layer(self, span: TokenSpan) -> Content:
        return [mx.contiguous(one) for part in self._cut(span) for one in part]

    def _cut(self, span: TokenSpan) -> list[Content]:
        return [[one[..., span[0] : span[1], :] for one in leaf] for leaf in self.leaves]

    def _cut_out(self, group: Sequence[TokenSpan]) -> Iterator[Content]:
        first = group[0][0]
        parts = zip(*self._cut((first, group[-1][1])), strict=True)
        stacked = [mx.concatenate(list(part))[:, None] for part in parts]
        for start, stop in group:
            yield [mx.contiguous(one[..., start - first : stop - first, :]) for one in stacked]


def _neighbours(spans: Sequence[TokenSpan], *, most_tokens: int) -> Iterator[list[TokenSpan]]:
    """Spans that follow each other, as many as have so many tokens; at least one."""
    group: list[TokenSpan] = []
    for start, stop in spans:
        if group and (start != group[-1][1] or stop - group[0][0] > most_tokens):
            yield group
            group = []
        group.append((start, stop))
    if group:
        yield group


def _are_alike(leaves: Sequence[Leaf]) -> bool:
    """But for how many tokens they have room for."""
    kinds = {tuple((*a.shape[:-2], a.shape[-1], a.dtype) for a in leaf) for leaf in leaves}
    return len(kinds) == 1


def joined(
    blocks: Sequence[tuple[Content, int]], num_layers: int, *, most_bytes: int = 0
) -> Iterator[mx.array]:
    """The arrays of each layer over all blocks, each with the number of its tokens to use, and with
    room for the tokens that come next: growing would copy all of it once more. Lazy. Layers from
    stacks are parts of common buffers, of `most_bytes` at most, until they take more tokens."""
    num_tokens = sum(num_tokens for _, num_tokens in blocks)
    room = KVCache.step - num_tokens % KVCache.step
    if not all(_is_stacked(content) for content, _ in blocks):
        layers = [(_layers_of(content, num_layers), num_tokens) for content, num_tokens in blocks]
        return _concatenated(layers, room=room)
    return _joined_stacks(blocks, num_layers, room=room, most_bytes=most_bytes)


def _joined_stacks(
    blocks: Sequence[tuple[Content, int]], num_layers: int, *, room: int, most_bytes: int
) -> Iterator[mx.array]:
    num_tokens = room + sum(num_tokens for _, num_tokens in blocks)
    layer_bytes = sum(one.nbytes // (num_layers * one.shape[-2]) for one in blocks[0][0])
    portion = max(1, most_bytes // (layer_bytes * num_tokens))
    for first in range(0, num_layers, portion):
        some = [([one[first : first + portion] for one in part], n) for part, n in blocks]
        whole = list(_concatenated(some, room=room))
        for layer in range(len(whole[0])):
            yield from (_layer(one, layer) for one in whole)


def _is_stacked(content: Content) -> bool:
    return content[0].ndim == 5


def _layers_of(content: Content, num_layers: int) -> Content:
    """Stacked or not, in the order of the layers."""
    if not _is_stacked(content):
        return content
    return [_layer(part, layer) for layer in range(num_layers) for part in content]


def _layer(stack: mx.array, layer: int) -> mx.array:
    """A view; a number as an index would be a gather."""
    return stack[layer : layer + 1].squeeze(0)


def _concatenated(blocks: Sequence[tuple[Content, int]], *, room: int) -> Iterator[mx.array]:
    for at in range(len(blocks[0][0])):
        parts = [_first_tokens(content[at], num_tokens) for content, num_tokens in blocks]
        *before, _, width = parts[0].shape
        empty = mx.zeros((*before, room, width), parts[0].dtype)
        yield mx.concatenate([*parts, empty], axis=-2)


def _first_tokens(array: mx.array, num_tokens: int) -> mx.array:
    return array if array.shape[-2] == num_tokens else array[..., :num_tokens, :]
