"""Models built as Llama's or Qwen3's past their modules: the same tokens.

As on CUDA, and as elsewhere. The kernels run where there is a GPU; where not, what they do in MLX's
own operations.
"""

from __future__ import annotations

import dataclasses
from typing import Any

import mlx.core as mx
import pytest
from mlx import nn
from mlx.utils import tree_flatten
from mlx_lm.models import activations, base, gemma, llama, qwen2, qwen3, smollm3

from engine.model import (
    cpu_activation,
    cpu_attention,
    cpu_layer,
    cuda_attention,
    cuda_decode,
    cuda_gate,
    cuda_heads,
    direct_step,
    kernels,
)
from engine.model.batch import RowBatch
from engine.model.caches import new_caches
from engine.model.cpu_body import make_cpu_body
from engine.model.direct_body import DirectBody
from engine.model.direct_layer import DirectLayer
from engine.model.reading import Reader
from tests.engine.model import cuda_by_mlx
from tests.engine.model.rig import prefilled_row

SHAPE = {
    "hidden_size": 64,
    "intermediate_size": 96,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "vocab_size": 520,
    "rms_norm_eps": 1e-6,
    "tie_word_embeddings": False,
}
LLAMA3 = {
    "rope_type": "llama3",
    "factor": 8.0,
    "low_freq_factor": 1.0,
    "high_freq_factor": 4.0,
    "original_max_position_embeddings": 64,
}
KNOWN = {
    "qwen3": (qwen3, {"head_dim": 32, "rope_theta": 1e6, "max_position_embeddings": 4096}),
    "llama": (llama, {"tie_word_embeddings": True}),
    "llama3": (llama, {"rope_scaling": LLAMA3, "attention_bias": True}),
    "qwen2": (qwen2, {}),
}
UNKNOWN = {
    "gemma": (gemma, {"head_dim": 16}),
    "windows": (
        llama,
        {"layer_types": ["full_attention", "sliding_attention"], "sliding_window": 4096},
    ),
    "windows over caches that keep everything": (
        smollm3,
        {"layer_types": ["full_attention", "sliding_attention"], "sliding_window": 4096},
    ),
}


def make_model(family: Any, changes: dict[str, Any]) -> Any:
    mx.random.seed(8)
    taken = {one.name for one in dataclasses.fields(family.ModelArgs)}
    given = {name: one for name, one in (SHAPE | changes).items() if name in taken}
    arguments = family.ModelArgs(model_type="any", **given)
    model = family.Model(arguments)
    wider = [(name, one * 3.0) for name, one in tree_flatten(model.parameters())]
    model.load_weights(wider)
    mx.eval(model.parameters())
    return model


