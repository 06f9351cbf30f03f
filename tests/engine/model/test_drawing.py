"""A draw as it is read: whose token, and what is told of it."""

from __future__ import annotations

import math

import mlx.core as mx
import numpy as np
import pytest

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


def test_each_row_is_told_its_own_logprobs_and_as_many_as_it_asked_for() -> None:
    counts = [3, None, 0, 5, None, 1]
    lines = np.random.default_rng(4).normal(size=(len(counts), VOCAB)).astype(np.float32)
    sampler = BatchSampler()
    sampler.arrange([make_row(top_logprobs=count) for count in counts])
    drawn = submit_draw(tuple(range(len(counts))), sampler, mx.array(lines)).read(token_bytes)
    for one, count, line in zip(drawn, counts, lines, strict=True):
        if count is None:
            assert one.logprobs is None
            continue
        assert one.logprobs is not None
        best = np.argsort(-line).tolist()
        told = [one.logprobs.token, *one.logprobs.top]
        assert [each.token_id for each in told] == [best[0], *best[:count]]
        assert [each.content for each in told] == [token_bytes(each.token_id) for each in told]
        logprobs = line - np.log(np.exp(line).sum())
        expected = [logprobs[each.token_id] for each in told]
        assert [each.logprob for each in told] == pytest.approx(expected, abs=1e-4)
