"""A tiny config for every architecture of mlx-lm, by the names of its fields.

Most families call equal things alike, so that one list of sizes serves them; what a family has for
itself, and what it nests, is said of it alone. Those of tests/engine/sizing/tiny_configs.py are
taken from there.
"""

from __future__ import annotations

import dataclasses
import importlib
import pkgutil
from typing import Any

from mlx_lm import models

from tests.engine.sizing.tiny_configs import TINY

Config = dict[str, Any]

_VALUES: list[tuple[Any, tuple[str, ...]]] = [
    (
        256,
        (
            *("vocab_size", "num_vocab", "intermediate_size", "ffn_hidden_size", "n_inner"),
            *("intermediate_size_mlp", "ff_intermediate_size", "block_ff_dim", "mamba_d_ssm"),
        ),
    ),
    (
        128,
        (
            *("hidden_size", "hidden_dim", "d_model", "n_embd", "model_dim", "block_dim"),
            *("dim_model_base", "mamba_d_ssm"),
        ),
    ),
    (
        64,
        (
            *("moe_intermediate_size", "shared_expert_intermediate_size", "sliding_window"),
            *("shared_intermediate_size", "moe_shared_expert_intermediate_size", "index_topk"),
            *("expert_ffn_hidden_size", "sliding_window_size", "mamba_chunk_size"),
        ),
    ),
    (
        32,
        (
            *("head_dim", "kv_lora_rank", "q_lora_rank", "v_head_dim", "linear_key_head_dim"),
            *("linear_value_head_dim", "mamba_head_dim", "mamba_d_head", "index_head_dim"),
            *("query_pre_attn_scalar", "block_multiple_of", "qk_head_dim", "kv_channels"),
        ),
    ),
    (
        16,
        (
            *("qk_rope_head_dim", "qk_nope_head_dim", "rotary_dim", "state_size", "ssm_state_size"),
            *("mamba_d_state", "a_low_rank_dim", "v_low_rank_dim", "gate_low_rank_dim"),
            *("decay_low_rank_dim",),
        ),
    ),
    (8, ("time_step_rank", "mamba_dt_rank")),
    (
        4,
        (
            *("num_hidden_layers", "num_layers", "n_layers", "n_layer", "num_attention_heads"),
            *("n_heads", "n_head", "num_heads", "num_experts", "num_local_experts", "conv_kernel"),
            *("n_routed_experts", "moe_num_experts", "linear_num_value_heads", "mamba_num_heads"),
            *("linear_conv_kernel_dim", "mamba_d_conv", "mamba_n_heads", "max_window_layers"),
        ),
    ),
    (3, ("conv_L_cache",)),
    (
        2,
        (
            *(
                "num_key_value_heads",
                "num_kv_heads",
                "n_kv_heads",
                "num_experts_per_tok",
                "moe_topk",
            ),
            *("moe_k", "top_k_experts", "moe_router_topk", "linear_num_key_heads", "mamba_expand"),
            *("full_attention_interval", "sliding_window_pattern", "index_n_heads"),
            *("attn_layer_period", "expert_layer_period", "layer_group_size"),
        ),
    ),
    (
        1,
        (
            *("n_shared_experts", "num_shared_experts", "num_shared_expert", "zero_expert_num"),
            *(
                "first_k_dense_replace",
                "moe_layer_freq",
                "n_group",
                "topk_group",
                "group_norm_size",
            ),
            *("decoder_sparse_step", "num_dense_layers", "n_groups", "mamba_n_groups"),
            *("attn_layer_offset", "expert_layer_offset"),
        ),
    ),
    (
        1e-5,
        (
            *("rms_norm_eps", "norm_eps", "layer_norm_eps", "layernorm_epsilon", "norm_epsilon"),
            *("layer_norm_epsilon",),
        ),
    ),
    (1e4, ("rope_theta", "rotary_emb_base", "rope_local_base_freq")),
    (0.5, ("rotary_pct", "partial_rotary_factor", "attention_multiplier")),
    (
        1.0,
        (
            *("routed_scaling_factor", "embedding_multiplier", "logits_scaling"),
            *("residual_multiplier", "scale_emb", "scale_depth", "block_ffn_dim_multiplier"),
        ),
    ),
    (
        4096,
        (
            *("max_position_embeddings", "n_positions", "n_ctx", "block_size", "max_seq_len"),
            *("model_max_length", "context_length"),
        ),
    ),
    (True, ("use_conv_bias", "conv_bias", "norm_topk_prob", "use_expert_bias", "qk_norm")),
    (
        False,
        (
            *("attention_bias", "mlp_bias", "use_bias", "tie_word_embeddings", "use_qkv_bias"),
            *("mamba_proj_bias", "mamba_rms_norm", "block_auto_adjust_ff_dim", "post_norm"),
            *("use_qk_norm", "mamba_conv_bias"),
        ),
    ),
    ("sigmoid", ("scoring_func",)),
    ("noaux_tc", ("topk_method",)),
    ("silu", ("hidden_act",)),
    (None, ("rope_scaling",)),
]
SIZES: Config = {name: value for value, names in _VALUES for name in names}
SIZES["mlp_only_layers"] = []
_WINDOW_AND_ALL = ["sliding_attention", "full_attention"] * 2
_STATE_AND_ALL = ["conv", "full_attention"] * 2
_ROPE = {"rope_theta": 1e4, "rope_type": "default"}
_BOTH_ROPES = {"sliding_attention": _ROPE, "full_attention": _ROPE}
_LONG_ROPE = {
    "llama_4_scaling_beta": 0.1,
    "original_max_position_embeddings": 4096,
    **_ROPE,
}
_YARN = {"type": "yarn", "factor": 4.0, "original_max_position_embeddings": 1024}
_YARN |= {"beta_fast": 32, "beta_slow": 1, "mscale": 0.7, "mscale_all_dim": 0.7}
_ALPHA = {"type": "dynamic", "alpha": 1000.0, "factor": 1.0}
_SHARING = {
    "num_hidden_layers": 6,
    "num_kv_shared_layers": 2,
    "vocab_size_per_layer_input": 256,
    "hidden_size_per_layer_input": 32,
    "layer_types": ["sliding_attention", "full_attention"] * 3,
}
_GEMMA_3N = _SHARING | {
    "intermediate_size": [256] * 6,
    "final_logit_softcapping": 30.0,
    "activation_sparsity_pattern": [0.9, 0.9, 0.0, 0.0, 0.0, 0.0],
    "altup_num_inputs": 4,
    "altup_coef_clip": 120.0,
    "altup_correct_scale": True,
    "altup_active_idx": 0,
    "laurel_rank": 16,
}
_KIMI_STATES = {
    "linear_attn_config": TINY["kimi_linear"]["linear_attn_config"],
    "num_experts_per_token": 2,
    "num_key_value_heads": 4,
}
_SITU = {"hidden_act": "situ", "activation_situ_beta": 1.0, "model_type": "kimi_linear"}
_QWEN_3_5 = {"rope_parameters": _ROPE | {"partial_rotary_factor": 0.25}}
_LLAMA_4 = {
    "attention_chunk_size": 64,
    "interleave_moe_layer_step": 2,
    "num_experts_per_tok": 1,
    "use_qk_norm": True,
}

