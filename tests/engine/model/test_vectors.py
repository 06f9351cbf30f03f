"""Vectors and scores are those of one row alone, whatever they are computed with, and in pieces."""

from __future__ import annotations

import base64
import json
import random
from pathlib import Path

import mlx.core as mx
import numpy as np
import pytest

from engine import wire
from engine.model.loader import LoadFailed, load
from engine.model.sentence_files import Pooling, PoolingKind
from engine.model.vector_results import as_event
from engine.model.vectors import VectorRunner, open_runner
from tests.engine.model.rig import loaded
from tests.tiny_models import tiny_model_path

ATTENTION, WINDOW, HYBRID = "tiny-qwen3", "tiny-gemma3", "tiny-qwen3-next"
JUDGE = (11, 13)


def random_rows(*lengths: int) -> list[tuple[int, ...]]:
    chooser = random.Random(7)
    return [tuple(chooser.randrange(7, 2000) for _ in range(length)) for length in lengths]


def pooling_of(*, is_mean: bool) -> Pooling:
    return Pooling(kind=PoolingKind.MEAN if is_mean else PoolingKind.LAST)


def reference_vector(name: str, row: tuple[int, ...], *, is_mean: bool) -> np.ndarray:
    states = np.array(loaded(name).model.model(mx.array([row], mx.uint32)).astype(mx.float32))[0]
    state = states.mean(axis=0) if is_mean else states[-1]
    return state / np.linalg.norm(state)


@pytest.mark.parametrize("name", [ATTENTION, WINDOW, HYBRID])
@pytest.mark.parametrize("is_mean", [False, True])
def test_rows_of_unequal_length_do_not_change_each_other(name: str, is_mean: bool) -> None:
    runner = VectorRunner(loaded(name).model, pooling=pooling_of(is_mean=is_mean))
    rows = random_rows(3, 17, 9, 1)
    for row, vector in zip(rows, runner.run(rows), strict=True):
        assert np.allclose(vector, reference_vector(name, row, is_mean=is_mean), atol=1e-4)


@pytest.mark.parametrize("name", [ATTENTION, WINDOW, HYBRID])
@pytest.mark.parametrize("is_mean", [False, True])
def test_a_long_row_in_pieces_gives_the_same_vector(name: str, is_mean: bool) -> None:
    runner = VectorRunner(loaded(name).model, pooling=pooling_of(is_mean=is_mean))
    (row,) = random_rows(150)
    long = runner.begin(row)
    assert runner.go_on(long, 64) is None
    assert runner.go_on(long, 64) is None
    results = runner.go_on(long, 64)
    assert results is not None
    assert np.allclose(results[0], reference_vector(name, row, is_mean=is_mean), atol=1e-4)


def test_a_score_is_the_weight_of_yes_against_no() -> None:
    model = loaded(ATTENTION).model
    runner = VectorRunner(model, judge=JUDGE)
    rows = random_rows(5, 12)
    for row, score in zip(rows, runner.run(rows), strict=True):
        logits = np.array(model(mx.array([row], mx.uint32)).astype(mx.float32))[0, -1]
        yes, no = logits[JUDGE[0]], logits[JUDGE[1]]
        assert score == pytest.approx(1 / (1 + np.exp(no - yes)), abs=1e-4)


def test_a_shortened_vector_has_length_one_again() -> None:
    vector = np.array([0.6, 0.8, 0.0], np.float32)

    def carried(dimensions: int | None) -> list[float]:
        event = as_event(vector, place=0, dimensions=dimensions, pooling=Pooling())
        assert isinstance(event, wire.Embedded)
        return np.frombuffer(base64.b64decode(event.vector), "<f4").tolist()

    assert carried(1) == [1.0]
    assert carried(None) == vector.tolist()


def test_pooling_is_read_from_the_folder(tmp_path: Path) -> None:
    def spec_with(settings: str) -> wire.ModelSpec:
        (folder / "1_Pooling").mkdir(exist_ok=True)
        (folder / "1_Pooling" / "config.json").write_text(settings)
        return wire.ModelSpec(name="m", path=str(folder), kind=wire.ModelKind.EMBED)

    folder = tmp_path
    model, tokenizer = loaded(ATTENTION).model, None
    rows = random_rows(4)
    mean = open_runner(model, tokenizer, spec_with('{"pooling_mode_mean_tokens": true}')).run(rows)
    last = open_runner(model, tokenizer, spec_with('{"pooling_mode_lasttoken": true}')).run(rows)
    assert not np.allclose(mean, last)
    with pytest.raises(LoadFailed, match="pooling"):
        open_runner(model, tokenizer, spec_with('{"pooling_mode_cls_token": true}'))
    with pytest.raises(LoadFailed, match="cannot be read"):
        open_runner(model, tokenizer, spec_with("{"))


@pytest.mark.parametrize(
    ("kind", "model_type"),
    [(ATTENTION, "qwen3"), ("small-llama", "llama"), ("small-llama", "mistral")],
)
def test_a_body_without_its_head_is_loaded(kind: str, model_type: str, tmp_path: Path) -> None:
    """As Qwen3-Embedding and E5-Mistral are published: names without the prefix, and no head."""
    source = tiny_model_path(kind)
    for name in ("tokenizer.json", "tokenizer_config.json"):
        (tmp_path / name).write_bytes((source / name).read_bytes())
    config = json.loads((source / "config.json").read_text())
    (tmp_path / "config.json").write_text(json.dumps(config | {"model_type": model_type}))
    weights = dict(mx.load(str(source / "model.safetensors")))
    body = {
        name.removeprefix("model."): array
        for name, array in weights.items()
        if name.startswith("model.")
    }
    mx.save_safetensors(str(tmp_path / "model.safetensors"), body)
    *_, last = load(tmp_path, casts_to_float32=True)
    assert last.loaded is not None
    pooling, (row,) = pooling_of(is_mean=False), random_rows(9)
    (vector,) = VectorRunner(last.loaded.model, pooling=pooling).run([row])
    assert np.allclose(vector, reference_vector(kind, row, is_mean=False), atol=1e-4)
