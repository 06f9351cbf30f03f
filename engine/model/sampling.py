"""Drawing the next token of every row at once. What it does not know: text, requests, caches.

Randomness is a pure function of (seed, position), position counting the output tokens of the
request. The draw is argmax(logits / temperature + Gumbel noise): the Gumbel-max trick, with noise
from a key per row. So a seed gives the same tokens alone, in any batch, and after a crash.
"""

from __future__ import annotations

import copy
import dataclasses
from collections.abc import Callable, Iterable, Sequence

import mlx.core as mx
import numpy as np
import numpy.typing as npt

from engine import wire
from engine.core.constraint import Constraint
from engine.model.memory import device_kind
from engine.model.token_masks import apply_constraints

LEAST_TEMPERATURE = 1e-5  # below it logits / temperature would outgrow float32's range
_MASK_64 = 0xFFFF_FFFF_FFFF_FFFF
_gumbel_rows = mx.vmap(lambda key, like: mx.random.gumbel(like.shape, key=key), in_axes=(0, 0))


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class DrawnRows:
    """Device arrays of one draw: `token_ids` and `is_undefined` [B], True where some logit is NaN
    or infinite, or all are -inf; the rest for the rows that asked for logprobs.

    `logprob_rows`: these rows' indices in the batch and how many alternatives each wants.
    """

    token_ids: mx.array
    is_undefined: mx.array
    logprob_rows: tuple[tuple[int, int], ...] = ()
    drawn_logprobs: mx.array | None = None  # [R]
    top_token_ids: mx.array | None = None  # [R, n]
    top_logprobs: mx.array | None = None  # [R, n]

    @property
    def arrays(self) -> list[mx.array]:
        extra = (self.drawn_logprobs, self.top_token_ids, self.top_logprobs)
        return [self.token_ids, self.is_undefined, *(one for one in extra if one is not None)]


class SampledRow:
    """What sampling keeps of one row: its parameters, its position, its token counts."""

    def __init__(
        self,
        sampling: wire.Sampling,
        *,
        prompt_token_ids: Sequence[int],
        output_token_ids: Sequence[int],
        constraint: Constraint | None = None,
    ):
        self.sampling = sampling
        self.constraint = constraint
        self.seed = sampling.seed & _MASK_64
        self.position = len(output_token_ids)
        self._prompt = prompt_token_ids
        self._output = output_token_ids
        self._counts: mx.array | None = None
        self._is_in_prompt: mx.array | None = None
        self._bias: mx.array | None = None

    def advance(self, token_id: int) -> str | None:
        """This row has drawn `token_id`. Why it cannot go on, if it cannot."""
        if self.constraint is None:
            return None
        self.constraint.advance(token_id)
        return self.constraint.fault

    def after(self, token_ids: Sequence[int], vocab_size: int) -> SampledRow:
        """The row as it is once it has drawn these; no grammar holds it."""
        assert self.constraint is None
        row = copy.copy(self)
        row.position += len(token_ids)
        if self.has_penalties and token_ids:
            row._counts = self.counts(vocab_size).at[mx.array(tuple(token_ids))].add(1.0)
        return row

    @property
    def has_penalties(self) -> bool:
        one = self.sampling
        return bool(one.presence_penalty or one.frequency_penalty or one.repetition_penalty != 1.0)

    @property
    def has_filters(self) -> bool:
        one = self.sampling
        return one.top_k > 0 or one.top_p < 1.0

    @property
    def is_greedy(self) -> bool:
        return self.sampling.temperature < LEAST_TEMPERATURE

    def counts(self, vocab_size: int) -> mx.array:
        """How often each token was drawn, [V]."""
        if self._counts is None:
            counts = np.bincount(np.asarray(self._output, np.int64), minlength=vocab_size)
            self._counts = mx.array(counts[:vocab_size].astype(np.float32))
        return self._counts

    def set_counts(self, counts: mx.array) -> None:
        self._counts = counts

    def is_in_prompt(self, vocab_size: int) -> mx.array:
        if self._is_in_prompt is None:
            flags = np.zeros(vocab_size, np.bool_)
            flags[np.asarray(self._prompt, np.int64)] = True
            self._is_in_prompt = mx.array(flags)
        return self._is_in_prompt

    def bias(self, vocab_size: int) -> mx.array:
        if self._bias is None:
            bias = np.zeros(vocab_size, np.float32)
            for token_id, value in self.sampling.logit_bias:
                bias[token_id] += value
            self._bias = mx.array(bias)
        return self._bias


def idle_row() -> SampledRow:
    """For a place that nobody has."""
    plain = wire.Sampling(seed=0, temperature=0.0)
    return SampledRow(plain, prompt_token_ids=(), output_token_ids=())


