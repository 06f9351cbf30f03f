"""The size of the demo model, and the config files that say so."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from mlx_lm.models.qwen3 import Model, ModelArgs

from engine.demo.vocabulary import CONTROL_TOKENS, END_OF_TEXT, END_OF_TURN

VOCABULARY = 3072
CONTEXT = 4096
_END_IDS = [CONTROL_TOKENS.index(END_OF_TURN), CONTROL_TOKENS.index(END_OF_TEXT)]


def config() -> dict[str, Any]:
    return {
        "architectures": ["Qwen3ForCausalLM"],
        "model_type": "qwen3",
        "hidden_size": 256,
        "num_hidden_layers": 6,
        "intermediate_size": 768,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "head_dim": 64,
        "hidden_act": "silu",
        "rms_norm_eps": 1e-6,
        "rope_theta": 10000.0,
        "max_position_embeddings": CONTEXT,
        "vocab_size": VOCABULARY,
        "tie_word_embeddings": True,
        "attention_bias": False,
        "attention_dropout": 0.0,
        "torch_dtype": "bfloat16",
        "eos_token_id": _END_IDS,
        "pad_token_id": _END_IDS[1],
    }


def build_model() -> Model:
    return Model(ModelArgs.from_dict(config()))


def save_configs(folder: Path) -> None:
    generation = {
        "eos_token_id": _END_IDS,
        "pad_token_id": _END_IDS[1],
        "do_sample": True,
        "temperature": 0.6,
        "top_p": 0.95,
        "top_k": 40,
    }
    for name, content in (("config.json", config()), ("generation_config.json", generation)):
        (folder / name).write_text(json.dumps(content, indent=2) + "\n")
