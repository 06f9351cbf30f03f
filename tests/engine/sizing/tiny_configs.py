"""Configs of tiny models of families whose caches differ most, all that mlx-lm asks of them."""

from __future__ import annotations

from typing import Any

_USUAL: dict[str, Any] = {
    "hidden_size": 64,
    "num_hidden_layers": 4,
    "intermediate_size": 64,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 16,
    "rms_norm_eps": 1e-6,
    "rope_theta": 10000.0,
    "max_position_embeddings": 4096,
    "vocab_size": 256,
    "tie_word_embeddings": False,
    "attention_bias": False,
}
_LATENT = _USUAL | {
    "kv_lora_rank": 32,
    "q_lora_rank": 32,
    "qk_nope_head_dim": 16,
    "qk_rope_head_dim": 8,
    "v_head_dim": 12,
}
_EXPERTS = {
    "moe_intermediate_size": 32,
    "num_experts": 4,
    "num_experts_per_tok": 2,
    "n_group": 1,
    "topk_group": 1,
    "first_k_dense_replace": 1,
}
_BAILING = _EXPERTS | {"layer_group_size": 2, "group_norm_size": 1, "num_shared_experts": 1}
_NEMOTRON_BLOCK = {"attention": {"n_heads_in_group": 2}, "ffn": {"ffn_mult": 2.0}}
_WINDOW_AND_ALL = ["sliding_attention", "full_attention"]