@pytest.fixture
def on_cuda(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where it is not, as if it were."""
    monkeypatch.setattr(kernels, "plans_shapes", lambda model: True)
    if not mx.cuda.is_available():
        monkeypatch.setattr(cuda_heads, "prepare", cuda_by_mlx.prepare)
        monkeypatch.setattr(cuda_gate, "gate", cuda_by_mlx.gate)
        monkeypatch.setattr(cuda_decode, "attend", cuda_by_mlx.attend)
    for family in (llama, qwen2, qwen3):
        monkeypatch.setattr(family, "scaled_dot_product_attention", cuda_attention.attention)
        monkeypatch.setattr(family, "swiglu", activations.swiglu)


@pytest.fixture
def in_numpy(monkeypatch: pytest.MonkeyPatch) -> None:
    """As on an x86 processor: few rows."""
    for family in (llama, qwen2, qwen3):
        monkeypatch.setattr(family, "scaled_dot_product_attention", cpu_attention.attention)
        monkeypatch.setattr(family, "swiglu", cpu_activation.swiglu)


@pytest.fixture
def in_mlx(monkeypatch: pytest.MonkeyPatch) -> None:
    for family in (llama, qwen2, qwen3):
        attention = base.scaled_dot_product_attention
        monkeypatch.setattr(family, "scaled_dot_product_attention", attention)
        monkeypatch.setattr(family, "swiglu", activations.swiglu)


@pytest.fixture(params=["on_cuda", "in_numpy", "in_mlx"])
def anywhere(request: pytest.FixtureRequest) -> None:
    request.getfixturevalue(request.param)


def history(model: Any, step: Any) -> mx.array:
    """Logits of rows that come and go, unequal and then equal ones; each step's one after the
    other."""
    batch, said = RowBatch(step), []
    for number, length in enumerate((70, 9, 130, 64)):
        batch.join([prefilled_row(model, number, length)])
        said += logits_of(batch, 3)
    batch.leave((2, 0))
    said += logits_of(batch, 3)
    batch.join([prefilled_row(model, 9, 200)])
    said += logits_of(batch, 70)
    batch = RowBatch(step)
    batch.join([prefilled_row(model, number, 50) for number in range(3)])
    said += logits_of(batch, 3)
    batch.leave((1,))
    assert batch.is_level
    return mx.concatenate(said + logits_of(batch, 3))


def logits_of(batch: RowBatch, number: int) -> list[mx.array]:
    said = []
    for _ in range(number):
        said.append(batch.forward())
        batch.feed(mx.argmax(said[-1], axis=-1))
        mx.eval(said[-1])
    return said


def assert_alike(found: mx.array, expected: mx.array) -> None:
    assert mx.array_equal(mx.argmax(found, axis=-1), mx.argmax(expected, axis=-1))
    assert mx.allclose(found, expected, atol=1e-3 * mx.abs(expected).max().item())


@pytest.mark.usefixtures("anywhere")
@pytest.mark.parametrize("name", KNOWN)
def test_rows_that_come_and_go_have_the_models_own_logits(name: str) -> None:
    model = make_model(*KNOWN[name])
    expected = history(model, model)
    step = direct_step.found(model)
    assert step is not model
    assert_alike(history(model, step), expected)


@pytest.mark.usefixtures("anywhere")
@pytest.mark.parametrize("name", KNOWN)
def test_weights_stay_what_they_were_and_are_there_once(name: str) -> None:
    model = make_model(*KNOWN[name])
    before = {name: mx.array(one) for name, one in tree_flatten(model.parameters())}
    mx.eval(before)
    mx.synchronize()
    held = mx.get_active_memory()
    step = direct_step.found(model)
    after = dict(tree_flatten(model.parameters()))
    assert after.keys() == before.keys()
    assert all(mx.array_equal(after[name], one) for name, one in before.items())
    assert step is not model
    mx.synchronize()
    assert mx.get_active_memory() - held < 0.1 * sum(one.nbytes for one in before.values())


@pytest.mark.usefixtures("anywhere")
@pytest.mark.parametrize("name", UNKNOWN)
def test_other_families_decode_their_own_way(name: str) -> None:
    model = make_model(*UNKNOWN[name])
    assert direct_step.found(model) is model


@pytest.mark.usefixtures("in_mlx")
def test_parts_of_other_kinds_are_called() -> None:
    model = make_model(*KNOWN["qwen3"])
    nn.quantize(model, group_size=32)
    expected = history(model, model)
    step = direct_step.found(model)
    assert step is not model
    assert_alike(history(model, step), expected)


@pytest.mark.usefixtures("on_cuda")
def test_what_the_kernels_do_not_know_decodes_the_models_way() -> None:
    model = make_model(*KNOWN["qwen3"])
    nn.quantize(model, group_size=32)
    assert direct_step.found(model) is model
    model = make_model(*KNOWN["qwen3"])
    model.layers[1].self_attn.k_norm.eps = 1e-2
    assert direct_step.found(model) is model
    model = make_model(*KNOWN["qwen3"])
    model.layers[1].self_attn.k_norm.set_dtype(mx.float16)
    assert direct_step.found(model) is model
    model = make_model(*KNOWN["qwen2"])
    del model.layers[1].self_attn.k_proj["bias"]
    assert direct_step.found(model) is model


@pytest.mark.usefixtures("on_cuda")
def test_so_does_a_family_with_a_gate_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    """It differs where the check does not look."""
    swiglu = activations.swiglu
    monkeypatch.setattr(qwen3, "swiglu", lambda gate, x: swiglu(mx.minimum(gate, 1e4), x))
    model = make_model(*KNOWN["qwen3"])
    assert direct_step.found(model) is model


@pytest.mark.usefixtures("on_cuda")
def test_layers_are_made_one_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows of other models go on in between."""
    made = []

    class Noted(direct_step.CudaLayer):
        def __init__(self, layer: Any) -> None:
            super().__init__(layer)
            made.append(layer)

    monkeypatch.setattr(direct_step, "CudaLayer", Noted)
    model = make_model(*KNOWN["qwen3"])
    counts = [len(made) for _ in direct_step.finding(model, has_batches=True)]
    assert counts[:2] == [1, 2] == [*range(1, len(model.layers) + 1)]


@pytest.mark.usefixtures("on_cuda")
def test_a_step_that_answers_otherwise_is_not_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    def without_rotation(heads: Any, projected: mx.array, positions: mx.array) -> Any:
        return cuda_by_mlx.prepare(heads, projected, mx.zeros_like(positions))

    monkeypatch.setattr(cuda_heads, "prepare", without_rotation)
    model = make_model(*KNOWN["qwen3"])
    assert direct_step.found(model) is model


@pytest.mark.usefixtures("in_numpy")
def test_few_rows_are_computed_past_mlx(monkeypatch: pytest.MonkeyPatch) -> None:
    model = make_model(*KNOWN["qwen3"])
    step = direct_step.found(model)
    computed = []
    attend_next = cpu_layer.attend_next

    def count(queries: Any, *arrays: Any, **named: Any) -> Any:
        computed.append(len(queries))
        return attend_next(queries, *arrays, **named)

    monkeypatch.setattr(cpu_layer, "attend_next", count)
    batch = RowBatch(step)
    for number in range(5):
        batch.join([prefilled_row(model, number, 20 + number)])
        logits_of(batch, 1)
    assert computed == [one for one in (1, 2, 3) for _ in model.layers]


@pytest.mark.usefixtures("in_numpy")
def test_a_step_of_few_rows_that_answers_otherwise_is_not_taken(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(cpu_layer.Turns, "apply", lambda self, heads: heads)
    step = direct_step.found(make_model(*KNOWN["qwen3"]))
    assert isinstance(step, direct_step.DirectStep)


@pytest.mark.usefixtures("in_numpy")
def test_one_that_fails_takes_nothing_from_the_others(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: Any, **__: Any) -> None:
        raise ValueError("not so")

    monkeypatch.setattr(cpu_layer, "attend_next", fail)
    step = direct_step.found(make_model(*KNOWN["qwen3"]))
    assert isinstance(step, direct_step.DirectStep)


@pytest.mark.usefixtures("in_numpy")
@pytest.mark.parametrize("name", ["swiglu", "scaled_dot_product_attention"])
def test_a_family_that_computes_these_itself_stays_with_mlx(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It may differ where no check looks."""
    model = make_model(*KNOWN["qwen3"])
    assert make_cpu_body(model) is not None
    usual = getattr(qwen3, name)
    monkeypatch.setattr(qwen3, name, lambda *given, **named: usual(*given, **named))
    assert make_cpu_body(model) is None


@pytest.mark.usefixtures("anywhere")
def test_other_caches_decode_the_models_way(monkeypatch: pytest.MonkeyPatch) -> None:
    model = make_model(*KNOWN["qwen3"])
    step = direct_step.found(model)
    assert step is not model
    caches = [one.to_quantized(group_size=32) for one in prefilled_row(model, 1, 40).caches]
    of_many = getattr(step, "_others", step)
    monkeypatch.setattr(of_many, "_model", lambda token_ids, *, cache: (token_ids, cache))
    token = mx.array([[5]], mx.uint32)
    assert step(token, cache=caches) == (token, caches)


@pytest.mark.usefixtures("in_mlx")
def test_a_model_that_cannot_be_batched_decodes_its_row_past_its_modules() -> None:
    """Its rotation takes one position for all rows."""
    scaling = {"rope_type": "dynamic", "factor": 2.0}
    model = make_model(llama, {"rope_scaling": scaling, "max_position_embeddings": 64})
    assert direct_step.found(model, has_batches=True) is model, "the check fails, loading does not"
    step = direct_step.found(model, has_batches=False)
    assert step is not model
    batches = [RowBatch(one) for one in (model, step)]
    for batch in batches:
        batch.join([prefilled_row(model, 1, 30)])
    found, expected = (mx.concatenate(logits_of(batch, 5)) for batch in batches)
    assert_alike(found, expected)


@pytest.mark.usefixtures("on_cuda")
def test_a_kernel_that_cannot_be_launched_costs_speed_only(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def launch(*_: Any) -> Any:
        raise RuntimeError("no compiler here")

    monkeypatch.setattr(cuda_heads, "prepare", launch)
    model = make_model(*KNOWN["qwen3"])
    assert direct_step.found(model) is model


def slices_of(model: Any, reader: Reader, cuts: tuple[int, ...]) -> list[mx.array]:
    """What two rows' caches hold after a prompt in these pieces, and the logits of its end."""
    mx.random.seed(4)
    tokens = mx.random.randint(0, SHAPE["vocab_size"], (2, sum(cuts)))
    caches, start = new_caches(model), 0
    for num_tokens in cuts[:-1]:
        reader.read(tokens[:, start : start + num_tokens], caches)
        start += num_tokens
    assert reader.logits is not None
    logits = reader.logits(tokens[:, start:], caches)
    return [*(part for one in caches for part in one.state[:2]), logits]


@pytest.mark.usefixtures("on_cuda")
@pytest.mark.parametrize("cuts", [(1,), (7,), (300, 1, 64), (64, 500)])
@pytest.mark.parametrize("name", KNOWN)
def test_slices_on_cuda_are_read_without_modules(name: str, cuts: tuple[int, ...]) -> None:
    model = make_model(*KNOWN[name])
    expected = slices_of(model, Reader(model), cuts)
    reader = Reader(model, direct_step.found(model).slice_body)
    assert isinstance(reader._own_body, DirectBody)
    for found, wanted in zip(slices_of(model, reader, cuts), expected, strict=True):
        assert found.shape == wanted.shape
        assert mx.allclose(found, wanted, atol=1e-3 * mx.abs(wanted).max().item())


@pytest.mark.usefixtures("on_cuda")
def test_slices_that_are_read_otherwise_go_the_models_way(monkeypatch: pytest.MonkeyPatch) -> None:
    model = make_model(*KNOWN["qwen3"])
    body = direct_step.found(model).slice_body
    monkeypatch.setattr(DirectLayer, "keep", lambda *given: None)
    assert Reader(model, body)._own_body is None


@pytest.mark.usefixtures("in_mlx")
def test_elsewhere_slices_go_the_models_way() -> None:
    assert direct_step.found(make_model(*KNOWN["qwen3"])).slice_body is None