class BatchSampler:
    """Draws for the rows of one batch, in the order of the batch. Its parameter arrays are built
    when rows come or go, not at every step.
    """

    def __init__(self) -> None:
        self._rows: list[SampledRow] = []
        self._plan: _Plan | None = None

    @property
    def rows(self) -> list[SampledRow]:
        """In the order of the batch; the list is replaced, never changed."""
        return self._rows

    @property
    def is_constrained(self) -> bool:
        """Some row's draw depends on which tokens it has drawn so far."""
        return any(row.constraint is not None for row in self._rows)

    def arrange(self, rows: list[SampledRow]) -> None:
        """These, in this order, are the batch from now on."""
        if self._plan is not None:
            self._plan.give_counts_back()
            self._plan = None
        self._rows = rows

    def draw(self, logits: mx.array) -> DrawnRows:
        """The next token of every row from `logits` [B, V]. Lazy: nothing is evaluated here."""
        if self._plan is None:
            self._plan = _Plan(self._rows, logits.shape[-1])
        drawn = self._plan.draw(logits)
        for row in self._rows:
            row.position += 1
        return drawn


class _Plan:
    """The parameters of a fixed list of rows as arrays, each for only those rows that use it."""

    def __init__(self, rows: list[SampledRow], vocab_size: int):
        self._rows = rows
        self._constrained = _Subset(rows, lambda row: row.constraint is not None)
        self._constraints = [one.constraint for one in rows if one.constraint is not None]
        self._vocab_size = vocab_size
        self._biased = _Subset(rows, lambda row: bool(row.sampling.logit_bias))
        self._penalised = _Subset(rows, lambda row: row.has_penalties)
        self._random = _Subset(rows, lambda row: not row.is_greedy)
        self._logged = _Subset(rows, lambda row: row.sampling.top_logprobs is not None)
        # MLX's argmax takes a NaN for the largest there: what was drawn tells without a pass more.
        is_plain = not self._random and not self._constrained
        self._found_by_argmax = is_plain and device_kind() == "cpu"
        random = self._random.members
        self._filtered = _Subset(random, lambda row: row.has_filters)
        self._floored = _Subset(random, lambda row: row.sampling.min_p > 0)
        self._temperatures = _column(one.sampling.temperature for one in random)
        self._seeds = np.array([one.seed for one in random], np.uint64)
        if self._biased:
            self._bias = mx.stack([one.bias(vocab_size) for one in self._biased.members])
        if self._penalised:
            self._prepare_penalties()
        if self._filtered:
            self._prepare_filters()
        if self._floored:
            self._log_min_p = mx.log(_column(one.sampling.min_p for one in self._floored.members))

    def draw(self, logits: mx.array) -> DrawnRows:
        raw = logits
        if self._biased:
            logits = self._biased.apply(logits, lambda part: part + self._bias)
        if self._penalised:
            logits = self._penalised.apply(logits, self._penalise)
        if self._constrained:
            logits = self._constrained.apply(logits, self._mask)
        if not self._random:
            tokens = mx.argmax(logits, axis=-1)
        elif self._random.is_everyone:
            tokens = self._draw_random(logits)
        else:
            tokens = mx.argmax(logits, axis=-1)
            tokens[self._random.index] = self._draw_random(logits[self._random.index])
        if self._penalised:
            self._count(tokens)
        return self._with_logprobs(raw, tokens)

    def give_counts_back(self) -> None:
        if self._penalised:
            for number, row in enumerate(self._penalised.members):
                row.set_counts(self._counts[number])

    def _mask(self, logits: mx.array) -> mx.array:
        return apply_constraints(logits, self._constraints)

    def _draw_random(self, logits: mx.array) -> mx.array:
        scaled = logits.astype(mx.float32) / self._temperatures
        if self._floored:
            scaled = self._floored.apply(scaled, self._apply_min_p)
        if self._filtered:
            scaled = self._filtered.apply(scaled, self._apply_top_k_top_p)
        positions = np.array([one.position for one in self._random.members], np.uint64)
        keys = mx.array(noise_keys(self._seeds, positions))
        return mx.argmax(scaled + _gumbel_rows(keys, scaled), axis=-1)

    def _apply_min_p(self, scaled: mx.array) -> mx.array:
        floor = scaled.max(axis=-1, keepdims=True) + self._log_min_p
        return mx.where(scaled >= floor, scaled, -mx.inf)

    def _prepare_filters(self) -> None:
        samplings = [one.sampling for one in self._filtered.members]
        top_k = [one.top_k or self._vocab_size for one in samplings]
        self._num_candidates = min(max(top_k), self._vocab_size)
        self._top_k = mx.array(top_k)[:, None]
        self._top_p = _column(one.top_p for one in samplings)

    def _apply_top_k_top_p(self, scaled: mx.array) -> mx.array:
        """Keep the k likeliest; of these the fewest that hold the share p of their probability."""
        best = scaled
        if self._num_candidates < self._vocab_size:
            best = mx.topk(scaled, self._num_candidates, axis=-1)
        best = mx.sort(best, axis=-1)[:, ::-1]
        rank = mx.arange(self._num_candidates)[None]
        best = mx.where(rank < self._top_k, best, -mx.inf)
        probabilities = mx.softmax(best, axis=-1, precise=True)
        before = mx.cumsum(probabilities, axis=-1) - probabilities
        # The likeliest token always stays, whatever p is.
        kept = (before < self._top_p) & (best > -mx.inf) | (rank == 0)
        threshold = mx.where(kept, best, mx.inf).min(axis=-1, keepdims=True)
        return mx.where(scaled >= threshold, scaled, -mx.inf)

    def _prepare_penalties(self) -> None:
        members, size = self._penalised.members, self._vocab_size
        self._counts = mx.stack([one.counts(size) for one in members])
        self._in_prompt = mx.stack([one.is_in_prompt(size) for one in members])
        self._presence = _column(one.sampling.presence_penalty for one in members)
        self._frequency = _column(one.sampling.frequency_penalty for one in members)
        self._repetition = _column(one.sampling.repetition_penalty for one in members)

    def _penalise(self, logits: mx.array) -> mx.array:
        """OpenAI's presence and frequency over the output; CTRL's repetition over everything."""
        was_drawn = self._counts > 0
        repeated = mx.where(logits > 0, logits / self._repetition, logits * self._repetition)
        logits = mx.where(was_drawn | self._in_prompt, repeated, logits)
        return logits - self._frequency * self._counts - self._presence * was_drawn

    def _count(self, tokens: mx.array) -> None:
        rows = mx.arange(len(self._penalised.members))
        self._counts = self._counts.at[rows, tokens[self._penalised.index]].add(1.0)

    def _largest(self, logits: mx.array, tokens: mx.array) -> mx.array:
        """A logit of each row that is finite only where the row's softmax is defined."""
        if self._found_by_argmax:
            return mx.take_along_axis(logits, tokens[:, None], axis=-1)[:, 0]
        return mx.max(logits, axis=-1)

    def _with_logprobs(self, logits: mx.array, tokens: mx.array) -> DrawnRows:
        largest = self._largest(logits, tokens)
        is_undefined = mx.isnan(largest - largest)  # what is infinite less itself is NaN
        if not self._logged:
            return DrawnRows(token_ids=tokens, is_undefined=is_undefined)
        part = logits[self._logged.index].astype(mx.float32)
        logprobs = part - mx.logsumexp(part, axis=-1, keepdims=True)
        drawn = tokens[self._logged.index][:, None]
        wanted = [one.sampling.top_logprobs or 0 for one in self._logged.members]
        top = _likeliest(logprobs, max(wanted))
        return DrawnRows(
            token_ids=tokens,
            is_undefined=is_undefined,
            logprob_rows=tuple(zip(self._logged.positions, wanted, strict=True)),
            drawn_logprobs=mx.take_along_axis(logprobs, drawn, axis=-1)[:, 0],
            top_token_ids=top,
            top_logprobs=mx.take_along_axis(logprobs, top, axis=-1),
        )


