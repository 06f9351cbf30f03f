"""Of a slice no more is computed than is wanted; what is wanted is what the whole model gives."""

from __future__ import annotations

from typing import Any

import mlx.core as mx
import mlx.nn as nn
import numpy as np
import pytest
from mlx.utils import tree_flatten
from mlx_lm.models import qwen3
from mlx_lm.models.base import create_causal_mask

from engine.model import cpu_slices, kernels, reading
from engine.model.caches import new_caches
from engine.model.reading import Reader
from tests.engine.model.rig import loaded

TOKENS = mx.array([[5, 900, 31, 7], [8, 8, 70, 300]], mx.uint32)


@pytest.mark.parametrize("name", ["tiny-qwen3", "small-llama", "tiny-gemma3", "tiny-qwen3-next"])
def test_they_are_the_models_own(name: str) -> None:
    model = loaded(name).model
    logits = Reader(model).logits
    assert logits is not None
    whole = model(TOKENS, cache=new_caches(model))[:, -1]
    ours = logits(TOKENS, new_caches(model))
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
    assert Reader(family(loaded("tiny-qwen3").model)).logits is None


class Copying(Headless):
    """Its list of layers is not the one that it calls."""

    def __init__(self, model: Any):
        super().__init__(model)
        self.layers = list(model.layers)


def test_what_is_not_called_is_not_said_to_be_trimmed() -> None:
    assert not Reader(Copying(loaded("tiny-qwen3").model)).trims
    assert Reader(Headless(loaded("tiny-qwen3").model)).trims


@pytest.fixture
def in_mlx(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where slices of such models are computed past it (test_cpu_body.py)."""
    monkeypatch.setattr(reading, "make_cpu_body", lambda _: None)


@pytest.mark.usefixtures("in_mlx")
@pytest.mark.parametrize("name", ["tiny-qwen3", "tiny-qwen3-next", "tiny-mamba", "tiny-llama4"])
def test_the_last_layer_is_trimmed(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    reader, model = Reader(loaded(name).model), loaded(name).model
    seen: list[int] = []
    call = reading._Trimmed.__call__

    def note(layer: Any, states: mx.array, *arguments: Any, **named: Any) -> Any:
        seen.append(states.shape[1])
        return call(layer, states, *arguments, **named)

    monkeypatch.setattr(reading._Trimmed, "__call__", note)
    reader.read(prompt(20), new_caches(model))
    assert reader.trims and seen == [20]


FAMILIES = ["tiny-qwen3", "small-llama", "tiny-gemma3", "tiny-qwen3-next", "tiny-mamba"]


def held(caches: list[Any]) -> list[np.ndarray]:
    flat: Any = tree_flatten([cache.state for cache in caches])
    return [np.array(one) for _, one in flat if isinstance(one, mx.array)]


def prompt(num_tokens: int) -> mx.array:
    return mx.array([[10 + at * 7919 % 3900 for at in range(num_tokens)]], mx.uint32)


@pytest.mark.usefixtures("in_mlx")
@pytest.mark.parametrize("num_tokens", [1, 2, 300])
@pytest.mark.parametrize("name", FAMILIES)
def test_of_the_last_layer_caches_hold_what_the_whole_model_leaves_there(
    name: str, num_tokens: int
) -> None:
    model = loaded(name).model
    reader = Reader(model)
    assert reader.trims
    rows = [new_caches(model) for _ in range(3)]
    for caches in rows:
        model(prompt(40), cache=caches)
    whole = model(prompt(num_tokens), cache=rows[0])[:, -1]
    reader.read(prompt(num_tokens), rows[1])
    for ours, theirs in zip(held(rows[1]), held(rows[0]), strict=True):
        np.testing.assert_array_equal(ours, theirs)
    if reader.logits is not None:
        logits = reader.logits(prompt(num_tokens), rows[2])
        np.testing.assert_allclose(np.array(logits), np.array(whole), atol=1e-4)
        for ours, theirs in zip(held(rows[2]), held(rows[0]), strict=True):
            np.testing.assert_allclose(ours, theirs, atol=1e-4)


@pytest.mark.usefixtures("in_mlx")
@pytest.mark.skipif(not kernels.is_x86_processor(), reason="elsewhere MLX computes it, lazily")
def test_attention_that_nobody_asks_for_is_not_computed(monkeypatch: pytest.MonkeyPatch) -> None:
    model = loaded("small-llama").model
    kernels.bind(model, kernels.ON_CPU)
    computed = []
    attention = cpu_slices.in_blocks

    def count(queries: mx.array, *arguments: Any, **named: Any) -> mx.array:
        computed.append(queries.shape[2])
        return attention(queries, *arguments, **named)

    reader = Reader(model)
    monkeypatch.setattr(cpu_slices, "in_blocks", count)
    caches = new_caches(model)
    reader.read(prompt(200), caches)
    assert computed == [200] * (len(model.layers) - 1)
    assert reader.logits is not None
    mx.eval(reader.logits(prompt(200), caches))
    assert computed == [200] * (len(model.layers) - 1) * 2


class Mixing(nn.Module):
    """A last layer whose positions see those after them."""

    def __init__(self, layer: Any):
        super().__init__()
        self.layer = layer

    def __call__(self, states: mx.array, *arguments: Any, **named: Any) -> mx.array:
        return self.layer(states.mean(axis=1, keepdims=True) + states, *arguments, **named)


class Refusing(Mixing):
    def __call__(self, states: mx.array, *arguments: Any, **named: Any) -> mx.array:
        if states.shape[1] == 1:
            raise ValueError("not a part of a prompt")
        return self.layer(states, *arguments, **named)


@pytest.mark.parametrize("kind", [Mixing, Refusing])
def test_a_last_layer_that_needs_all_positions_gets_them(kind: type) -> None:
    model = loaded.__wrapped__("tiny-qwen3").model
    last = model.layers[-1] = kind(model.layers[-1])
    reader = Reader(model)
    assert not reader.trims
    assert reader.logits is not None
    whole = model(TOKENS, cache=new_caches(model))[:, -1]
    logits = reader.logits(TOKENS, new_caches(model))
    np.testing.assert_allclose(np.array(logits), np.array(whole), atol=1e-4)
    assert model.layers[-1] is last


def test_a_mask_for_all_positions_is_used_for_all(monkeypatch: pytest.MonkeyPatch) -> None:
    """Some families make one where a prompt is longer than what their layers look back."""
    model = loaded("tiny-qwen3").model
    reader = Reader(model)
    assert reader.trims and reader.logits is not None
    monkeypatch.setattr(qwen3, "create_attention_mask", lambda h, _: create_causal_mask(h.shape[1]))
    whole = model(TOKENS, cache=new_caches(model))[:, -1]
    logits = reader.logits(TOKENS, new_caches(model))
    np.testing.assert_allclose(np.array(logits), np.array(whole), atol=1e-4)


def test_the_model_is_whole_again_after_a_failure() -> None:
    model = loaded("tiny-qwen3").model
    reader, last = Reader(model), model.layers[-1]
    with pytest.raises(TypeError):
        reader.read(TOKENS, 7)  # type: ignore[arg-type]
    assert model.layers[-1] is last
