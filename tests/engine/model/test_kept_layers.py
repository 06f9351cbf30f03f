"""What a row keeps is asked of the loaded model: of every class of caches, to the byte."""

from __future__ import annotations

import dataclasses
import importlib
from typing import Any

import mlx.core as mx
import pytest

from engine.model.caches import new_caches, num_bytes
from engine.model.kept_layers import kept_layers
from engine.sizing.estimate import Estimate, Numbers
from engine.sizing.shape import shape_of
from tests.engine.sizing.configs import QWEN3_8B

SIZES = {
    "hidden_size": 64,
    "intermediate_size": 96,
    "num_hidden_layers": 4,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 16,
    "vocab_size": 64,
    "rms_norm_eps": 1e-6,
    "tie_word_embeddings": True,
}
LATENT = {
    "kv_lora_rank": 32,
    "q_lora_rank": 32,
    "qk_rope_head_dim": 16,
    "qk_nope_head_dim": 16,
    "v_head_dim": 24,
    "moe_intermediate_size": 32,
    "first_k_dense_replace": 4,
    "rope_scaling": None,
}
FAMILIES: dict[str, dict[str, Any]] = {
    "llama": {},
    "gemma3_text": {"sliding_window": 64, "sliding_window_pattern": 2},
    "deepseek_v3": LATENT | {"n_group": 1, "topk_group": 1},
    "deepseek_v32": LATENT | {"index_head_dim": 16, "index_n_heads": 2, "index_topk": 64},
    "rwkv7": {
        "norm_eps": 1e-6,
        **dict.fromkeys(
            ("a_low_rank_dim", "v_low_rank_dim", "gate_low_rank_dim", "decay_low_rank_dim"), 8
        ),
    },
    "recurrent_gemma": {
        "attention_bias": False,
        "attention_window_size": 64,
        "block_types": ["recurrent", "attention"],
        "conv1d_width": 4,
        "logits_soft_cap": 30.0,
        "num_key_value_heads": 1,
        "rope_theta": 1e4,
    },
}


def make_model(family: str) -> Any:
    architecture = importlib.import_module(f"mlx_lm.models.{family}")
    config = SIZES | {"model_type": family} | FAMILIES[family]
    return architecture.Model(architecture.ModelArgs.from_dict(config))


def row_of(model: Any, num_tokens: int, *, slice_tokens: int) -> list[Any]:
    caches = new_caches(model)
    for start in range(0, num_tokens, slice_tokens):
        width = min(slice_tokens, num_tokens - start)
        mx.eval(model(mx.ones((1, width), mx.uint32), cache=caches))
    return caches


@pytest.mark.parametrize("num_tokens", [256, 640])  # whole slices, which fill a window
@pytest.mark.parametrize("family", FAMILIES)
def test_a_row_keeps_what_was_found(family: str, num_tokens: int) -> None:
    model = make_model(family)
    layers = kept_layers(model, compute_bytes=4)
    assert layers is not None
    shape = dataclasses.replace(shape_of(QWEN3_8B), layers=layers)
    estimate = Estimate(shape, Numbers(compute_bytes=4, may_fuse=False))
    held = num_bytes(row_of(model, num_tokens, slice_tokens=128))
    assert estimate.row_bytes(num_tokens, slice_tokens=128) == pytest.approx(held, rel=0.001)


def test_caches_that_only_a_family_knows_are_left_to_its_config() -> None:
    class Own:
        nbytes = 8
        state = ()

    class Model:
        def make_cache(self) -> list[Own]:
            return [Own()]

        def __call__(self, *_: Any, **__: Any) -> None: ...

    assert kept_layers(Model(), compute_bytes=4) is None
