"""Our kernels equal MLX's, and the models' families use them."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator, Sequence
from typing import Any

import mlx.core as mx
import numpy as np
import pytest
from mlx_lm.models import activations, base
from mlx_lm.models.cache import BatchKVCache
from mlx_lm.utils import load_model

from engine.model import (
    cpu_activation,
    cpu_attention,
    cpu_slices,
    cuda_attention,
    cuda_decode,
    cuda_gate,
    cuda_heads,
    kernels,
    loader,
)
from engine.model.batch import RowBatch
from engine.model.capability import check_batching
from engine.model.loader import load
from tests.engine.model import cuda_by_mlx
from tests.engine.model.rig import prefilled_row
from tests.tiny_models import tiny_model_path

ROWS, KEY_HEADS, LENGTH, SIZE = 3, 2, 37, 16


@pytest.fixture(params=["tiny-qwen3", "tiny-gemma3", "tiny-qwen3-next"])
def model(request: pytest.FixtureRequest) -> Iterator[Any]:
    """Without our kernels, whatever its family has in other tests."""
    loaded, _ = load_model(tiny_model_path(request.param))
    was_bound = kernels.unbind(loaded)
    yield loaded
    kernels.unbind(loaded)
    if was_bound:
        kernels.bind(loaded, kernels.wanted())


def draws(heads: int, *, queries: int = 1) -> tuple[mx.array, mx.array, mx.array]:
    mx.random.seed(3)
    shape = (ROWS, KEY_HEADS, LENGTH, SIZE)
    return (
        mx.random.normal((ROWS, heads, queries, SIZE)),
        mx.random.normal(shape),
        mx.random.normal(shape),
    )


def padding_mask(paddings: Sequence[int] = (0, 5, 30)) -> mx.array:
    lefts = mx.array(paddings)[:, None, None, None]
    return mx.arange(LENGTH)[None, None, None] >= lefts


@pytest.fixture
def ours(monkeypatch: pytest.MonkeyPatch) -> kernels.Kernel:
    monkeypatch.setattr(cpu_attention, "_LEAST_SCORES", 0)
    return cpu_attention.attention


@pytest.fixture
def decoding(monkeypatch: pytest.MonkeyPatch) -> list[tuple[int, ...]]:
    """CUDA's kernel for single queries as MLX computes it, which runs here, too; what it was asked
    for. The kernel itself: test_cuda_decode.py."""
    asked = []

    def attend(
        queries: mx.array, keys: mx.array, values: mx.array, *, scale: float, **named: Any
    ) -> mx.array:
        asked.append(queries.shape)
        mask, starts = named["mask"], named["starts"]
        if starts is not None and mask is not None:
            assert mx.array_equal(mx.argmax(mask, axis=-1).flatten(), starts), "skips what counts"
        return cuda_by_mlx.attend(queries, keys, values, scale=scale, mask=mask, starts=starts)

    monkeypatch.setattr(cuda_decode, "attend", attend)
    monkeypatch.setattr(cuda_heads, "prepare", cuda_by_mlx.prepare)
    monkeypatch.setattr(cuda_gate, "gate", cuda_by_mlx.gate)
    return asked


def assert_equal_to_mlx(ours: kernels.Kernel, *given: Any, atol: float = 1e-5) -> None:
    expected = base.scaled_dot_product_attention(*given)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(base, "scaled_dot_product_attention", None)  # to call it would fail
        found = ours(*given)
    assert found.shape == expected.shape
    np.testing.assert_allclose(np.array(found), np.array(expected), atol=atol)


@pytest.mark.parametrize("heads", [KEY_HEADS, 4 * KEY_HEADS])
@pytest.mark.parametrize("is_boolean", [True, False])
def test_unequal_rows_on_a_cpu_equal_mlxs(
    ours: kernels.Kernel, heads: int, is_boolean: bool
) -> None:
    mask = padding_mask() if is_boolean else mx.where(padding_mask(), 0.0, -mx.inf)
    assert_equal_to_mlx(ours, *draws(heads), None, 0.25, mask)


WINDOW = base.create_causal_mask(9, LENGTH - 9, window_size=20)
MASKS = {
    "none": None,
    "causal": "causal",
    "window": WINDOW,
    "rows": WINDOW[None, None] & padding_mask((0, 5, 20)),
    "numbers": mx.where(WINDOW, 0.0, -mx.inf),
    "heads": mx.random.normal((1, KEY_HEADS, 9, LENGTH), key=mx.random.key(1)),
    "nothing": WINDOW & (mx.arange(9) != 4)[:, None],
}


@pytest.mark.parametrize("heads", [KEY_HEADS, 4 * KEY_HEADS])
@pytest.mark.parametrize("kind", ["none", "causal", "window", "rows", "numbers"])
def test_a_short_slice_on_cuda_equals_mlxs(heads: int, kind: str) -> None:
    given = (*draws(heads, queries=9), None, 0.25, MASKS[kind])
    assert_equal_to_mlx(cuda_attention.attention, *given)


@pytest.mark.parametrize("has_sinks", [False, True])
@pytest.mark.parametrize("block_scores", [1, 400, 800, 1500, 10**6])
@pytest.mark.parametrize("group", [1, 4])
@pytest.mark.parametrize("kind", MASKS)
def test_a_slice_on_a_cpu_equals_mlxs(
    kind: str, group: int, block_scores: int, has_sinks: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whether rows, heads or queries are parted: 333 scores a head of one query head, 999 a row."""
    monkeypatch.setattr(cpu_attention, "_LEAST_SCORES", 0)
    monkeypatch.setattr(cpu_slices, "BLOCK_SCORES", block_scores)
    heads, mask = group * KEY_HEADS, MASKS[kind]
    if kind == "heads":
        mask = mx.repeat(mask, group, axis=1)
    sinks = mx.arange(heads) / heads if has_sinks else None
    assert_equal_to_mlx(cpu_attention.attention, *draws(heads, queries=9), None, 0.25, mask, sinks)


