"""On x86 processors slices of models built as Llama's or Qwen3's go past MLX, with its answers."""

from __future__ import annotations

import gc
import tracemalloc
import weakref
from typing import Any

import mlx.core as mx
import numpy as np
import pytest
from mlx import nn
from mlx_lm.models import llama

from engine import wire
from engine.core.step import Join, Step
from engine.model import cpu_layer, direct_step, kernels
from engine.model.caches import new_caches
from engine.model.cpu_body import make_cpu_body
from engine.model.reading import Reader
from engine.model.runner import Runner
from tests.engine.devices import needs_processor_kernels
from tests.engine.model.rig import loaded

pytestmark = needs_processor_kernels

SIZES = {
    "hidden_size": 64,
    "num_hidden_layers": 3,
    "intermediate_size": 96,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "vocab_size": 500,
    "rms_norm_eps": 1e-5,
}
LLAMA3_ROPE = {
    "rope_type": "llama3",
    "factor": 8.0,
    "low_freq_factor": 1.0,
    "high_freq_factor": 4.0,
    "original_max_position_embeddings": 64,
}
KINDS: dict[str, dict[str, Any]] = {
    "plain": {},
    "tied": {"tie_word_embeddings": True},
    "biases": {"attention_bias": True, "mlp_bias": True},
    "neighbours": {"rope_traditional": True},
    "llama3-rope": {"rope_scaling": LLAMA3_ROPE},
    "linear-rope": {"rope_scaling": {"type": "linear", "factor": 4.0}},
}


def make_llama(**changes: Any) -> Any:
    mx.random.seed(3)
    fields = {"tie_word_embeddings": False, **SIZES, **changes}
    model = llama.Model(llama.ModelArgs(model_type="llama", **fields))
    model.update(tree(model.parameters()))
    mx.eval(model.parameters())
    return model


def tree(parameters: Any) -> Any:
    """Larger than a new model's, so that what is wrong shows."""
    return nn.utils.tree_map(lambda one: one + 0.2 * mx.random.normal(one.shape), parameters)


def tokens(num_rows: int, num_tokens: int) -> mx.array:
    ids = np.random.default_rng(num_tokens).integers(0, 500, (num_rows, num_tokens))
    return mx.array(ids, mx.uint32)


def assert_same(model: Any, num_rows: int, widths: list[int]) -> None:
    """Slice after slice, of rows that are level."""
    body = make_cpu_body(model)
    assert body is not None
    theirs, ours = new_caches(model), new_caches(model)
    for number, width in enumerate(widths):
        part = tokens(num_rows, width)
        whole = model(part, cache=theirs)[:, -1]
        if number % 2:
            body.read(part, ours)
        else:
            scale = float(mx.abs(whole).max())
            logits = np.array(body.logits(part, ours))
            np.testing.assert_allclose(logits, np.array(whole), atol=2e-5 * scale)
    for mine, its in zip(ours, theirs, strict=True):
        for one, other in zip(mine.state[:2], its.state[:2], strict=True):
            np.testing.assert_allclose(np.array(one), np.array(other), atol=2e-5 * 10)


@pytest.mark.parametrize("num_rows", [1, 3])
@pytest.mark.parametrize("kind", KINDS)
def test_a_slice_gives_what_the_model_gives(
    kind: str, num_rows: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cpu_layer, "_TURNS_AT_ONCE", 128)
    assert_same(make_llama(**KINDS[kind]), num_rows, [1, 5, 300, 7, 1, 1])


@pytest.mark.parametrize("name", ["tiny-qwen3", "small-llama"])
def test_models_from_their_files_too(name: str) -> None:
    assert_same(loaded(name).model, 1, [40, 300, 2])


def as_bfloat16(model: Any) -> Any:
    model.set_dtype(mx.bfloat16)
    return model


def quantised(model: Any) -> Any:
    nn.quantize(model, group_size=32)
    return model


@pytest.mark.parametrize("change", [as_bfloat16, quantised])
def test_other_numbers_stay_with_mlx(change: Any) -> None:
    assert make_cpu_body(change(make_llama())) is None