# Beside the sizes. "of": the family that the part about text is of, whose fields are its own.
_OWN: dict[str, Config] = {
    "afmoe": {"layer_types": _WINDOW_AND_ALL},
    "dbrx": {
        "ffn_config": {"ffn_hidden_size": 128, "moe_num_experts": 4, "moe_top_k": 2},
        "attn_config": {"kv_n_heads": 2, "clip_qkv": 8.0, "rope_theta": 1e4},
    },
    "deepseek_v2": {"rope_scaling": _YARN, "topk_method": "greedy", "scoring_func": "softmax"},
    "deepseek_v41": {
        "o_groups": 2,
        "o_lora_rank": 32,
        "compress_ratios": [0, 4, 4, 8],
        "kv_source_layer_ids": [1, 3],
        "index_source_layer_ids": [1, 3],
    },
    "exaone_moe": {
        "is_moe_layer": [False, True, True, True],
        "layer_types": _WINDOW_AND_ALL,
    },
    "gemma3": {"text_config": {"of": "gemma3_text"}},
    "gemma3n": {"text_config": {"of": "gemma3n.TextConfig", **_GEMMA_3N}},
    "gemma4": {"text_config": {"of": "gemma4_text", "global_head_dim": 64, **_SHARING}},
    "glm_moe_dsa": {"rope_parameters": _ROPE},
    "gpt2": {"num_key_value_heads": None},
    "gpt_bigcode": {"num_key_value_heads": None, "multi_query": True},
    "gpt_neox": {"num_key_value_heads": None},
    "gpt_oss": {"layer_types": _WINDOW_AND_ALL},
    "granitemoehybrid": {"layer_types": ["mamba", "attention"] * 2, "mamba_d_head": 64},
    "hunyuan": {
        "use_mixed_mlp_moe": True,
        "use_cla": True,
        "cla_share_factor": 2,
        "rope_scaling": _ALPHA,
    },
    "hunyuan_v1_dense": {"rope_scaling": _ALPHA},
    "kimi_k25": {"text_config": {"of": "deepseek_v3"}},
    "kimi_k3": {"text_config": {"of": "kimi_k3.TextArgs", **_KIMI_STATES, **_SITU}},
    "kimi_vl": {"text_config": {"of": "deepseek_v3"}},
    "laguna": {"layer_types": _WINDOW_AND_ALL},
    "lfm2": {"layer_types": _STATE_AND_ALL},
    "lfm2_moe": {"layer_types": _STATE_AND_ALL},
    "lfm2-vl": {"text_config": {"of": "lfm2", "layer_types": _STATE_AND_ALL}},
    "llama": {"layer_types": _WINDOW_AND_ALL},
    "llama4": {"text_config": {"of": "llama4.TextArgs", **_LLAMA_4}},
    "llama4_text": {"no_rope_layers": [1, 1, 1, 0], "architectures": ["Llama4ForCausalLM"]},
    "longcat_flash_ngram": {
        "mla_scale_q_lora": True,
        "mla_scale_kv_lora": True,
        "ngram_vocab_size_ratio": 2,
        "emb_neighbor_num": 2,
        "emb_split_num": 2,
    },
    "mamba2": {"time_step_limit": [0.0, 100.0], "num_heads": 8},
    "mellum": {"layer_types": _WINDOW_AND_ALL, "rope_parameters": _BOTH_ROPES},
    "ministral3": {"layer_types": _WINDOW_AND_ALL, "rope_parameters": _LONG_ROPE},
    "mistral3": {"text_config": {"of": "ministral3", "rope_parameters": _LONG_ROPE}},
    "mistral4": {"rope_parameters": _LONG_ROPE},
    "muse_glimmer": {"layer_types": _WINDOW_AND_ALL},
    "nemotron_h": {"hybrid_override_pattern": ["M", "*", "-", "E", "M", "*"]},
    "olmo3": {"layer_types": _WINDOW_AND_ALL},
    "olmo_hybrid": {
        "linear_allow_neg_eigval": True,
        "layer_types": ["linear_attention", "full_attention"] * 2,
    },
    "phi3small": {
        "dense_attention_every_n_layers": 2,
        "gegelu_limit": 20.0,
        "blocksparse_num_local_blocks": 4,
    },
    "pixtral": {"text_config": {"of": "llama"}},
    "qwen2_vl": {"text_config": {"of": "qwen2"}},
    "qwen3_5": {"text_config": {"of": "qwen3_5.TextModelArgs", "num_experts": 0, **_QWEN_3_5}},
    "qwen3_5_moe": {"text_config": {"of": "qwen3_5.TextModelArgs", **_QWEN_3_5}},
    "qwen3_vl": {"text_config": {"of": "qwen3"}},
    "qwen3_vl_moe": {"text_config": {"of": "qwen3_moe"}},
    "spark2_5": {"rope_parameters": _BOTH_ROPES, "hidden_act": "gelu"},
    "talkie": {"num_key_value_heads": None},
}


