"""Folders into weights, and what is said of folders that are none."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import mlx.core as mx
import numpy as np
import pytest
from mlx.utils import tree_flatten
from mlx_lm.models import bitlinear_layers
from mlx_lm.utils import load_model

from engine.model import kernels
from engine.model.load_faults import explain
from engine.model.loader import (
    LoadFailed,
    load,
    stored_weight_bytes,
)
from tests.engine.model.rig import loaded
from tests.tiny_models import CONTEXT_LIMIT_TOKENS, IM_END_ID, tiny_model_path


@pytest.fixture
def bf16_folder(tmp_path: Path) -> Path:
    source = tiny_model_path("tiny-qwen3")
    shutil.copytree(source, tmp_path / "model")
    weights = mx.load(str(source / "model.safetensors"))
    small = {name: array.astype(mx.bfloat16) for name, array in weights.items()}
    mx.save_safetensors(str(tmp_path / "model" / "model.safetensors"), small, {"format": "mlx"})
    return tmp_path / "model"


def dtypes(folder: Path, *, casts_to_float32: bool) -> set[mx.Dtype]:
    *_, last = load(folder, casts_to_float32=casts_to_float32)
    assert last.loaded is not None
    return {array.dtype for _, array in tree_flatten(last.loaded.model.parameters())}


def test_a_loaded_model_says_what_it_is() -> None:
    model = loaded("tiny-qwen3")
    assert model.context_limit_tokens == CONTEXT_LIMIT_TOKENS
    assert model.weight_bytes == stored_weight_bytes(tiny_model_path("tiny-qwen3"))
    assert IM_END_ID in model.tokenizer.eos_token_ids


def test_progress_grows_to_one() -> None:
    fractions = [one.fraction for one in load(tiny_model_path("tiny-mamba"), casts_to_float32=True)]
    assert fractions == sorted(fractions) and fractions[0] == 0 and fractions[-1] == 1


def test_weights_are_float32_on_cpu_unless_told_otherwise(bf16_folder: Path) -> None:
    assert dtypes(bf16_folder, casts_to_float32=True) == {mx.float32}
    assert dtypes(bf16_folder, casts_to_float32=False) == {mx.bfloat16}


def test_a_folder_without_weights_is_refused(tmp_path: Path) -> None:
    with pytest.raises(LoadFailed, match="no model"):
        stored_weight_bytes(tmp_path)


def test_a_broken_safetensors_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "model.safetensors").write_bytes(b"nonsense that is no header")
    with pytest.raises(LoadFailed, match="no safetensors file"):
        stored_weight_bytes(tmp_path)


@pytest.mark.parametrize(
    ("changes", "missing", "message"),
    [
        ({"model_type": "nonesuch"}, None, "does not know the architecture 'nonesuch'"),
        ({"model_type": "olmo"}, None, "what the architecture 'olmo' needs is not installed"),
        ({"model_type": "mllama", "vision_config": {}}, None, "no text form .* reads images"),
        ({"num_hidden_layers": 40}, None, r"418 of its weights are missing, such as model\.layers"),
        ({"hidden_size": 256}, None, r"Expected shape \(4096, 256\)"),
        ({}, "tokenizer.json", "it has no tokenizer.json"),
    ],
)
def test_a_folder_that_cannot_be_loaded_says_why_in_a_line(
    bf16_folder: Path, changes: dict[str, Any], missing: str | None, message: str
) -> None:
    config = json.loads((bf16_folder / "config.json").read_text())
    (bf16_folder / "config.json").write_text(json.dumps(config | changes))
    if missing is not None:
        (bf16_folder / missing).unlink()
    with pytest.raises(LoadFailed, match=message) as caught:
        list(load(bf16_folder, casts_to_float32=True))
    told = str(caught.value)
    assert "\n" not in told and len(told) <= 300


@pytest.mark.skipif(mx.metal.is_available(), reason="it is computed here")
def test_an_architecture_that_needs_a_macs_gpu_is_named_so() -> None:
    x, weight = mx.zeros((1, 4)), mx.zeros((1, 4), mx.uint8)
    with pytest.raises(RuntimeError) as caught:
        bitlinear_layers.BitLinear(4, 4).execute_matmul_kernel(x, weight)
    told = explain(tiny_model_path("tiny-qwen3"), caught.value)
    assert told == "mlx-lm computes the architecture 'qwen3' on a Mac's GPU only"


def test_a_file_that_was_cut_short_is_named_so(bf16_folder: Path) -> None:
    weights = bf16_folder / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[: weights.stat().st_size // 2])
    with pytest.raises(LoadFailed, match=r"incomplete download|end of file"):
        list(load(bf16_folder, casts_to_float32=True))


def test_a_model_with_its_own_code_is_not_run(bf16_folder: Path) -> None:
    config = json.loads((bf16_folder / "config.json").read_text())
    (bf16_folder / "config.json").write_text(json.dumps({**config, "model_file": "evil.py"}))
    with pytest.raises(LoadFailed, match=r"evil\.py"):
        list(load(bf16_folder, casts_to_float32=True))


def test_a_model_that_is_replaced_while_it_is_read_is_not_taken_for_the_new_one(
    tmp_path: Path,
) -> None:
    """What the old one computes would be found in the cache by the new one."""
    folder = shutil.copytree(tiny_model_path("tiny-qwen3"), tmp_path / "model")
    progress = load(folder, casts_to_float32=True)
    while not next(progress).fraction:
        pass
    (file,) = folder.glob("model*.safetensors")
    arrays: Any = mx.load(str(file))
    new = tmp_path / "new.safetensors"
    mx.save_safetensors(str(new), {name: 2 * array for name, array in arrays.items()})
    new.replace(file)
    with pytest.raises(LoadFailed, match="changed while"):
        list(progress)
    *_, last = load(folder, casts_to_float32=True)
    assert last.loaded is not None


@pytest.mark.parametrize("is_tied", [False, True])
def test_weights_keep_their_values_however_they_are_laid_out(
    is_tied: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kernels, "is_x86_processor", lambda: False)
    plain = fresh_model("tiny-qwen3", is_tied=is_tied)
    monkeypatch.setattr(kernels, "is_x86_processor", lambda: True)
    laid_out = fresh_model("tiny-qwen3", is_tied=is_tied)
    tokens = mx.arange(50)[None]
    np.testing.assert_allclose(np.array(laid_out(tokens)), np.array(plain(tokens)), atol=1e-4)
    for (name, ours), (_, theirs) in zip(weights(laid_out), weights(plain), strict=True):
        assert mx.array_equal(ours, theirs)
        is_by_input = np.asarray(ours).T.flags.c_contiguous and ours.ndim == 2
        assert is_by_input == (ours.ndim == 2 and ("proj" in name or "head" in name or is_tied))


def test_a_load_lays_weights_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kernels, "is_x86_processor", lambda: True)
    *_, last = load(tiny_model_path("tiny-qwen3"), casts_to_float32=True)
    assert last.loaded is not None
    weight = last.loaded.model.layers[0].mlp.down_proj.weight
    assert np.asarray(weight).T.flags.c_contiguous


def fresh_model(name: str, *, is_tied: bool) -> Any:
    model, _ = load_model(tiny_model_path(name), lazy=True)
    model.args.tie_word_embeddings = is_tied
    kernels.lay_out_weights(model)
    return model


def weights(model: Any) -> list[tuple[str, mx.array]]:
    found = tree_flatten(model.parameters())
    mx.eval([array for _, array in found])
    return found
