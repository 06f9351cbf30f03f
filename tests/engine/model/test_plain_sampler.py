"""Every row of a mixed batch draws what a plain sampler draws for that row alone.

The plain one is a few lines of numpy: bias, penalties, temperature, min_p, top_k, top_p, noise.
"""

from __future__ import annotations

import random

import mlx.core as mx
import numpy as np
import numpy.typing as npt
import pytest

from engine import wire
from engine.model.sampling import BatchSampler, SampledRow, noise_keys

VOCAB = 32
NUM_STEPS = 12
Line = npt.NDArray[np.float64]


class Row:
    """Asks for anything; knows what it has drawn."""

    def __init__(self, dice: random.Random) -> None:
        self.prompt = [dice.randrange(VOCAB) for _ in range(dice.randrange(1, 9))]
        self.output = [dice.randrange(VOCAB) for _ in range(dice.choice([0, 0, 5]))]
        self.sampling = wire.Sampling(
            seed=dice.randrange(-(2**63), 2**63),
            temperature=dice.choice([0.0, 0.3, 1.0, 1.8]),
            top_k=dice.choice([0, 0, 3, 12, 99]),
            top_p=dice.choice([1.0, 1.0, 0.9, 0.5]),
            min_p=dice.choice([0.0, 0.0, 0.05, 0.4]),
            presence_penalty=dice.choice([0.0, 0.0, 1.5, -1.0]),
            frequency_penalty=dice.choice([0.0, 0.0, 0.7, -0.5]),
            repetition_penalty=dice.choice([1.0, 1.0, 1.7, 0.6]),
            logit_bias=dice.choice([(), (), ((3, 4.0), (9, -100.0))]),
        )
        self.sampled = SampledRow(
            self.sampling, prompt_token_ids=self.prompt, output_token_ids=tuple(self.output)
        )

    def plain_draw(self, logits: Line) -> int:
        changed = self._penalised(logits.copy())
        if self.sampling.temperature == 0:
            return int(np.argmax(changed))
        scaled = changed / self.sampling.temperature
        return int(np.argmax(np.where(self._kept(scaled), scaled, -np.inf) + self._noise()))

    def _penalised(self, logits: Line) -> Line:
        one = self.sampling
        for token, value in one.logit_bias:
            logits[token] += value
        for token in {*self.prompt, *self.output}:
            is_likely = logits[token] > 0
            logits[token] *= 1 / one.repetition_penalty if is_likely else one.repetition_penalty
        for token in set(self.output):
            times = self.output.count(token)
            logits[token] -= one.presence_penalty + one.frequency_penalty * times
        return logits

    def _kept(self, scaled: Line) -> npt.NDArray[np.bool_]:
        one = self.sampling
        kept = np.exp(scaled - scaled.max()) >= one.min_p
        order = [token for token in np.argsort(-scaled) if kept[token]][: one.top_k or VOCAB]
        probabilities = np.exp(scaled[order]) / np.exp(scaled[order]).sum()
        num_kept = int((np.cumsum(probabilities) - probabilities < one.top_p).sum())
        kept[:] = False
        kept[order[:num_kept]] = True
        return kept

    def _noise(self) -> Line:
        seed = np.array([self.sampling.seed & (2**64 - 1)], np.uint64)
        position = np.array([len(self.output)], np.uint64)
        key = mx.array(noise_keys(seed, position)[0])
        return np.array(mx.random.gumbel((VOCAB,), key=key)).astype(np.float64)


@pytest.mark.parametrize("seed", range(4))
def test_a_row_draws_the_same_whatever_others_ask_for_and_when_they_come_and_go(
    seed: int,
) -> None:
    dice, numbers = random.Random(seed), np.random.default_rng(seed)
    sampler, rows = BatchSampler(), [Row(dice) for _ in range(6)]
    sampler.arrange([row.sampled for row in rows])
    for _ in range(NUM_STEPS):
        shape = len(rows), VOCAB
        logits = numbers.normal(dice.choice([-3, 0, 3]), 2, shape).astype(np.float32)
        expected = [
            row.plain_draw(line.astype(np.float64)) for row, line in zip(rows, logits, strict=True)
        ]
        drawn: list[int] = sampler.draw(mx.array(logits)).token_ids.tolist()  # type: ignore[assignment]
        assert drawn == expected
        for row, token in zip(rows, drawn, strict=True):
            row.output.append(token)
        kept = [place for place in range(len(rows)) if dice.random() < 0.8]
        rows = [rows[place] for place in kept] + [Row(dice) for _ in range(dice.randrange(1, 3))]
        dice.shuffle(rows)  # one that has left has given its place to another
        sampler.arrange([row.sampled for row in rows])
