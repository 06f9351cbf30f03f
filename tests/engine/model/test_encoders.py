"""Encoders give what a float64 reference gives, in any batch, whole and layer by layer."""

from __future__ import annotations

import base64
import json
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import mlx.core as mx
import mlx.nn as nn
import numpy as np
import pytest
from mlx.utils import tree_flatten

from engine import wire
from engine.model.encoder import load_encoder
from engine.model.encoder_vectors import EncoderRunner, open_encoder
from engine.model.loader import LoadFailed
from tests.engine.model.encoder_reference import Reference
from tests.tiny_encoders import FAMILIES, make_encoder, write_sentence_files

POOLED: dict[str, Callable[[Any], Any]] = {
    "pooling_mode_mean_tokens": lambda states: states.mean(axis=0),
    "pooling_mode_cls_token": lambda states: states[0],
    "pooling_mode_lasttoken": lambda states: states[-1],
}
SEPARATOR_ID = {"bert": 2, "xlm-roberta": 2, "modernbert": 2}


def random_rows(*lengths: int) -> list[tuple[int, ...]]:
    chooser = random.Random(7)
    return [tuple(chooser.randrange(3, 250) for _ in range(length)) for length in lengths]


def open_runner(folder: Path, *, kind: wire.ModelKind = wire.ModelKind.EMBED) -> EncoderRunner:
    *_, last = load_encoder(folder, casts_to_float32=True)
    assert last.loaded is not None and last.loaded.weight_bytes > 0
    return open_encoder(last.loaded.model, wire.ModelSpec(name="m", path=str(folder), kind=kind))


def reference(folder: Path, weights: dict[str, Any]) -> Reference:
    return Reference(weights, json.loads((folder / "config.json").read_text()))


@pytest.mark.parametrize("mode", POOLED)
@pytest.mark.parametrize("family", FAMILIES)
def test_vectors_are_those_of_the_reference(tmp_path: Path, family: str, mode: str) -> None:
    weights = make_encoder(tmp_path, family)
    write_sentence_files(tmp_path, mode)
    runner, expected = open_runner(tmp_path), reference(tmp_path, weights)
    rows = random_rows(3, 41, 9, 1, 40)
    for row, vector in zip(rows, runner.run(rows), strict=True):
        pooled = POOLED[mode](expected.states(row))
        assert np.allclose(vector, pooled / np.linalg.norm(pooled), atol=2e-6)


@pytest.mark.parametrize("family", FAMILIES)
def test_a_long_row_layer_by_layer_gives_the_same(tmp_path: Path, family: str) -> None:
    make_encoder(tmp_path, family)
    runner = open_runner(tmp_path)
    (row,) = random_rows(100)
    long, computed = runner.begin(row), [0]
    while (results := runner.go_on(long, 30)) is None:
        assert long.num_computed + long.num_left == 100
        computed.append(long.num_computed)
    assert computed == [0, 25, 50, 75]
    assert np.allclose(results[0], runner.run([row])[0], atol=1e-6)


@pytest.mark.parametrize("family", FAMILIES)
def test_scores_are_those_of_the_reference(tmp_path: Path, family: str) -> None:
    weights = make_encoder(tmp_path, family, scores=True)
    runner = open_runner(tmp_path, kind=wire.ModelKind.RERANK)
    expected = reference(tmp_path, weights)
    second_at = [5, 30, 12]
    rows = [
        (*row[: at - 1], SEPARATOR_ID[family], *row[at:])
        for row, at in zip(random_rows(20, 60, 33), second_at, strict=True)
    ]
    scores = runner.run(rows)
    for row, at, score in zip(rows, second_at, scores, strict=True):
        wanted = expected.score(row, second_at=at if family == "bert" else None)
        assert score == pytest.approx(wanted, abs=2e-6)
    assert isinstance(runner.event(scores[0], place=0, dimensions=None), wire.Scored)


def test_vectors_are_as_long_as_the_files_say(tmp_path: Path) -> None:
    make_encoder(tmp_path, "bert")
    rows = random_rows(9)
    lengths = []
    for normalizes in (True, False):
        write_sentence_files(tmp_path, "pooling_mode_mean_tokens", normalizes=normalizes)
        runner = open_runner(tmp_path)
        (vector,) = runner.run(rows)
        event = runner.event(vector, place=0, dimensions=8)
        assert isinstance(event, wire.Embedded)
        short = np.frombuffer(base64.b64decode(event.vector), "<f4")
        assert len(short) == 8
        lengths.append((np.linalg.norm(vector), np.linalg.norm(short)))
    assert lengths[0] == pytest.approx((1, 1), abs=1e-5)
    assert lengths[1][0] > lengths[1][1] > 1


def test_quantized_weights_are_read(tmp_path: Path) -> None:
    make_encoder(tmp_path, "bert")
    whole = open_runner(tmp_path).run(random_rows(12))[0]
    *_, last = load_encoder(tmp_path, casts_to_float32=True)
    assert last.loaded is not None
    model = last.loaded.model
    nn.quantize(model, group_size=32, bits=8)
    mx.save_safetensors(str(tmp_path / "model.safetensors"), dict(tree_flatten(model.parameters())))
    config = json.loads((tmp_path / "config.json").read_text())
    config["quantization"] = {"group_size": 32, "bits": 8}
    (tmp_path / "config.json").write_text(json.dumps(config))
    coarse = open_runner(tmp_path).run(random_rows(12))[0]
    assert 0.99 < float(whole @ coarse) < 0.999999


@pytest.mark.parametrize(
    ("kind", "changes", "message"),
    [
        ("rerank", {"scores": True, "labels": 3}, "3 labels"),
        ("rerank", {}, "not trained to score"),
        ("embed", {"position_embedding_type": "relative_key"}, "positions"),
        ("embed", {"num_hidden_layers": 5}, "weights are missing"),
        ("embed", {"hidden_act": "swoosh"}, "swoosh"),
    ],
)
def test_a_folder_that_cannot_be_served_says_why(
    tmp_path: Path, kind: str, changes: dict[str, Any], message: str
) -> None:
    make_encoder(tmp_path, "bert", **changes)
    with pytest.raises(LoadFailed, match=message):
        open_runner(tmp_path, kind=wire.ModelKind(kind))


def test_modules_that_are_not_known_are_refused(tmp_path: Path) -> None:
    make_encoder(tmp_path, "bert")
    write_sentence_files(tmp_path, "pooling_mode_mean_tokens", others=("Dense",))
    with pytest.raises(LoadFailed, match="Dense"):
        open_runner(tmp_path)
    write_sentence_files(tmp_path, "pooling_mode_max_tokens")
    with pytest.raises(LoadFailed, match="pooling_mode_max_tokens"):
        open_runner(tmp_path)