def family_names() -> list[str]:
    """Of mlx-lm's modules those that hold a model."""
    found = sorted(one.name for one in pkgutil.iter_modules(models.__path__))
    return [name for name in found if _has_model(name)]


def _has_model(name: str) -> bool:
    try:
        module = importlib.import_module(f"mlx_lm.models.{name}")
    except (ImportError, SystemExit):  # a package of its own is missing
        return False
    return hasattr(module, "Model") and hasattr(module, "ModelArgs")


def config_of(family: str) -> Config:
    if family in TINY:
        return TINY[family]
    own = dict(_OWN.get(family, {}))
    if part := own.get("text_config"):
        text = {name: value for name, value in part.items() if name != "of"}
        own["text_config"] = _sizes_of(part["of"]) | {"model_type": _type_of(part["of"])} | text
    return _sizes_of(family) | {"model_type": family} | own


def _sizes_of(family: str) -> Config:
    """Those that it knows."""
    module, _, kind = family.partition(".")
    arguments = getattr(importlib.import_module(f"mlx_lm.models.{module}"), kind or "ModelArgs")
    known = {field.name for field in dataclasses.fields(arguments)}
    return {name: value for name, value in SIZES.items() if name in known}


def _type_of(family: str) -> str:
    module, _, kind = family.partition(".")
    return f"{module}_text" if kind else module
