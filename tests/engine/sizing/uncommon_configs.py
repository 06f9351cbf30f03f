"""What configs say whose layers keep less than keys and values of all tokens, or name it their own
way; cut down to that, and what follows from it."""

from __future__ import annotations

from engine.sizing.layers import StateLayers, WindowLayers
from tests.engine.sizing.configs import DEEPSEEK_V3, Known, full

DEEPSEEK_V3_2 = DEEPSEEK_V3 | {
    "model_type": "deepseek_v32",
    "index_head_dim": 128,
    "index_n_heads": 64,
    "index_topk": 2048,
}
LONGCAT_FLASH = {
    "model_type": "longcat_flash",
    "expert_ffn_hidden_size": 2048,
    "ffn_hidden_size": 12288,
    "hidden_size": 6144,
    "kv_lora_rank": 512,
    "moe_topk": 12,
    "num_attention_heads": 64,
    "num_layers": 28,
    "qk_nope_head_dim": 128,
    "qk_rope_head_dim": 64,
    "v_head_dim": 128,
    "vocab_size": 131072,
}
_KIMI_FULL = [4, 8, 12, 16, 20, 24, 27]
KIMI_LINEAR_48B = {
    "model_type": "kimi_linear",
    "head_dim": 72,
    "hidden_size": 2304,
    "intermediate_size": 9216,
    "kv_lora_rank": 512,
    "linear_attn_config": {
        "full_attn_layers": _KIMI_FULL,
        "head_dim": 128,
        "kda_layers": [one for one in range(1, 28) if one not in _KIMI_FULL],
        "num_heads": 32,
        "short_conv_kernel_size": 4,
    },
    "model_max_length": 1048576,
    "moe_intermediate_size": 1024,
    "num_attention_heads": 32,
    "num_experts": 256,
    "num_experts_per_token": 8,
    "num_hidden_layers": 27,
    "num_key_value_heads": 32,
    "num_shared_experts": 1,
    "qk_nope_head_dim": 128,
    "qk_rope_head_dim": 64,
    "v_head_dim": 128,
    "vocab_size": 163840,
}
RING_MINI_LINEAR = {
    "model_type": "bailing_moe_linear",
    "head_dim": 128,
    "hidden_size": 2048,
    "intermediate_size": 5120,
    "layer_group_size": 5,
    "moe_intermediate_size": 512,
    "num_attention_heads": 16,
    "num_experts": 256,
    "num_experts_per_tok": 8,
    "num_hidden_layers": 20,
    "num_key_value_heads": 4,
    "num_shared_experts": 1,
    "vocab_size": 157184,
}
# Names no size of values
MINICPM3_4B = {
    "model_type": "minicpm3",
    "hidden_size": 2560,
    "intermediate_size": 6400,
    "kv_lora_rank": 256,
    "num_attention_heads": 40,
    "num_hidden_layers": 62,
    "num_key_value_heads": 40,
    "qk_nope_head_dim": 64,
    "qk_rope_head_dim": 32,
    "vocab_size": 73448,
}
RWKV7_3B = {
    "model_type": "rwkv7",
    "decay_low_rank_dim": 96,
    "head_dim": 64,
    "hidden_size": 2560,
    "intermediate_size": 10240,
    "num_heads": 40,
    "num_hidden_layers": 32,
    "vocab_size": 65536,
}
RECURRENT_GEMMA_9B = {
    "model_type": "recurrent_gemma",
    "attention_window_size": 2048,
    "block_types": ["recurrent", "recurrent", "attention"],
    "conv1d_width": 4,
    "hidden_size": 4096,
    "intermediate_size": 24576,
    "lru_width": 4096,
    "num_attention_heads": 16,
    "num_hidden_layers": 38,
    "num_key_value_heads": 1,
    "vocab_size": 256000,
}
EXAONE_4_32B = {
    "model_type": "exaone4",
    "head_dim": 128,
    "hidden_size": 5120,
    "intermediate_size": 27392,
    "num_attention_heads": 40,
    "num_hidden_layers": 64,
    "num_key_value_heads": 8,
    "sliding_window": 4096,
    "sliding_window_pattern": "LLLG",
    "vocab_size": 102400,
}
OPENELM_270M = {
    "model_type": "openelm",
    "ffn_multipliers": [
        *(0.5, 0.73, 0.97, 1.2, 1.43, 1.67, 1.9, 2.13),
        *(2.37, 2.6, 2.83, 3.07, 3.3, 3.53, 3.77, 4.0),
    ],
    "head_dim": 64,
    "max_context_length": 2048,
    "model_dim": 1280,
    "num_kv_heads": [3] * 5 + [4] * 7 + [5] * 4,
    "num_query_heads": [12] * 5 + [16] * 7 + [20] * 4,
    "num_transformer_layers": 16,
    "vocab_size": 32000,
}
DBRX = {
    "model_type": "dbrx",
    "attn_config": {"clip_qkv": 8, "kv_n_heads": 8, "rope_theta": 500000},
    "d_model": 6144,
    "ffn_config": {"ffn_hidden_size": 10752, "moe_num_experts": 16, "moe_top_k": 4},
    "max_seq_len": 32768,
    "n_heads": 48,
    "n_layers": 40,
    "vocab_size": 100352,
}
MIMO_V2_FLASH = {
    "model_type": "mimo_v2_flash",
    "head_dim": 192,
    "hidden_size": 4096,
    "hybrid_layer_pattern": [0, 1, 1, 1, 1] + [0, 1, 1, 1, 1, 1] * 7 + [0],
    "intermediate_size": 16384,
    "moe_intermediate_size": 2048,
    "num_attention_heads": 64,
    "num_experts_per_tok": 8,
    "num_hidden_layers": 48,
    "num_key_value_heads": 4,
    "sliding_window_size": 128,
    "swa_head_dim": 192,
    "swa_num_key_value_heads": 8,
    "swa_v_head_dim": 128,
    "v_head_dim": 128,
    "vocab_size": 152576,
}
# Half of what it needs is left to its family.
GEMMA_3_4B = {
    "model_type": "gemma3",
    "text_config": {
        "model_type": "gemma3_text",
        "hidden_size": 2560,
        "intermediate_size": 10240,
        "num_hidden_layers": 34,
        "sliding_window": 1024,
    },
    "vision_config": {"hidden_size": 1152, "num_attention_heads": 16, "num_hidden_layers": 27},
}
GEMMA_3_12B = {
    "model_type": "gemma3",
    "text_config": {
        "model_type": "gemma3_text",
        "hidden_size": 3840,
        "intermediate_size": 15360,
        "num_attention_heads": 16,
        "num_hidden_layers": 48,
        "num_key_value_heads": 8,
        "sliding_window": 1024,
    },
}
# Layers with all tokens have other heads than those with a window.
GEMMA_4_31B = {
    "model_type": "gemma4",
    "text_config": {
        "model_type": "gemma4_text",
        "attention_k_eq_v": True,
        "global_head_dim": 512,
        "head_dim": 256,
        "hidden_size": 5376,
        "intermediate_size": 21504,
        "layer_types": [*["sliding_attention"] * 5, "full_attention"] * 10,
        "num_attention_heads": 32,
        "num_global_key_value_heads": 4,
        "num_hidden_layers": 60,
        "num_key_value_heads": 16,
        "num_kv_shared_layers": 0,
        "sliding_window": 1024,
        "use_double_wide_mlp": False,
        "vocab_size": 262144,
    },
}
# The last layers use what those before them keep.
GEMMA_4_E2B = {
    "model_type": "gemma4",
    "text_config": {
        "model_type": "gemma4_text",
        "global_head_dim": 512,
        "head_dim": 256,
        "hidden_size": 1536,
        "intermediate_size": 6144,
        "layer_types": [*["sliding_attention"] * 4, "full_attention"] * 7,
        "num_attention_heads": 8,
        "num_hidden_layers": 35,
        "num_key_value_heads": 1,
        "num_kv_shared_layers": 20,
        "sliding_window": 512,
        "use_double_wide_mlp": True,
        "vocab_size": 262144,
    },
}
PIXTRAL_12B = {
    "model_type": "pixtral",
    "text_config": {
        "model_type": "mistral",
        "head_dim": 128,
        "hidden_size": 5120,
        "intermediate_size": 14336,
        "num_hidden_layers": 40,
        "num_key_value_heads": 8,
        "vocab_size": 131072,
    },
}