@pytest.mark.parametrize("name", ["tiny-gemma3", "tiny-qwen3-next", "tiny-mamba", "tiny-llama4"])
def test_other_families_stay_with_mlx(name: str) -> None:
    assert make_cpu_body(loaded(name).model) is None


class Scaling(llama.LlamaModel):
    """Layers as they are known, and something else around them."""

    def __call__(self, inputs: mx.array, cache: Any = None, _: Any = None) -> mx.array:
        return super().__call__(inputs, cache, 3.0 * self.embed_tokens(inputs))


x86_only = pytest.mark.skipif(not kernels.is_x86_processor(), reason="not on this processor")


@x86_only
def test_a_reader_goes_past_mlx_where_the_answers_are_the_same(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    model = make_llama()
    kernels.bind(model, kernels.ON_CPU)
    assert Reader(model)._own_body is not None
    turned = cpu_layer.Turns.apply
    monkeypatch.setattr(cpu_layer.Turns, "apply", lambda self, heads: 1.5 * turned(self, heads))
    assert Reader(model)._own_body is None


@x86_only
def test_a_family_that_does_more_than_its_layers_stays_with_mlx() -> None:
    model = make_llama()
    kernels.bind(model, kernels.ON_CPU)
    model.model.__class__ = Scaling
    reader = Reader(model)
    assert reader.logits is not None and reader._own_body is None


@x86_only
def test_a_model_whose_kernels_are_mlxs_stays_with_them() -> None:
    model = make_llama()
    kernels.bind(model, kernels.ON_CPU)
    kernels.unbind(model)
    try:
        assert Reader(model)._own_body is None
    finally:
        kernels.bind(model, kernels.ON_CPU)


@x86_only
@pytest.mark.parametrize(("num_rows", "is_at_once"), [(1, True), (3, True), (4, False)])
def test_steps_of_few_rows_are_told_at_once(num_rows: int, is_at_once: bool) -> None:
    model = make_llama()
    kernels.bind(model, kernels.ON_CPU)
    runner = Runner(model, token_bytes=bytes, decode=direct_step.found(model))
    sampling = wire.Sampling(seed=1, temperature=0.0)
    joins = tuple(
        Join(row_id=row, prompt_token_ids=(5 + row,), output_token_ids=(), sampling=sampling)
        for row in range(num_rows)
    )
    rows = tuple(range(num_rows))
    runner.run(Step(joins=joins, decodes=rows))
    step = Step(decodes=rows)
    assert [one.step is step for one in runner.run(step)] == [True] * is_at_once


@pytest.mark.parametrize("num_tokens", [40, 300, 700])
@pytest.mark.parametrize("sizes", [{}, {"hidden_size": 192}, {"intermediate_size": 1500}])
def test_what_a_slice_takes_is_known(sizes: dict[str, int], num_tokens: int) -> None:
    model = make_llama(**sizes)
    body = make_cpu_body(model)
    assert body is not None
    row = new_caches(model)
    body.read(tokens(1, 5000), row)
    tracemalloc.start()
    body.read(tokens(1, num_tokens), row)
    _, highest = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert 0.75 * highest < body.bytes_for(num_tokens) < 1.4 * highest


def test_weights_are_not_there_twice_and_go_with_their_model() -> None:
    model = make_llama()
    body = make_cpu_body(model)
    assert body is not None
    weight = model.layers[0].mlp.gate_proj.weight
    ours = body._layers[0]._gate._turned
    assert np.shares_memory(ours, np.asarray(weight))
    gone = weakref.ref(body)
    del body, ours
    gc.collect()
    assert gone() is None


def test_what_is_no_number_stays_none_and_warns_nobody() -> None:
    model = make_llama()
    model.layers[1].mlp.up_proj.weight = mx.full((96, 64), float("nan"))
    body = make_cpu_body(model)
    assert body is not None
    logits = body.logits(tokens(1, 9), new_caches(model))
    assert bool(mx.isnan(logits).all())
