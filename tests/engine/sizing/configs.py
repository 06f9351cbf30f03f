"""What real models' config.json say of their sizes, cut down to that, and what follows from it."""

from __future__ import annotations

import dataclasses
from typing import Any

from engine.sizing.layers import FullLayers, Layers, StateLayers, WindowLayers


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Known:
    """`token_kib`: what a token of a long text takes in 16 bits, in all layers that keep it."""

    config: dict[str, Any]
    layers: tuple[Layers, ...]
    head_size: int
    token_kib: float


def full(count: int, token_elements: int, larger_elements: int | None = None) -> FullLayers:
    """Keys and values are equally large but where the latter is given."""
    larger_elements = larger_elements or token_elements // 2
    return FullLayers(count=count, token_elements=token_elements, larger_elements=larger_elements)


LLAMA_3_8B = {
    "model_type": "llama",
    "hidden_size": 4096,
    "num_hidden_layers": 32,
    "num_attention_heads": 32,
    "num_key_value_heads": 8,
    "intermediate_size": 14336,
    "vocab_size": 128256,
    "max_position_embeddings": 131072,
}
QWEN3_8B = {
    "model_type": "qwen3",
    "hidden_size": 4096,
    "num_hidden_layers": 36,
    "num_attention_heads": 32,
    "num_key_value_heads": 8,
    "head_dim": 128,
    "intermediate_size": 12288,
    "sliding_window": None,
    "use_sliding_window": False,
    "vocab_size": 151936,
    "max_position_embeddings": 40960,
}
QWEN3_30B_A3B = QWEN3_8B | {
    "model_type": "qwen3_moe",
    "hidden_size": 2048,
    "num_hidden_layers": 48,
    "num_key_value_heads": 4,
    "intermediate_size": 6144,
    "moe_intermediate_size": 768,
    "num_experts": 128,
    "num_experts_per_tok": 8,
}
MISTRAL_7B = {
    "model_type": "mistral",
    "hidden_size": 4096,
    "num_hidden_layers": 32,
    "num_attention_heads": 32,
    "num_key_value_heads": 8,
    "intermediate_size": 14336,
    "sliding_window": 4096,
    "vocab_size": 32000,
    "max_position_embeddings": 32768,
}
MISTRAL_SMALL_3_24B = {
    "model_type": "mistral3",
    "text_config": {
        "model_type": "mistral",
        "head_dim": 128,
        "hidden_size": 5120,
        "intermediate_size": 32768,
        "num_attention_heads": 32,
        "num_hidden_layers": 40,
        "num_key_value_heads": 8,
        "vocab_size": 131072,
        "max_position_embeddings": 131072,
    },
    "vision_config": {"hidden_size": 1024, "num_hidden_layers": 24, "num_attention_heads": 16},
}
# The outer numbers are the vision encoder's.
SHADOWED_BY_VISION = {
    "model_type": "some_vlm",
    "hidden_size": 1152,
    "num_hidden_layers": 27,
    "num_attention_heads": 16,
    "language_config": dict(LLAMA_3_8B),
}
GEMMA_3_27B = {
    "model_type": "gemma3",
    "text_config": {
        "model_type": "gemma3_text",
        "head_dim": 128,
        "hidden_size": 5376,
        "intermediate_size": 21504,
        "num_attention_heads": 32,
        "num_hidden_layers": 62,
        "num_key_value_heads": 16,
        "sliding_window": 1024,
        "sliding_window_pattern": 6,
        "vocab_size": 262208,
    },
    "vision_config": {"hidden_size": 1152, "num_hidden_layers": 27},
}
GPT_OSS_20B = {
    "model_type": "gpt_oss",
    "head_dim": 64,
    "hidden_size": 2880,
    "intermediate_size": 2880,
    "layer_types": ["sliding_attention", "full_attention"] * 12,
    "num_attention_heads": 64,
    "num_experts_per_tok": 4,
    "num_hidden_layers": 24,
    "num_key_value_heads": 8,
    "num_local_experts": 32,
    "sliding_window": 128,
    "vocab_size": 201088,
}
QWEN3_NEXT_80B = {
    "model_type": "qwen3_next",
    "full_attention_interval": 4,
    "head_dim": 256,
    "hidden_size": 2048,
    "intermediate_size": 5120,
    "linear_conv_kernel_dim": 4,
    "linear_key_head_dim": 128,
    "linear_num_key_heads": 16,
    "linear_num_value_heads": 32,
    "linear_value_head_dim": 128,
    "moe_intermediate_size": 512,
    "num_attention_heads": 16,
    "num_experts_per_tok": 10,
    "num_hidden_layers": 48,
    "num_key_value_heads": 2,
    "shared_expert_intermediate_size": 512,
    "vocab_size": 151936,
}
DEEPSEEK_V3 = {
    "model_type": "deepseek_v3",
    "hidden_size": 7168,
    "intermediate_size": 18432,
    "kv_lora_rank": 512,
    "moe_intermediate_size": 2048,
    "n_shared_experts": 1,
    "num_attention_heads": 128,
    "num_experts_per_tok": 8,
    "num_hidden_layers": 61,
    "num_key_value_heads": 128,
    "qk_nope_head_dim": 128,
    "qk_rope_head_dim": 64,
    "v_head_dim": 128,
    "vocab_size": 129280,
}
GPT_2 = {
    "model_type": "gpt2",
    "n_ctx": 1024,
    "n_embd": 768,
    "n_head": 12,
    "n_layer": 12,
    "n_positions": 1024,
    "vocab_size": 50257,
}
MAMBA_2_2B = {
    "model_type": "mamba2",
    "chunk_size": 256,
    "conv_kernel": 4,
    "expand": 2,
    "head_dim": 64,
    "hidden_size": 2560,
    "n_groups": 1,
    "num_heads": 80,
    "num_hidden_layers": 64,
    "state_size": 128,
    "vocab_size": 50288,
}
NEMOTRON_H = {
    "model_type": "nemotron_h",
    "conv_kernel": 4,
    "head_dim": 128,
    "hidden_size": 4096,
    "hybrid_override_pattern": "M-M*-",
    "intermediate_size": 21504,
    "mamba_head_dim": 64,
    "mamba_num_heads": 128,
    "n_groups": 8,
    "num_attention_heads": 32,
    "num_hidden_layers": 5,
    "num_key_value_heads": 8,
    "ssm_state_size": 128,
    "vocab_size": 131072,
}
LFM2_1B = {
    "model_type": "lfm2",
    "conv_L_cache": 3,
    "full_attn_idxs": [2, 5, 8, 10, 12, 14],
    "hidden_size": 2048,
    "num_attention_heads": 32,
    "num_hidden_layers": 16,
    "num_key_value_heads": 8,
    "vocab_size": 65536,
}

