"""Body and head of a model give the logits of the last position, or the whole model does."""

from __future__ import annotations

from typing import Any

import mlx.core as mx
import mlx.nn as nn
import numpy as np
import pytest

from engine.model.caches import new_caches
from engine.model.last_logits import find_last_logits
from tests.engine.model.rig import loaded

TOKENS = mx.array([[5, 900, 31, 7], [8, 8, 70, 300]], mx.uint32)


@pytest.mark.parametrize("name", ["tiny-qwen3", "small-llama", "tiny-gemma3", "tiny-qwen3-next"])
def test_they_are_the_models_own(name: str) -> None:
    model = loaded(name).model
    last_logits = find_last_logits(model)
    assert last_logits is not None
    whole = model(TOKENS, cache=new_caches(model))[:, -1]
    ours = last_logits(TOKENS, new_caches(model))
    np.testing.assert_allclose(np.array(ours), np.array(whole), atol=1e-4)


class Scaled:
    """A family that does something to its logits after the head."""

    def __init__(self, model: Any):
        self._whole, self.model, self.lm_head = model, model.model, getattr(model, "lm_head", None)
        self.layers = model.layers

    def __call__(self, token_ids: mx.array, cache: Any) -> mx.array:
        return nn.tanh(self._whole(token_ids, cache=cache) / 30) * 30  # type: ignore[no-any-return]


class Headless:
    def __init__(self, model: Any):
        self._whole, self.layers = model, model.layers

    def __call__(self, token_ids: mx.array, cache: Any) -> mx.array:
        return self._whole(token_ids, cache=cache)  # type: ignore[no-any-return]


class Demanding(Scaled):
    """Its body wants more than tokens and caches."""

    def __init__(self, model: Any):
        super().__init__(model)
        self.model = lambda token_ids: token_ids


@pytest.mark.parametrize("family", [Scaled, Headless, Demanding])
def test_a_model_that_is_more_than_these_two_is_called_whole(family: type) -> None:
    assert find_last_logits(family(loaded("tiny-qwen3").model)) is None