TINY: dict[str, dict[str, Any]] = {
    "afm7": {
        "hidden_dim": 64,
        "num_layers": 4,
        "num_kv_reuse_layers": 1,
        "num_heads": 4,
        "num_kv_heads": 2,
        "vocab_size": 256,
    },
    "baichuan_m1": _USUAL
    | {
        "sliding_window": 64,
        "sliding_window_layers": [0, 2],
        "conv_window": 2,
        "num_swa_attention_heads": 4,
        "num_swa_key_value_heads": 4,
    },
    "bailing_hybrid": _LATENT | _BAILING | {"num_hidden_layers": 5, "routed_scaling_factor": 1.0},
    "bailing_moe_v3": _LATENT | _BAILING | {"num_hidden_layers": 5, "short_conv_kernel_size": 4},
    "bailing_moe_linear": _USUAL | _BAILING | {"norm_topk_prob": True},
    "deepseek_v32": _LATENT
    | _EXPERTS
    | {"n_routed_experts": 4, "n_shared_experts": 1}
    | {"index_head_dim": 16, "index_n_heads": 2, "index_topk": 64},
    "exaone4": _USUAL
    | {"sliding_window": 64, "sliding_window_pattern": "LLG", "rope_scaling": None},
    "gear": _USUAL
    | {
        "num_key_value_heads": 1,
        "layer_types": ["conv_mixer", *_WINDOW_AND_ALL, "conv_mixer"],
        "sliding_window": 64,
        "conv_L_cache": 3,
    },
    "gemma4_text": _USUAL
    | {
        "num_hidden_layers": 6,
        "global_head_dim": 32,
        "attention_k_eq_v": True,
        "num_global_key_value_heads": 1,
        "num_kv_shared_layers": 2,
        "vocab_size_per_layer_input": 256,
        "hidden_size_per_layer_input": 16,
        "sliding_window": 64,
        "layer_types": _WINDOW_AND_ALL * 3,
    },
    "iquestloopcoder": _USUAL | {"loop_num": 2, "loop_window_size": 64},
    "kimi_linear": _LATENT
    | {
        "num_experts": 4,
        "moe_intermediate_size": 32,
        "model_max_length": 4096,
        "linear_attn_config": {
            "kda_layers": [1, 3],
            "full_attn_layers": [2, 4],
            "num_heads": 4,
            "head_dim": 16,
            "short_conv_kernel_size": 4,
        },
    },
    "longcat_flash": _LATENT
    | {
        "attention_method": "MLA",
        "ffn_hidden_size": 64,
        "expert_ffn_hidden_size": 32,
        "moe_topk": 2,
        "n_routed_experts": 4,
        "zero_expert_num": 1,
        "zero_expert_type": "identity",
        "num_hidden_layers": None,
        "num_layers": 2,
        "routed_scaling_factor": 1.0,
        "mla_scale_q_lora": True,
        "mla_scale_kv_lora": True,
    },
    "mimo_v2_flash": _USUAL
    | _EXPERTS
    | {
        "hybrid_layer_pattern": [0, 1, 1, 0],
        "moe_layer_freq": [0, 0, 0, 1],
        "n_routed_experts": 4,
        "n_shared_experts": 1,
        "routed_scaling_factor": 1.0,
        "topk_method": "noaux_tc",
        "scoring_func": "sigmoid",
        "norm_topk_prob": True,
        "layernorm_epsilon": 1e-6,
        "partial_rotary_factor": 0.5,
        "add_swa_attention_sink_bias": True,
        "add_full_attention_sink_bias": False,
        "sliding_window_size": 64,
        "swa_rope_theta": 1e4,
        "swa_num_attention_heads": 4,
        "swa_num_key_value_heads": 4,
        "swa_head_dim": 16,
        "swa_v_head_dim": 12,
        "v_head_dim": 8,
    },
    "minicpm3": _LATENT
    | {
        "num_key_value_heads": 4,
        "dim_model_base": 64,
        "scale_depth": 1.4,
        "scale_emb": 1.0,
        "v_head_dim": None,
        "rope_scaling": {
            "type": "longrope",
            "original_max_position_embeddings": 4096,
            "short_factor": [1.0] * 4,
            "long_factor": [1.0] * 4,
        },
    },
    "minimax_m3_vl": {
        "text_config": _USUAL
        | {
            "num_local_experts": 4,
            "num_experts_per_tok": 2,
            "dense_intermediate_size": 64,
            "shared_intermediate_size": 32,
            "rotary_dim": 8,
            "sparse_attention_config": {
                "sparse_num_index_heads": 2,
                "sparse_index_dim": 16,
                "sparse_block_size": 16,
                "sparse_topk_blocks": 4,
                "sparse_attention_freq": [0, 1, 1, 1],
            },
        }
    },
    "nanbeige": _USUAL | {"num_hidden_layers": 2, "num_loops": 3},
    "nemotron-nas": _USUAL
    | {"block_configs": [_NEMOTRON_BLOCK, {**_NEMOTRON_BLOCK, "attention": {"no_op": True}}] * 2},
    "openelm": {
        "head_dim": 16,
        "num_transformer_layers": 3,
        "model_dim": 64,
        "vocab_size": 256,
        "ffn_dim_divisor": 16,
        "num_query_heads": [4, 4, 4],
        "num_kv_heads": [1, 2, 4],
        "ffn_multipliers": [1.0, 1.5, 2.0],
    },
    "plamo": _USUAL | {"num_key_value_heads": None, "head_dim": None, "n_shared_head": 2},
    "plamo2": _USUAL
    | {
        "hidden_size_per_head": 16,
        "mamba_d_state": 16,
        "mamba_d_conv": 4,
        "mamba_num_heads": 4,
        "mamba_step": 2,
    },
    "recurrent_gemma": _USUAL
    | {
        "num_key_value_heads": 1,
        "conv1d_width": 4,
        "logits_soft_cap": 30.0,
        "attention_window_size": 64,
        "block_types": ["recurrent", "recurrent", "attention"],
    },
    "rwkv7": _USUAL
    | {
        "norm_eps": 1e-5,
        "a_low_rank_dim": 8,
        "v_low_rank_dim": 8,
        "gate_low_rank_dim": 8,
        "decay_low_rank_dim": 8,
    },
    "step3p5": _USUAL
    | {
        "num_attention_groups": 2,
        "moe_num_experts": 4,
        "moe_top_k": 2,
        "moe_intermediate_size": 32,
        "share_expert_dim": 32,
        "attention_other_setting": {"num_attention_heads": 8, "num_attention_groups": 4},
        "sliding_window": 64,
        "layer_types": _WINDOW_AND_ALL * 3,
    },
}
TINY = {family: config | {"model_type": family} for family, config in TINY.items()}


def with_vocabulary(config: dict[str, Any], size: int) -> dict[str, Any]:
    """The same with so many tokens, wherever it says how many."""
    return {
        name: with_vocabulary(value, size)
        if isinstance(value, dict)
        else size
        if "vocab" in name
        else value
        for name, value in config.items()
    }