LLAMA_4_SCOUT = {
    "model_type": "llama4",
    "text_config": {
        "model_type": "llama4_text",
        "attention_chunk_size": 8192,
        "head_dim": 128,
        "hidden_size": 5120,
        "intermediate_size": 8192,
        "intermediate_size_mlp": 16384,
        "num_attention_heads": 40,
        "num_experts_per_tok": 1,
        "num_hidden_layers": 48,
        "num_key_value_heads": 8,
        "num_local_experts": 16,
        "vocab_size": 202048,
        "max_position_embeddings": 10485760,
    },
    "vision_config": {"hidden_size": 1408, "num_hidden_layers": 34, "num_attention_heads": 16},
}
INTERNVL_2_5_8B = {
    "model_type": "internvl_chat",
    "llm_config": {
        "model_type": "internlm2",
        "hidden_size": 4096,
        "intermediate_size": 14336,
        "num_attention_heads": 32,
        "num_hidden_layers": 32,
        "num_key_value_heads": 8,
        "vocab_size": 92553,
        "max_position_embeddings": 32768,
    },
    "vision_config": {"hidden_size": 1024, "num_hidden_layers": 24, "num_attention_heads": 16},
}
# One head of keys and values for all queries, under the oldest names
STARCODER = {
    "model_type": "gpt_bigcode",
    "multi_query": True,
    "n_embd": 6144,
    "n_head": 48,
    "n_inner": 24576,
    "n_layer": 40,
    "n_positions": 8192,
    "vocab_size": 49152,
}

_DELTA = (2 * 16 * 128 + 32 * 128) * 3 + 32 * 128 * 128
_MAMBA_2 = 80 * 64 * 128 + (80 * 64 + 2 * 128) * 3
_NEMOTRON = 128 * 64 * 128 + (128 * 64 + 2 * 8 * 128) * 3
KNOWN = {
    "llama": Known(config=LLAMA_3_8B, layers=(full(32, 2048),), head_size=128, token_kib=128),
    "qwen3": Known(config=QWEN3_8B, layers=(full(36, 2048),), head_size=128, token_kib=144),
    "qwen3-moe": Known(config=QWEN3_30B_A3B, layers=(full(48, 1024),), head_size=128, token_kib=96),
    "a window that mlx-lm does not keep": Known(
        config=MISTRAL_7B, layers=(full(32, 2048),), head_size=128, token_kib=128
    ),
    "mistral3": Known(
        config=MISTRAL_SMALL_3_24B, layers=(full(40, 2048),), head_size=128, token_kib=160
    ),
    "vision shadows": Known(
        config=SHADOWED_BY_VISION, layers=(full(32, 2048),), head_size=128, token_kib=128
    ),
    "gemma3": Known(
        config=GEMMA_3_27B,
        layers=(full(10, 4096), WindowLayers(count=52, token_elements=4096, window=1024)),
        head_size=128,
        token_kib=80,
    ),
    "gpt-oss": Known(
        config=GPT_OSS_20B,
        layers=(full(12, 1024), WindowLayers(count=12, token_elements=1024, window=128)),
        head_size=64,
        token_kib=24,
    ),
    "qwen3-next": Known(
        config=QWEN3_NEXT_80B,
        layers=(full(12, 1024), StateLayers(count=36, row_elements=_DELTA)),
        head_size=256,
        token_kib=24,
    ),
    "deepseek-v3": Known(
        config=DEEPSEEK_V3, layers=(full(61, 576, 512),), head_size=192, token_kib=68.625
    ),
    "gpt2": Known(config=GPT_2, layers=(full(12, 1536),), head_size=64, token_kib=36),
    "mamba2": Known(
        config=MAMBA_2_2B,
        layers=(StateLayers(count=64, row_elements=_MAMBA_2),),
        head_size=64,
        token_kib=0,
    ),
    "nemotron-h": Known(
        config=NEMOTRON_H,
        layers=(full(1, 2048), StateLayers(count=2, row_elements=_NEMOTRON)),
        head_size=128,
        token_kib=4,
    ),
    "lfm2": Known(
        config=LFM2_1B,
        layers=(full(6, 1024), StateLayers(count=10, row_elements=2 * 2048)),
        head_size=64,
        token_kib=12,
    ),
    "llama4": Known(
        config=LLAMA_4_SCOUT,
        layers=(full(12, 2048), WindowLayers(count=36, token_elements=2048, window=8192)),
        head_size=128,
        token_kib=48,
    ),
    "internvl": Known(
        config=INTERNVL_2_5_8B, layers=(full(32, 2048),), head_size=128, token_kib=128
    ),
    "starcoder": Known(config=STARCODER, layers=(full(40, 256),), head_size=128, token_kib=20),
}
