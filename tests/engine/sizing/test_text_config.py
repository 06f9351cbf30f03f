"""Which part of a config is about text, and what limit it names."""

from __future__ import annotations

from typing import Any

import pytest

from engine.sizing.text_config import context_limit, text_config
from tests.engine.sizing.configs import (
    GEMMA_3_27B,
    GPT_2,
    INTERNVL_2_5_8B,
    LLAMA_4_SCOUT,
    MAMBA_2_2B,
    MISTRAL_SMALL_3_24B,
    SHADOWED_BY_VISION,
    STARCODER,
)
from tests.engine.sizing.uncommon_configs import KIMI_LINEAR_48B, OPENELM_270M


@pytest.mark.parametrize(
    ("config", "limit"),
    [
        (MISTRAL_SMALL_3_24B, 131_072),
        (SHADOWED_BY_VISION, 131_072),
        (INTERNVL_2_5_8B, 32_768),
        (LLAMA_4_SCOUT, 10_485_760),
        (GPT_2, 1024),
        (STARCODER, 8192),
        (KIMI_LINEAR_48B, 1_048_576),
        (OPENELM_270M, 2048),
        (MAMBA_2_2B, None),
        (GEMMA_3_27B | {"max_position_embeddings": 4096}, 4096),
        ({"max_position_embeddings": 7, "text_config": {"max_position_embeddings": 99}}, 99),
        ({"max_position_embeddings": 10**30, "n_positions": "many"}, None),
        ({"max_position_embeddings": 0, "seq_length": 5}, 5),
    ],
)
def test_the_limit_is_that_of_the_text_part(config: dict[str, Any], limit: int | None) -> None:
    assert context_limit(config) == limit


def test_a_text_part_without_a_type_has_that_of_the_whole() -> None:
    assert text_config({"model_type": "vlm", "llm_config": {"n_embd": 3}}) == {
        "model_type": "vlm",
        "n_embd": 3,
    }
    assert text_config({"text_config": None, "n_embd": 3})["n_embd"] == 3
