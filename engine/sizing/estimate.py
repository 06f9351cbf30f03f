"""From sizes to bytes: rows, slices, steps, and what one row needs alone.

    peak = weights + rows' caches + what one step computes with
    slice = activations + attention scores, after one layer's keys or values while they grow; or,
            on a device that is waited for, with as many layers as the host submits ahead of it
    step  = activations and logits + attention scores + one layer's keys or values while they move

Rows of unequal lengths are padded to the longest, and caches grow by GROWTH_TOKENS. Where attention
is one fused kernel scores never exist, in blocks only one block's. Each of the three parts has a
factor that measured peaks correct (sizing/learning.py): how many layers' buffers are alive at once
depends on how far ahead of the device the host submits.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Sequence

from engine.sizing.layers import Layers, Sums
from engine.sizing.shape import Shape
from engine.wire import Correction, RowNeeds

GROWTH_TOKENS = 256
SMALLEST_SLICE_TOKENS = 32
_FUSED_HEAD_SIZES = frozenset({64, 72, 80, 96, 128})
_LOGIT_COPIES = 11  # of the model, as float32, sorted, cut, with noise
# Before anything was measured: a CPU submits a layer or two ahead; an H200 took 2 MB a token of an
# 8B model's slices, and old caches of 22 to 32 of its 36 layers while they grew (docs/benchmarks.md
# has the figures); Metal's buffers are committed more often than CUDA's.
CPU_CORRECTION = Correction(slices=(2.5, 1.1, 1.1), steps=(1.1, 1.1, 1.1))
CUDA_CORRECTION = Correction(slices=(18.0, 1.1, 25.0), steps=(2.0, 3.0, 1.1))
METAL_CORRECTION = Correction(slices=(6.0, 1.1, 2.0), steps=(2.0, 2.0, 2.0))

Parts = tuple[float, float, float]  # bytes: activations, scores, what is copied of one layer


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Numbers:
    """How a model is computed here. `kv_bits` None: the caches keep `compute_bytes` an element.
    `together_bytes`: so much of what is copied is alive twice. `composed_scores`: of slices with no
    more (queries by keys, of a head) attention is composed although it could be fused.
    `block_scores`: slices have about so many at once, in no device's memory
    (model/cpu_slices.py); 0: all."""

    compute_bytes: int
    may_fuse: bool
    kv_bits: int | None = None
    together_bytes: int = 0
    composed_scores: int = 0
    block_scores: int = 0


class Estimate:
    """Live: `correction` follows measured peaks, and layers are those of the model once it has been
    loaded. The rest never changes."""

    def __init__(self, shape: Shape, numbers: Numbers, *, correction: Correction | None = None):
        """`correction`: what was measured; None: what is usual where attention is fused or not."""
        self.shape = shape
        self.numbers = numbers
        self._sums = Sums(shape.layers)
        self.correction = correction or (METAL_CORRECTION if numbers.may_fuse else CPU_CORRECTION)
        keeps_numbers = numbers.kv_bits is None
        may_fuse = numbers.may_fuse and keeps_numbers
        self._is_fused = may_fuse and shape.head_size in _FUSED_HEAD_SIZES
        is_in_blocks = keeps_numbers and not shape.has_own_attention
        self._block_scores = numbers.block_scores if is_in_blocks else 0

    def know_layers(self, layers: tuple[Layers, ...]) -> None:
        """What the caches of the loaded model keep, whatever its config seemed to say."""
        self.shape = dataclasses.replace(self.shape, layers=layers)
        self._sums = Sums(layers)

    @property
    def computes_in_blocks(self) -> bool:
        """Scores of slices are in no device's memory."""
        return self._block_scores > 0

    @property
    def token_bytes(self) -> float:
        """What every further token of a row adds to its caches."""
        return self._sums.token_elements * self._kv_bytes

    @property
    def _kv_bytes(self) -> float:
        """Of an element of keys or values. Quantised ones share a scale and a bias."""
        numbers = self.numbers
        if numbers.kv_bits is None:
            return float(numbers.compute_bytes)
        group_size = 64 if self.shape.head_size % 64 == 0 else 32
        return numbers.kv_bits / 8 + 2 * numbers.compute_bytes / group_size

    @property
    def state_bytes(self) -> int:
        return self._sums.state_elements * self.numbers.compute_bytes

    def row_bytes(self, num_tokens: int, *, slice_tokens: int = 1) -> int:
        """The caches of one row of so many tokens."""
        held = grown_tokens(num_tokens) if num_tokens else 0
        windows = sum(
            min(held, one.window + slice_tokens - 1) * one.count * one.token_elements
            for one in self._sums.windows
        )
        kept = held * self.token_bytes + windows * self.numbers.compute_bytes
        return int(kept) + self.state_bytes

    def batch_bytes(self, lengths: Iterable[int]) -> int:
        """The caches of rows that decode together: each as long as the longest."""
        known = list(lengths)
        return len(known) * self.row_bytes(max(known)) if known else 0

    def slice_bytes(self, slice_tokens: int, context_tokens: int) -> int:
        """What computing a slice after `context_tokens` others takes besides the caches."""
        computing = _corrected(
            self.slice_parts(slice_tokens, context_tokens), self.correction.slices
        )
        return max(computing, self.grow_bytes(context_tokens))

    def grow_bytes(self, context_tokens: int) -> int:
        """What making room in the caches of a row takes besides them, before its next slice. A
        device that is waited for makes it in the slice: there it is a part of that."""
        if self.numbers.together_bytes:
            return 0
        moved = self._moved_bytes(self._growing_bytes(context_tokens))
        return int(moved * self.correction.slices[2])

    def grown_slice_bytes(self, tokens: int, context: int) -> int:
        """A slice, and what it adds to its row."""
        caches = self.row_bytes(context + tokens) - self.row_bytes(context)
        return self.slice_bytes(tokens, context) + max(0, caches)

    def drawing_bytes(self, num_rows: int) -> int:
        """What drawing for rows takes when their last slice has been computed."""
        logits = self.shape.vocab_size * 4 * _LOGIT_COPIES
        return int(num_rows * logits * self.correction.steps[0])

    def step_bytes(
        self, num_rows: int, longest_tokens: int, *, moving_bytes: int | None = None
    ) -> int:
        """What drawing a token for each of so many rows takes besides the caches, in a step in
        which rows join or their caches grow. `moving_bytes`: of the batches that are laid out anew;
        None means all rows in one."""
        logits, scores, moved = self.step_parts(num_rows, longest_tokens)
        if moving_bytes is not None:
            moved = self._moved_bytes(moving_bytes)
        return _corrected((logits, scores, moved), self.correction.steps)

    def move_bytes(self, row_bytes: int) -> int:
        """What laying out batches with such caches anew takes besides them: one array is copied
        after the other."""
        return int(self._moved_bytes(row_bytes) * self.correction.steps[2])

    def most_row_bytes(self, room_bytes: int, num_rows: int, longest_tokens: int) -> int:
        """What the caches of so many rows may take, where the step in which they join has its
        part of the room."""
        logits, scores, layer = self.step_parts(num_rows, longest_tokens)
        rest_bytes = max(0, room_bytes - _corrected((logits, scores, 0.0), self.correction.steps))
        factor = self.correction.steps[2]
        spread_bytes = rest_bytes - factor * self.numbers.together_bytes
        least_bytes = max(
            rest_bytes / (1 + factor), spread_bytes / (1 + factor * self._moved_share)
        )
        return int(max(least_bytes, rest_bytes - factor * layer))

    def grouped_bytes(self, groups: Sequence[tuple[int, int]], *, slicing_bytes: int) -> int:
        """What batches, each of so many rows and its longest, and computing take: their logits are
        alive together, and when they are parted anew a layer of all is copied. Slices, of
        `slicing_bytes`, and steps take turns."""
        held = sum(rows * self.row_bytes(longest) for rows, longest in groups)
        logits, scores, _ = zip(*(self.step_parts(*one) for one in groups), strict=True)
        parts = (sum(logits), max(scores), self._moved_bytes(held))
        return held + max(slicing_bytes, _corrected(parts, self.correction.steps))

    def decode_bytes(
        self, num_rows: int, longest_tokens: int, growing: Iterable[tuple[int, int]]
    ) -> int:
        """The same of a step in which nobody joins. `growing`: rows and tokens of batches whose
        caches are full."""
        logits, scores, _ = self.step_parts(num_rows, longest_tokens)
        known = list(growing)
        grown = (rows * self._growing_bytes(tokens + 1) for rows, tokens in known)
        moved = self._moved_bytes(max(grown, default=0.0))
        computing = _corrected((logits, scores, moved), self.correction.steps)
        return computing + self.added_bytes(known)

    def added_bytes(self, growing: Iterable[tuple[int, int]]) -> int:
        """By how much full caches grow."""
        return sum(
            rows * (self.row_bytes(tokens + 1) - self.row_bytes(tokens)) for rows, tokens in growing
        )

    @property
    def image_bytes(self) -> int:
        """What looking at an image takes, which is free again before its tokens are computed."""
        if (tower := self.shape.tower) is None:
            return 0
        is_fused = self.numbers.may_fuse and tower.head_size in _FUSED_HEAD_SIZES
        has_scores = not (is_fused or self.numbers.block_scores)
        looking = tower.bytes_for(self.numbers.compute_bytes, has_scores=has_scores)
        return int(looking * self.correction.slices[0])

    def bundle_bytes(self, num_rows: int, num_tokens: int) -> int:
        """What computing so many whole rows takes, padded to `num_tokens` each, without caches."""
        parts = self.slice_parts(num_tokens, 0, num_rows=num_rows)
        return _corrected(parts, self.correction.slices)

    def piece_bytes(self, num_tokens: int, context_tokens: int, *, of_tokens: int) -> int:
        """What the next so many tokens of a row of `of_tokens` take, and what they add to it."""
        return self.grown_slice_bytes(num_tokens, context_tokens)

    def slice_parts(self, slice_tokens: int, context_tokens: int, *, num_rows: int = 1) -> Parts:
        """As the formula has it; `num_rows` rows of `slice_tokens` each."""
        length = context_tokens + slice_tokens
        activations = slice_tokens * self._activation_elements * self.numbers.compute_bytes
        scores = self._scores_bytes(slice_tokens, length)
        old_layer = self._layer_bytes(context_tokens) if self.numbers.together_bytes else 0.0
        if self._composes(slice_tokens, length):  # they are alive in as many layers
            return num_rows * (activations + scores), 0.0, num_rows * old_layer
        return num_rows * activations, num_rows * scores, num_rows * old_layer

    def step_parts(self, num_rows: int, longest_tokens: int) -> Parts:
        """As the formula has it. Decode steps have scores on every device."""
        logits = self.shape.vocab_size * 4 * _LOGIT_COPIES
        activations = self._activation_elements * self.numbers.compute_bytes
        scores = self.shape.query_heads * longest_tokens * self.numbers.compute_bytes
        moved = self._moved_bytes(num_rows * self._growing_bytes(longest_tokens))
        return num_rows * (logits + activations), num_rows * scores, moved

    def alone_bytes(self, num_tokens: int) -> int:
        """The most that a row of so many tokens needs, alone and in the smallest slices."""
        smallest = min(SMALLEST_SLICE_TOKENS, num_tokens)
        last = num_tokens - smallest
        last_composed = min(last, max(0, self._composed_tokens - smallest))
        slicing = max(self.slice_bytes(smallest, context) for context in (last_composed, last))
        transient = max(slicing, self.step_bytes(1, num_tokens))
        return self.row_bytes(num_tokens, slice_tokens=smallest) + transient

    def most_slice_tokens(self, room_bytes: int, *, context_tokens: int, at_most: int) -> int:
        """The largest slice that fits, never less than the smallest."""
        tokens = at_most
        while tokens > SMALLEST_SLICE_TOKENS:
            if self.grown_slice_bytes(tokens, context_tokens) <= room_bytes:
                return tokens
            tokens //= 2
        return SMALLEST_SLICE_TOKENS

    def needs(self) -> RowNeeds:
        """`alone_bytes` in a form that others can compute with."""
        windows = tuple(
            (
                one.window + SMALLEST_SLICE_TOKENS - 1,
                one.count * one.token_elements * self.numbers.compute_bytes,
            )
            for one in self._sums.windows
        )
        most, few = 1 << 22, max(1 << 12, self._composed_tokens)
        windowed = sum(tokens * each for tokens, each in windows)
        each = (self.alone_bytes(most) - self.alone_bytes(few)) / (most - few)
        fixed = self.alone_bytes(most) - windowed - int(most * each)
        grown = int(GROWTH_TOKENS * each) if self.token_bytes else 0
        return RowNeeds(
            fixed_bytes=fixed + grown,
            token_bytes=int(each) + 1,
            windows=windows,
            image_bytes=self._image_needs,
        )

    @property
    def _image_needs(self) -> int:
        """Of a row with images, beyond one without: an image's tokens are computed in one slice."""
        if (tower := self.shape.tower) is None:
            return 0
        most = self.shape.context_limit_tokens or tower.num_tokens
        slices = (max(tower.num_tokens, SMALLEST_SLICE_TOKENS), SMALLEST_SLICE_TOKENS)
        whole, smallest = (self.grown_slice_bytes(one, most) for one in slices)
        return max(self.image_bytes, whole - smallest)

    @property
    def _composed_tokens(self) -> int:
        """Up to so many the attention of the smallest slices is composed."""
        return self.numbers.composed_scores // SMALLEST_SLICE_TOKENS

    @property
    def _moved_share(self) -> float:
        """Of a row's caches, the largest array: what is alive twice while rows move."""
        growing = self._sums.token_elements
        return self._sums.largest_array_elements / growing if growing else 0.0

    @property
    def _activation_elements(self) -> int:
        """Of one token in the layer where most of them are alive."""
        attention = 2 * self.shape.query_heads * self.shape.head_size
        # Without attention the layer is a recurrent one, with more arrays of its inner size.
        inner = (3 if self.shape.query_heads else 5) * self.shape.mlp_size
        return 3 * self.shape.hidden_size + attention + inner

    def _scores_bytes(self, queries: int, length: int) -> int:
        shape = self.shape
        num_scores = shape.query_heads * queries * length
        attended_bytes = shape.query_heads * queries * shape.head_size * 4
        if self._block_scores:
            return min(num_scores, self._block_scores) * 4 + attended_bytes
        if self._is_fused and queries > 8 and not self._composes(queries, length):
            return attended_bytes
        return num_scores * self.numbers.compute_bytes

    def _composes(self, queries: int, length: int) -> bool:
        return self._is_fused and queries * length <= self.numbers.composed_scores

    def _layer_bytes(self, num_tokens: int) -> float:
        """One layer's keys and values, of what grows."""
        elements = self._sums.largest_layer_elements
        return grown_tokens(num_tokens) * elements * self._kv_bytes

    def _growing_bytes(self, num_tokens: int) -> float:
        """What grows of a row's caches, all layers."""
        return grown_tokens(num_tokens) * self.token_bytes

    def _moved_bytes(self, row_bytes: float) -> float:
        """Of such caches, what is alive twice while they are laid out anew."""
        return min(row_bytes, row_bytes * self._moved_share + self.numbers.together_bytes)


def _corrected(parts: Parts, factors: tuple[float, ...]) -> int:
    return int(sum(part * factor for part, factor in zip(parts, factors, strict=True)))


def grown_tokens(num_tokens: int) -> int:
    """What a cache of so many tokens has room for."""
    return -(-num_tokens // GROWTH_TOKENS) * GROWTH_TOKENS
