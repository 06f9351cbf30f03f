"""Sizes read from configs of real families, and configs that say nothing."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from mlx_lm import models

from engine.sizing.estimate import Estimate, Numbers
from engine.sizing.families import has_own_attention
from engine.sizing.shape import UnreadableConfig, read_shape, shape_of
from tests.engine.sizing.configs import GPT_2, KNOWN, LLAMA_3_8B, QWEN3_30B_A3B
from tests.engine.sizing.uncommon_configs import (
    DBRX,
    GEMMA_3_4B,
    GEMMA_4_31B,
    GEMMA_4_E2B,
    KIMI_LINEAR_48B,
    LONGCAT_FLASH,
    OPENELM_270M,
    UNCOMMON,
)

ALL_KNOWN = KNOWN | UNCOMMON
BFLOAT16 = Numbers(compute_bytes=2, may_fuse=True)


@pytest.mark.parametrize("name", ALL_KNOWN)
def test_what_the_caches_of_a_family_keep(name: str) -> None:
    known, shape = ALL_KNOWN[name], shape_of(ALL_KNOWN[name].config)
    assert shape.layers == known.layers
    assert shape.head_size == known.head_size
    assert Estimate(shape, BFLOAT16).token_bytes == known.token_kib * 1024


def test_all_active_experts_count() -> None:
    assert shape_of(QWEN3_30B_A3B).mlp_size == 8 * 768
    assert shape_of(LLAMA_3_8B).mlp_size == 14336
    assert shape_of(GPT_2).mlp_size == 4 * 768
    assert shape_of(KIMI_LINEAR_48B).mlp_size == (8 + 1) * 1024
    assert shape_of(LONGCAT_FLASH).mlp_size == 12 * 2048
    assert shape_of(DBRX).mlp_size == 4 * 10752
    assert shape_of(GEMMA_4_31B).mlp_size == 21504
    assert shape_of(GEMMA_4_E2B).mlp_size == 2 * 6144
    assert shape_of(OPENELM_270M).mlp_size == 4 * 1280


def test_what_a_config_leaves_to_its_family_is_known() -> None:
    shape = shape_of(GEMMA_3_4B)
    assert (shape.query_heads, shape.vocab_size) == (8, 262208)
    assert shape_of(GEMMA_3_4B | {"num_attention_heads": 3}).query_heads == 8


def test_families_with_an_attention_of_their_own_are_known() -> None:
    """Of mlx-lm's: they compute scores, and not by the function that others share."""
    sources = {path.stem: path.read_text() for path in Path(models.__path__[0]).glob("*.py")}
    composes = re.compile(r"softmax|fast\.scaled_dot_product_attention")
    shared = re.compile(r"import [^()]*scaled_dot_product_attention|^    scaled_dot_product", re.M)
    own = {
        name for name, text in sources.items() if composes.search(text) and not shared.search(text)
    }
    assert {"gemma2", "plamo2"} <= own
    said = {name for name in sources if has_own_attention({"model_type": name})}
    assert said == own - {"base"}
    assert has_own_attention({"model_type": "deepseek_v3", "kv_lora_rank": 512})


@pytest.mark.parametrize(
    "changes",
    [
        {"hidden_size": None},
        {"num_hidden_layers": "many"},
        {"vocab_size": 0},
        {"num_key_value_heads": "eight"},
        {"num_attention_heads": None},
    ],
)
def test_a_config_that_cannot_be_read_is_an_error(changes: dict[str, object]) -> None:
    with pytest.raises(UnreadableConfig):
        shape_of(LLAMA_3_8B | changes)


@pytest.mark.parametrize("text", [None, "{", "[]", "{}"])
def test_a_broken_file_is_an_error(tmp_path: Path, text: str | None) -> None:
    if text is not None:
        (tmp_path / "config.json").write_text(text)
    with pytest.raises(UnreadableConfig):
        read_shape(tmp_path)
