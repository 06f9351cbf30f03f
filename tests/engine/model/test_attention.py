"""Our attention equals the fused kernel's, and the models' families use it."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator, Sequence
from typing import Any

import mlx.core as mx
import numpy as np
import pytest
from mlx_lm.models import base
from mlx_lm.utils import load_model

from engine.model import attention
from engine.model import caches as row_caches
from engine.model.aligned_rows import COLUMN_TOKENS, AlignedRows
from engine.model.batch import NewRow, RowBatch
from engine.model.capability import check_batching
from tests.tiny_models import tiny_model_path

ROWS, KEY_HEADS, LENGTH, SIZE = 3, 2, 37, 16


@pytest.fixture(params=["tiny-qwen3", "tiny-gemma3", "tiny-qwen3-next"])
def model(request: pytest.FixtureRequest) -> Iterator[Any]:
    loaded, _ = load_model(tiny_model_path(request.param))
    yield loaded
    attention.unbind(loaded)


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


@pytest.mark.parametrize("heads", [KEY_HEADS, 4 * KEY_HEADS])
@pytest.mark.parametrize("is_boolean", [True, False])
def test_it_equals_the_fused_kernel(heads: int, is_boolean: bool) -> None:
    queries, keys, values = draws(heads)
    mask = padding_mask() if is_boolean else mx.where(padding_mask(), 0.0, -mx.inf)
    ours = attention.attention(queries, keys, values, None, 0.25, mask)
    fused = base.scaled_dot_product_attention(queries, keys, values, None, 0.25, mask)
    assert ours.shape == fused.shape == (ROWS, heads, 1, SIZE)
    np.testing.assert_allclose(np.array(ours), np.array(fused), atol=1e-5)


@pytest.mark.parametrize("heads", [KEY_HEADS, 4 * KEY_HEADS])
@pytest.mark.parametrize("kind", ["none", "causal", "window", "rows", "numbers"])
def test_a_short_slice_equals_the_fused_kernel(heads: int, kind: str) -> None:
    queries, keys, values = draws(heads, queries=9)
    window = base.create_causal_mask(9, LENGTH - 9, window_size=20)
    mask = {
        "none": None,
        "causal": "causal",
        "window": window,
        "rows": window[None, None] & padding_mask((0, 5, 20)),
        "numbers": mx.where(window, 0.0, -mx.inf),
    }[kind]
    ours = attention.attention(queries, keys, values, None, 0.25, mask)
    fused = base.scaled_dot_product_attention(queries, keys, values, None, 0.25, mask)
    assert ours.shape == fused.shape == (ROWS, heads, 9, SIZE)
    np.testing.assert_allclose(np.array(ours), np.array(fused), atol=1e-5)


def test_a_long_slice_stays_fused(monkeypatch: pytest.MonkeyPatch) -> None:
    queries, keys, values = draws(KEY_HEADS, queries=LENGTH)
    monkeypatch.setattr(attention, "composed_slice", None)  # to call it would fail
    monkeypatch.setattr(attention, "ANY_SHAPE_SCORES", ROWS * LENGTH * LENGTH - 1)
    ours = attention.attention(queries, keys, values, None, 0.25, "causal")
    fused = base.scaled_dot_product_attention(queries, keys, values, None, 0.25, "causal")
    assert mx.array_equal(ours, fused)


def test_mlx_never_stops_serving_because_shapes_were_many() -> None:
    """Whoever imports the engine's models, in whatever order."""
    ask = "import engine.model.attention, os; print(os.environ['MLX_ENABLE_CACHE_THRASHING_CHECK'])"
    said = subprocess.run([sys.executable, "-c", ask], capture_output=True, text=True, check=True)
    assert said.stdout == "0\n"


def test_a_bound_family_answers_unequal_rows_as_alone(model: Any) -> None:
    calls = []
    composed = attention.composed

    def counting(*arguments: Any, **named: Any) -> mx.array:
        calls.append(arguments[0].shape)
        return composed(*arguments, **named)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(attention, "composed", counting)
        assert attention.bind(model)
        verdict = [said for said in check_batching(model) if said is not None]
    assert verdict == [True]
    assert calls and all(shape[2] == 1 and shape[0] == 2 for shape in calls)
    assert not attention.bind(model), "it is bound already"
    assert attention.unbind(model)


def test_an_attention_that_answers_otherwise_is_found(model: Any) -> None:
    composed = attention.composed

    def without_mask(*arguments: Any, **named: Any) -> mx.array:
        return composed(*arguments, **(named | {"mask": mx.array(True)}))

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(attention, "composed", without_mask)
        attention.bind(model)
        verdict = [said for said in check_batching(model) if said is not None]
    assert verdict == [False]


def test_rows_that_come_and_go_stay_aligned_and_right(model: Any) -> None:
    """Greedy tokens of a batch with joins and leaves, bound and not, are the same."""
    plain = greedy_history(model)
    assert attention.bind(model)
    assert greedy_history(model) == plain


def greedy_history(model: Any) -> list[list[int]]:
    batch, history = RowBatch(model, aligns=attention.is_bound(model)), []
    for number, length in enumerate((70, 9, 130, 64)):
        batch.join([prefilled(model, number, length)])
        history += steps(batch, 3 if number else 70)  # beyond a column
    batch.leave((2, 0))
    history += steps(batch, 3)
    batch.join([prefilled(model, 9, 200)])
    return history + steps(batch, 3)


def prefilled(model: Any, row_id: int, length: int) -> NewRow:
    caches = row_caches.new_caches(model)
    prompt = [(7 * row_id + 3 * place) % 500 + 10 for place in range(length)]
    model(mx.array([prompt], mx.uint32), cache=caches)
    row_caches.evaluate(caches)
    return NewRow(row_id=row_id, token_id=11, length=length, caches=caches)


def steps(batch: RowBatch, number: int) -> list[list[int]]:
    drawn: list[list[int]] = []
    for _ in range(number):
        tokens = mx.argmax(batch.forward(), axis=-1)
        batch.feed(tokens)
        drawn.append(tokens.tolist())  # type: ignore[arg-type]
        for layer in batch._caches:
            if isinstance(layer, AlignedRows):
                assert layer.keys.shape[2] % COLUMN_TOKENS == 0
    return drawn
