"""What is said of a family's caches against those that mlx-lm makes for a tiny model of it."""

from __future__ import annotations

import importlib
import re
from pathlib import Path
from typing import Any

import mlx.core as mx
import pytest
from mlx_lm import models

from engine.model import caches as row_caches
from engine.sizing.estimate import Estimate, Numbers
from engine.sizing.families import LATENT_FAMILIES
from engine.sizing.layer_kinds import WINDOW_FAMILIES
from engine.sizing.layers import FullLayers, WindowLayers
from engine.sizing.shape import shape_of
from tests.engine.sizing.configs import LLAMA_3_8B, LLAMA_4_SCOUT, full
from tests.engine.sizing.tiny_configs import TINY

SOURCES = {path.stem: path.read_text() for path in Path(models.__path__[0]).glob("*.py")}


@pytest.mark.parametrize("family", TINY)
def test_what_a_family_keeps_is_what_its_caches_hold(family: str) -> None:
    estimated = Estimate(shape_of(TINY[family]), Numbers(compute_bytes=4, may_fuse=False))
    caches = filled_caches(TINY[family], num_tokens=2)
    assert estimated.row_bytes(2) == pytest.approx(row_caches.num_bytes(caches), rel=0.005)


def filled_caches(config: dict[str, Any], *, num_tokens: int) -> row_caches.Caches:
    module = importlib.import_module(f"mlx_lm.models.{config['model_type']}")
    model = module.Model(module.ModelArgs.from_dict(config))
    caches = row_caches.new_caches(model)
    for _ in range(num_tokens):
        model(mx.zeros((1, 1), mx.uint32), cache=caches)
        row_caches.evaluate(caches)
    return caches


def test_families_that_keep_latents_are_known() -> None:
    """Of mlx-lm's: they attend with the latent, by a layer of its own kind."""
    with_latents = {name for name, text in SOURCES.items() if "kv_lora_rank" in text}
    keeping = {name for name in with_latents if "MultiLinear(" in SOURCES[name]}
    assert {"deepseek_v3", "mistral4"} <= keeping <= LATENT_FAMILIES
    making_heads = {name for name in with_latents if "kv_b_proj(" in SOURCES[name]}
    assert {"deepseek_v2", "minicpm3"} <= making_heads
    assert not making_heads & LATENT_FAMILIES


def test_families_that_keep_a_window_are_known() -> None:
    made = re.compile(r"\b(RotatingKVCache|ChunkedKVCache)\(")
    keeping = {name for name, text in SOURCES.items() if name != "cache" and made.search(text)}
    assert {"gemma3_text", "llama4", "mimo_v2_flash"} <= keeping <= WINDOW_FAMILIES
    others = set(SOURCES) & WINDOW_FAMILIES - keeping
    assert others == {"deepseek_v41", "gemma3", "gemma4", "llama4_text"}


def test_groups_of_tokens_that_are_compressed_count_as_one_token() -> None:
    """Keys alone, each layer's of a window; of all tokens where others read them, too."""
    config = LLAMA_3_8B | {
        "model_type": "deepseek_v41",
        "num_hidden_layers": 4,
        "head_dim": 512,
        "index_head_dim": 128,
        "sliding_window": 64,
        "compress_ratios": [0, 4, 4, 128],
        "kv_source_layer_ids": [1, 3],
    }
    assert shape_of(config).layers == (
        full(1, (512 + 128) // 4, 512 // 4),
        full(1, (512 + 128) // 128, 512 // 128),
        WindowLayers(count=4, token_elements=512, window=64),
    )


def test_states_of_an_unknown_kind_count_as_attention() -> None:
    kinds = ["linear_attention", "full_attention"] * 16
    unknown = LLAMA_3_8B | {"model_type": "new", "layer_types": kinds}
    assert shape_of(unknown).layers == (full(32, 2048),)
    assert shape_of(unknown | {"linear_num_value_heads": 8}).layers == (full(32, 2048),)


def test_layers_of_an_unknown_kind_count_as_attention() -> None:
    kinds = ["compressed_attention", "moe", "sliding_attention", "mlp"] * 8
    unknown = LLAMA_3_8B | {"model_type": "new", "layer_types": kinds, "sliding_window": 64}
    assert shape_of(unknown).layers == (full(16, 2048),)


def test_llama_4_without_its_vision_keeps_everything() -> None:
    """mlx-lm has two of it."""
    text = LLAMA_4_SCOUT["text_config"] | {"architectures": ["Llama4ForCausalLM"]}
    (layers,) = shape_of(text).layers
    assert isinstance(layers, FullLayers) and layers.count == 48
