"""What a row keeps is asked of the loaded model: of every class of caches, to the byte."""

from __future__ import annotations

import dataclasses
from typing import Any

import mlx.core as mx
import pytest

from engine.model.caches import new_caches, num_bytes
from engine.model.kept_layers import kept_layers
from engine.sizing.estimate import Estimate, Numbers
from engine.sizing.shape import shape_of
from tests.engine.model.rig import loaded
from tests.engine.sizing.configs import QWEN3_8B
from tests.engine.sizing.tiny_configs import TINY

SLICE_TOKENS, NUM_SLICES = 128, 5  # whole ones, which fill a window


def full_row(model: Any) -> list[Any]:
    caches = new_caches(model)
    for _ in range(NUM_SLICES):
        mx.eval(model(mx.ones((1, SLICE_TOKENS), mx.uint32), cache=caches))
    return caches


@pytest.mark.parametrize("name", ["tiny-qwen3", "tiny-gemma3", "tiny-mamba", *TINY])
def test_a_row_keeps_what_was_found(name: str) -> None:
    model = loaded(name).model
    layers = kept_layers(model, compute_bytes=4)
    assert layers is not None
    shape = dataclasses.replace(shape_of(QWEN3_8B), layers=layers)
    estimate = Estimate(shape, Numbers(compute_bytes=4, may_fuse=False))
    kept_bytes = estimate.row_bytes(SLICE_TOKENS * NUM_SLICES, slice_tokens=SLICE_TOKENS)
    assert kept_bytes == pytest.approx(num_bytes(full_row(model)), rel=0.001)


def test_caches_that_only_a_family_knows_are_left_to_its_config() -> None:
    assert kept_layers(loaded("tiny-deepseek-v4.1").model, compute_bytes=4) is None