UNCOMMON = {
    "deepseek-v3.2": Known(
        config=DEEPSEEK_V3_2,
        layers=(full(61, 512 + 64 + 2 * 128, 512),),
        head_size=192,
        token_kib=99.125,
    ),
    "longcat-flash": Known(
        config=LONGCAT_FLASH, layers=(full(2 * 28, 576, 512),), head_size=192, token_kib=63
    ),
    "kimi-linear": Known(
        config=KIMI_LINEAR_48B,
        layers=(
            full(7, 576, 512),
            StateLayers(count=20, row_elements=32 * 128 * 128 + 3 * 3 * 32 * 128),
        ),
        head_size=192,
        token_kib=7.875,
    ),
    "ring-mini-linear": Known(
        config=RING_MINI_LINEAR,
        layers=(full(4, 1024), StateLayers(count=16, row_elements=16 * 128 * 128)),
        head_size=128,
        token_kib=8,
    ),
    "minicpm3": Known(
        config=MINICPM3_4B,
        layers=(full(62, 40 * (96 + 64), 40 * 96),),
        head_size=96,
        token_kib=775,
    ),
    "rwkv7": Known(
        config=RWKV7_3B,
        layers=(StateLayers(count=32, row_elements=40 * 64 * 64 + 2 * 2560),),
        head_size=64,
        token_kib=0,
    ),
    "recurrent-gemma": Known(
        config=RECURRENT_GEMMA_9B,
        layers=(
            WindowLayers(count=12, token_elements=512, window=2048),
            StateLayers(count=26, row_elements=(3 + 1) * 4096),
        ),
        head_size=256,
        token_kib=0,
    ),
    "exaone4": Known(
        config=EXAONE_4_32B,
        layers=(full(16, 2048), WindowLayers(count=48, token_elements=2048, window=4096)),
        head_size=128,
        token_kib=64,
    ),
    "openelm": Known(
        config=OPENELM_270M,
        layers=(full(5, 384), full(7, 512), full(4, 640)),
        head_size=64,
        token_kib=15.75,
    ),
    "dbrx": Known(config=DBRX, layers=(full(40, 2048),), head_size=128, token_kib=160),
    "mimo-v2-flash": Known(
        config=MIMO_V2_FLASH,
        layers=(
            full(9, 4 * (192 + 128), 4 * 192),
            WindowLayers(count=39, token_elements=8 * (192 + 128), window=128),
        ),
        head_size=192,
        token_kib=22.5,
    ),
    "gemma3-4b": Known(
        config=GEMMA_3_4B,
        layers=(full(5, 2048), WindowLayers(count=29, token_elements=2048, window=1024)),
        head_size=256,
        token_kib=20,
    ),
    "gemma3-12b": Known(
        config=GEMMA_3_12B,
        layers=(full(8, 4096), WindowLayers(count=40, token_elements=4096, window=1024)),
        head_size=256,
        token_kib=64,
    ),
    "gemma4": Known(
        config=GEMMA_4_31B,
        layers=(
            full(10, 2 * 4 * 512),
            WindowLayers(count=50, token_elements=2 * 16 * 256, window=1024),
        ),
        head_size=512,
        token_kib=80,
    ),
    "gemma4-e2b": Known(
        config=GEMMA_4_E2B,
        layers=(full(3, 1024), WindowLayers(count=12, token_elements=512, window=512)),
        head_size=512,
        token_kib=6,
    ),
    "pixtral": Known(config=PIXTRAL_12B, layers=(full(40, 2048),), head_size=128, token_kib=160),
}