_Test = Callable[[SampledRow], bool]
_Change = Callable[[mx.array], mx.array]


class _Subset:
    """Some of the rows, and how to change only their lines of a [B, V] array."""

    def __init__(self, rows: list[SampledRow], belongs: _Test):
        self.positions = [number for number, row in enumerate(rows) if belongs(row)]
        self.members = [rows[number] for number in self.positions]
        self.is_everyone = len(self.members) == len(rows)
        self.index = mx.array(self.positions) if self.positions else None

    def __bool__(self) -> bool:
        return bool(self.members)

    def apply(self, values: mx.array, change: _Change) -> mx.array:
        if self.is_everyone:
            return change(values)
        new = change(values[self.index])
        changed = mx.array(values, new.dtype)  # finer than 16 bits, as alone
        changed[self.index] = new
        return changed


def _column(values: Iterable[float]) -> mx.array:
    return mx.array(list(values), mx.float32)[:, None]


def _likeliest(logprobs: mx.array, count: int) -> mx.array:
    """The tokens with the highest of `logprobs` [R, V], best first; of equal ones the lower id is
    first: MLX's partition takes it and its sort leaves it there.
    """
    if count == 0:
        return mx.zeros((len(logprobs), 0), mx.uint32)
    few = mx.argpartition(-logprobs, count - 1, axis=-1)[:, :count]
    few = mx.sort(few, axis=-1)
    order = mx.argsort(-mx.take_along_axis(logprobs, few, axis=-1), axis=-1)
    return mx.take_along_axis(few, order, axis=-1)


def noise_keys(
    seeds: npt.NDArray[np.uint64], positions: npt.NDArray[np.uint64]
) -> npt.NDArray[np.uint32]:
    """One random key [2] per row, from uint64 seeds and positions (splitmix64's finaliser)."""
    mixed = seeds * np.uint64(0xD1342543DE82EF95) + (positions + np.uint64(1)) * np.uint64(
        0x9E3779B97F4A7C15
    )
    mixed = (mixed ^ (mixed >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    mixed = (mixed ^ (mixed >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    mixed = mixed ^ (mixed >> np.uint64(31))
    halves = [mixed >> np.uint64(32), mixed & np.uint64(0xFFFF_FFFF)]
    return np.stack(halves, axis=-1).astype(np.uint32)
