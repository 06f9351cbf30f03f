"""A draw as it is read: whose token, and what is told of it."""

from __future__ import annotations

import math

import mlx.core as mx
import numpy as np

from engine import wire
from engine.model.drawing import submit_draw
from engine.model.sampling import BatchSampler, SampledRow

VOCAB = 16


def make_row(**changes: object) -> SampledRow:
    sampling = wire.Sampling(**{"seed": 1, "temperature": 0.0, **changes})  # type: ignore[arg-type]
    return SampledRow(sampling, prompt_token_ids=(1,), output_token_ids=())


def token_bytes(token_id: int) -> bytes:
    return b"%d" % token_id


def test_what_is_no_number_is_told_as_one_that_travels() -> None:
    sampler = BatchSampler()
    sampler.arrange([make_row(top_logprobs=2)])
    line = np.zeros((1, VOCAB), np.float32)
    line[0, 7] = math.nan
    (drawn,) = submit_draw((1,), sampler, mx.array(line)).read(token_bytes)
    assert drawn.is_undefined and drawn.logprobs is not None
    told = [drawn.logprobs.token, *drawn.logprobs.top]
    assert all(math.isfinite(one.logprob) for one in told)
    delta = wire.Delta(channel=wire.Channel.CONTENT, text="", logprobs=(drawn.logprobs,))
    assert wire.decode(wire.encode(delta)) == delta