def test_scores_on_a_cpu_take_no_memory_of_mlxs() -> None:
    queries, keys, values = (mx.random.normal((1, 8, 600, 16)) for _ in range(3))
    mx.eval(queries, keys, values)
    mx.clear_cache()
    mx.reset_peak_memory()
    before = mx.get_active_memory()
    mx.eval(cpu_attention.attention(queries, keys, values, None, 0.25, "causal"))
    assert mx.get_peak_memory() - before <= 4 * queries.nbytes  # a ninth of the scores


@pytest.mark.parametrize("heads", [KEY_HEADS, 4 * KEY_HEADS])
@pytest.mark.parametrize("mask", ["causal", None])
def test_level_rows_on_a_cpu_equal_mlxs(
    heads: int, mask: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cpu_attention, "_LEAST_SCORES", 0)
    assert_equal_to_mlx(cpu_attention.attention, *draws(heads), None, 0.25, mask)


def test_scores_far_apart_are_numbers(ours: kernels.Kernel) -> None:
    """Neither an overflow nor a sum of nothing."""
    queries, keys, values = draws(KEY_HEADS)
    given = (300 * queries, keys, values, None, 0.25, padding_mask())
    assert_equal_to_mlx(ours, *given, atol=1e-3)


@pytest.mark.parametrize("queries_each", [1, 9])
@pytest.mark.parametrize("kind", ["few scores", "half numbers", "half values"])
def test_a_cpu_leaves_the_rest_to_mlx(
    kind: str, queries_each: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    queries, keys, values = draws(KEY_HEADS, queries=queries_each)
    if kind != "few scores":
        monkeypatch.setattr(cpu_attention, "_LEAST_SCORES", 0)
    if kind == "half numbers":
        queries, keys, values = (one.astype(mx.float16) for one in (queries, keys, values))
    if kind == "half values":
        values = values.astype(mx.bfloat16)
    monkeypatch.setattr(cpu_attention, "_of_one_query", None)  # to call it would fail
    monkeypatch.setattr(cpu_slices, "in_blocks", None)
    given = (queries, keys, values, None, 0.25, "causal")
    expected = base.scaled_dot_product_attention(*given)
    assert mx.array_equal(cpu_attention.attention(*given), expected)


def test_sinks_of_single_queries_stay_with_mlx(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cpu_attention, "_LEAST_SCORES", 0)
    given = (*draws(KEY_HEADS), None, 0.25, "causal", mx.zeros((KEY_HEADS,)))
    expected = base.scaled_dot_product_attention(*given)
    assert mx.array_equal(cpu_attention.attention(*given), expected)


@pytest.mark.parametrize("size", [100, 10_000])
@pytest.mark.parametrize("dtype", [mx.float32, mx.bfloat16])
def test_the_activation_on_a_cpu_equals_mlxs(size: int, dtype: mx.Dtype) -> None:
    mx.random.seed(3)
    gate, x = (40 * mx.random.normal((size,)).astype(dtype) for _ in range(2))
    gate[:4] = mx.array([-1e30, -100.0, 0.0, 1e30])
    found = cpu_activation.swiglu(gate, x)
    assert found.dtype == dtype
    expected = activations.swiglu(gate, x)
    assert mx.allclose(found, expected, rtol=1e-5, atol=1e-6)


def test_a_long_slice_stays_fused(monkeypatch: pytest.MonkeyPatch) -> None:
    queries, keys, values = draws(KEY_HEADS, queries=LENGTH)
    monkeypatch.setattr(cuda_attention, "composed_slice", None)  # to call it would fail
    monkeypatch.setattr(cuda_attention, "ANY_SHAPE_SCORES", ROWS * LENGTH * LENGTH - 1)
    ours = cuda_attention.attention(queries, keys, values, None, 0.25, "causal")
    fused = base.scaled_dot_product_attention(queries, keys, values, None, 0.25, "causal")
    assert mx.array_equal(ours, fused)


def test_mlx_never_stops_serving_because_shapes_were_many() -> None:
    """Whoever imports the engine's models, in whatever order."""
    ask = "import engine.model.kernels, os; print(os.environ['MLX_ENABLE_CACHE_THRASHING_CHECK'])"
    said = subprocess.run([sys.executable, "-c", ask], capture_output=True, text=True, check=True)
    assert said.stdout == "0\n"


def test_padding_is_left_out_where_the_kernel_does_not_take_a_step() -> None:
    """Its heads are 20 numbers long, and nobody brings a mask."""
    mx.random.seed(3)
    queries = mx.random.normal((2, KEY_HEADS, 1, 20))
    keys, values = (mx.random.normal((2, KEY_HEADS, LENGTH, 20)) for _ in range(2))
    offset = mx.array([LENGTH, LENGTH - 9])
    cache = BatchKVCache.from_state((keys, values, offset, LENGTH - offset, LENGTH))
    assert not cuda_decode.suits(queries, keys, values, None)
    found = cuda_attention.attention(queries, keys, values, cache, 0.25, None)
    own = (queries[1:], keys[1:, :, 9:], values[1:, :, 9:])
    assert mx.allclose(found[1:], mx.fast.scaled_dot_product_attention(*own, scale=0.25), atol=1e-5)


@pytest.mark.usefixtures("decoding")
def test_a_loaded_model_uses_what_is_wanted_here(monkeypatch: pytest.MonkeyPatch) -> None:
    path = tiny_model_path("tiny-qwen3")
    here = kernels.wanted()
    for wanted in sorted((kernels.ON_CPU, kernels.ON_CUDA), key=lambda one: one is not here):
        monkeypatch.setattr(kernels, "wanted", lambda wanted=wanted: wanted)
        *_, last = load(path, casts_to_float32=True)
        assert last.loaded is not None
        family = sys.modules[type(last.loaded.model).__module__]
        for name, ours in wanted.items():
            assert getattr(family, name) is ours
        assert kernels.unbind(last.loaded.model)
        assert family.swiglu is activations.swiglu
    monkeypatch.undo()
    kernels.bind(last.loaded.model, kernels.wanted())  # as other tests of this process have it


@pytest.mark.parametrize("helps", [True, False])
def test_mlxs_kernels_come_back_only_where_they_make_rows_batchable(
    helps: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A family that nothing makes batchable keeps ours: its memory is estimated for them."""
    verdicts = iter([False, helps])
    monkeypatch.setattr(loader, "check_batching", lambda model: iter([None, next(verdicts)]))
    monkeypatch.setattr(kernels, "wanted", lambda: kernels.ON_CPU)
    *_, last = load(tiny_model_path("tiny-qwen3"), casts_to_float32=True)
    assert last.loaded is not None and last.loaded.is_batchable == helps
    assert kernels.unbind(last.loaded.model) != helps
    monkeypatch.undo()
    kernels.bind(last.loaded.model, kernels.wanted())


def test_a_bound_family_answers_unequal_rows_as_alone(
    model: Any, decoding: list[tuple[int, ...]]
) -> None:
    assert kernels.bind(model, kernels.ON_CUDA)
    verdict = [said for said in check_batching(model) if said is not None]
    assert verdict == [True]
    assert decoding and all(shape[2] == 1 and shape[0] == 2 for shape in decoding)
    assert not kernels.bind(model, kernels.ON_CUDA), "it is bound already"
    assert kernels.unbind(model)


def test_what_families_share_stays_as_mlx_lm_has_it() -> None:
    """A gpt-oss has an activation from there: replaced, it would call itself for other models."""
    loaded, _ = load_model(tiny_model_path("tiny-gpt-oss"))
    was_bound = kernels.unbind(loaded)
    shared = activations.swiglu
    assert kernels.bind(loaded, kernels.ON_CPU)
    assert activations.swiglu is shared
    if not was_bound:
        kernels.unbind(loaded)


def test_an_attention_that_answers_otherwise_is_found(
    model: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    def without_mask(*arrays: mx.array, scale: float, **_: Any) -> mx.array:
        return mx.fast.scaled_dot_product_attention(*arrays, scale=scale)

    monkeypatch.setattr(cuda_decode, "attend", without_mask)
    kernels.bind(model, kernels.ON_CUDA)
    verdict = [said for said in check_batching(model) if said is not None]
    assert verdict == [False]


def test_rows_that_come_and_go_are_right(model: Any, decoding: list[tuple[int, ...]]) -> None:
    """Greedy tokens of a batch with joins and leaves, bound and not, are the same."""
    plain = greedy_history(model)
    assert not decoding
    assert kernels.bind(model, kernels.ON_CUDA)
    assert greedy_history(model) == plain
    assert decoding


def greedy_history(model: Any) -> list[list[int]]:
    batch, history = RowBatch(model), []
    for number, length in enumerate((70, 9, 130, 64)):
        batch.join([prefilled_row(model, number, length)])
        history += steps(batch, 3)
    batch.leave((2, 0))
    history += steps(batch, 3)
    batch.join([prefilled_row(model, 9, 200)])
    return history + steps(batch, 3)


def steps(batch: RowBatch, number: int) -> list[list[int]]:
    drawn: list[list[int]] = []
    for _ in range(number):
        tokens = mx.argmax(batch.forward(), axis=-1)
        batch.feed(tokens)
        drawn.append(tokens.tolist())  # type: ignore[arg-type]
    return drawn
