"""Every way in which a token may be drawn or a text computed, once, while a model is loaded.

A GPU's kernels are compiled at their first use, on CUDA for ten seconds and more: by then somebody
waits for a token, and the watchdog takes it for a hang.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import mlx.core as mx
import numpy as np
import numpy.typing as npt

from engine import wire
from engine.model.caches import new_caches
from engine.model.drawing import submit_draw
from engine.model.sampling import BatchSampler, SampledRow, idle_row

WAYS = (
    wire.Sampling(seed=0, temperature=0.0),
    wire.Sampling(seed=0),
    wire.Sampling(seed=0, top_k=2, top_p=0.9),
    wire.Sampling(seed=0, min_p=0.1),
    wire.Sampling(seed=0, presence_penalty=1.0, frequency_penalty=1.0, repetition_penalty=1.1),
    wire.Sampling(seed=0, logit_bias=((0, 1.0),)),
    wire.Sampling(seed=0, top_logprobs=2),
)
_NUM_DRAWS = 2  # the second one knows what the first has drawn


class _Anything:
    """A grammar of any tokens."""

    fault = None

    def advance(self, token_id: int) -> None: ...
    def fill(self, words: npt.NDArray[np.int32]) -> None:
        words.fill(-1)


def rehearse(model: Any) -> Iterator[None]:
    """None after each way, which has been computed."""
    logits = model(mx.array([[0]], mx.uint32), cache=new_caches(model))[:, -1]
    for sampling in WAYS:
        yield from _draw(logits, sampling)
    yield from _draw(logits, WAYS[0], _Anything())


def rehearse_vectors(runner: Any) -> None:
    """Of a VectorRunner or an EncoderRunner: rows of unequal length, and one in pieces."""
    runner.run([(0, 0), (0,)])
    row = runner.begin((0, 0))
    while runner.go_on(row, 1) is None:
        pass


def _draw(
    logits: mx.array, sampling: wire.Sampling, constraint: _Anything | None = None
) -> Iterator[None]:
    """For one row, and for one beside another that wants nothing special."""
    for others in ([], [idle_row()]):
        row = SampledRow(
            sampling, prompt_token_ids=(0,), output_token_ids=(), constraint=constraint
        )
        sampler, rows = BatchSampler(), [row, *others]
        sampler.arrange(rows)
        for _ in range(_NUM_DRAWS):
            draw = submit_draw((0,) * len(rows), sampler, mx.concatenate([logits] * len(rows)))
            draw.read(lambda _: b"")
        yield
