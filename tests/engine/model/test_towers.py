"""Towers as folders have them: other names, other layouts, quantised, missing, and in copies."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import mlx.core as mx
import numpy as np
import pytest

from engine.core.images import Image
from engine.core.pixels import pack
from engine.model.loader import LoadedModel, LoadFailed, load
from engine.model.quantising import write_quantised_copy
from engine.model.vision.loading import read_sight
from engine.sizing.images import sees
from engine.sizing.quantising import Way, copy_bytes
from engine.sizing.tensors import tensors_of
from tests.engine.image_prompts import picture
from tests.tiny_models import SEEING, tiny_model_path
from tests.tiny_sights import NUM_TOKENS

Weights = dict[str, Any]
TOWER_FILE = "model-vision.safetensors"
PATCHES = "vision_tower.vision_model.embeddings.patch_embedding.weight"


def loaded(folder: Path) -> LoadedModel:
    *_, last = load(folder, casts_to_float32=True)
    assert last.loaded is not None
    return last.loaded


def seen_by(model: LoadedModel) -> Any:
    assert model.sight is not None
    image = Image(start=0, num_tokens=NUM_TOKENS, pixels=pack(picture(1)))
    return np.array(model.sight.look(image).states())


@pytest.fixture(scope="module")
def expected() -> Any:
    return seen_by(loaded(tiny_model_path(SEEING)))


def remade(folder: Path, change: Callable[[Weights], Weights], **config: Any) -> Path:
    """The folder, its tower's weights changed."""
    shutil.copytree(tiny_model_path(SEEING), folder)
    weights = mx.load(str(folder / TOWER_FILE))
    mx.save_safetensors(str(folder / TOWER_FILE), change(weights))
    settings = json.loads((folder / "config.json").read_text()) | config
    (folder / "config.json").write_text(json.dumps(settings))
    return folder


def with_channels_last(weights: Weights) -> Weights:
    return weights | {PATCHES: weights[PATCHES].transpose(0, 2, 3, 1)}


def with_newer_names(weights: Weights) -> Weights:
    return {f"model.{name.replace('vision_model.', '')}": one for name, one in weights.items()}


def with_a_pooling_head(weights: Weights) -> Weights:
    return weights | {"vision_tower.vision_model.head.probe": mx.zeros((1, 1, 48))}


@pytest.mark.parametrize("change", [with_channels_last, with_a_pooling_head])
def test_a_tower_is_read_however_it_was_stored(
    tmp_path: Path, change: Callable[[Weights], Weights], expected: Any
) -> None:
    model = loaded(remade(tmp_path / "m", change))
    np.testing.assert_array_equal(seen_by(model), expected)


def test_newer_names_are_known(tmp_path: Path) -> None:
    """Of the tower alone: mlx-lm has no such names of the text model yet."""
    folder = remade(tmp_path / "m", with_newer_names)
    config = json.loads((folder / "config.json").read_text())
    model = loaded(tiny_model_path(SEEING)).model
    sight, _ = read_sight(folder, config, model)
    assert sight is not None


def test_a_quantised_tower_is_read_as_it_is(tmp_path: Path, expected: Any) -> None:
    def quantised(weights: Weights) -> Weights:
        made = dict(weights)
        for name in weights:
            if name.endswith("mlp.fc2.weight"):
                packed, scales, biases = mx.quantize(made.pop(name), group_size=32, bits=8)
                path = name.removesuffix(".weight")
                made |= {name: packed, f"{path}.scales": scales, f"{path}.biases": biases}
        return made

    quantization = {"group_size": 32, "bits": 8}
    model = loaded(remade(tmp_path / "m", quantised, quantization=quantization))
    states = seen_by(model)
    assert not np.array_equal(states, expected)
    np.testing.assert_allclose(states, expected, atol=0.15)


def test_a_tower_that_lacks_a_weight_fails_the_load(tmp_path: Path) -> None:
    def without_patches(weights: Weights) -> Weights:
        return {name: one for name, one in weights.items() if name != PATCHES}

    with pytest.raises(LoadFailed, match="patch_embedding"):
        loaded(remade(tmp_path / "m", without_patches))


def test_what_mlx_lm_has_converted_is_a_text_model(tmp_path: Path) -> None:
    folder = tmp_path / "m"
    shutil.copytree(tiny_model_path(SEEING), folder)
    (folder / TOWER_FILE).unlink()
    assert loaded(folder).sight is None


def test_an_activation_that_is_unknown_fails_the_load(tmp_path: Path) -> None:
    config = json.loads((tiny_model_path(SEEING) / "config.json").read_text())
    vision = config["vision_config"] | {"hidden_act": "quick_gelu"}
    with pytest.raises(LoadFailed, match="quick_gelu"):
        loaded(remade(tmp_path / "m", dict, vision_config=vision))


def test_a_quantised_copy_still_sees(tmp_path: Path, expected: Any) -> None:
    source, copy = tiny_model_path(SEEING), tmp_path / "copy"
    way = Way(bits=8, group_size=32)
    assert list(write_quantised_copy(source, copy, way))[-1] == 1.0
    config = json.loads((copy / "config.json").read_text())
    assert sees(copy, config)
    np.testing.assert_array_equal(seen_by(loaded(copy)), expected)
    stored = sum(file.stat().st_size for file in copy.glob("model*.safetensors"))
    source_config = json.loads((source / "config.json").read_text())
    foreseen = copy_bytes(source_config, tensors_of(source), way)
    assert foreseen is not None
    assert abs(stored - foreseen) < 0.02 * stored + 20_000
