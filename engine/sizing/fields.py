"""A model's sizes in config.json, by whatever names its family gives them."""

from __future__ import annotations

from typing import Any

Config = dict[str, Any]

_HEADS = ("num_attention_heads", "n_head", "n_heads", "num_query_heads")
_DENSE = (
    *("intermediate_size", "ffn_hidden_size", "ff_intermediate_size", "n_inner", "ffn_dim"),
    *("block_ff_dim",),
)
_ACTIVE_EXPERTS = (
    *("num_experts_per_tok", "num_experts_per_token", "moe_topk", "moe_top_k", "moe_k"),
    *("top_k_experts",),
)
_EXPERT = ("moe_intermediate_size", "expert_ffn_hidden_size")
_SHARED_EXPERTS = ("n_shared_experts", "num_shared_experts", "num_shared_expert")
_SHARED = (
    *("shared_expert_intermediate_size", "moe_shared_expert_intermediate_size"),
    *("shared_intermediate_size", "share_expert_dim"),
)


def number(config: Config, *names: str) -> int:
    """The first that says something, of a list of layers the largest; 0 for none."""
    for name in names:
        value = config.get(name)
        if isinstance(value, list):
            value = max(value, default=0)
        if value:
            return int(value)
    return 0


def required(config: Config, *names: str) -> int:
    """Raises LookupError."""
    if (found := number(config, *names)) <= 0:
        raise LookupError(f"it has no {names[0]}")
    return found


def part(config: Config, name: str) -> Config:
    """A part of the config that not all families have."""
    found = config.get(name)
    return found if isinstance(found, dict) else {}


def hidden_size(text: Config) -> int:
    return required(text, "hidden_size", "n_embd", "d_model", "dim", "model_dim", "hidden_dim")


def num_layers(text: Config) -> int:
    pattern = text.get("hybrid_override_pattern") or text.get("layers_block_type")
    if pattern:
        return len(pattern)
    names = ("num_hidden_layers", "n_layer", "n_layers", "num_layers", "num_transformer_layers")
    return required(text, *names)


def attention_heads(text: Config) -> int:
    """0 for a model without attention: there `num_heads` are its states'."""
    if "decay_low_rank_dim" in text:
        return 0
    return number(text, *_HEADS) or (0 if "state_size" in text else number(text, "num_heads"))


def most_query_heads(text: Config) -> int:
    """Of the layer that has most."""
    names = ("num_attention_heads_per_layer", "swa_num_attention_heads", "num_swa_attention_heads")
    windowed = number(part(text, "attention_other_setting"), "num_attention_heads")
    return max(attention_heads(text), windowed, *(number(text, name) for name in names))


def head_size(text: Config) -> int:
    """Of queries and keys; 0 for a model without attention."""
    size, heads = number(text, "head_dim", "hidden_size_per_head"), attention_heads(text)
    if not size and heads:
        size = hidden_size(text) // heads
    if latent := number(text, "qk_nope_head_dim"):
        return latent + number(text, "qk_rope_head_dim")
    return max(size, number(text, "global_head_dim"))


def mlp_size(text: Config) -> int:
    """What one token's MLP is wide, all active experts together."""
    active, dense = number(text, *_ACTIVE_EXPERTS), _dense_size(text)
    expert = number(text, *_EXPERT) or (dense if active else 0)
    shared = number(text, *_SHARED) + number(text, *_SHARED_EXPERTS) * expert
    return max(dense, active * expert + shared)


def _dense_size(text: Config) -> int:
    if size := number(text, *_DENSE):
        is_doubled = text.get("use_double_wide_mlp") and text.get("num_kv_shared_layers")
        others = number(text, "intermediate_size_mlp", "dense_intermediate_size")
        return max(2 * size if is_doubled else size, others)
    hidden = hidden_size(text)
    experts = part(text, "ffn_config")
    if size := number(experts, "ffn_hidden_size"):
        return size * (number(experts, "moe_top_k") or 1)
    factors = text.get("ffn_multipliers") or [text.get("hidden_dim_scale_factor") or 4]
    return int(hidden * max(factors))
