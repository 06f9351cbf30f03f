"""Which layers of a family keep what, as mlx-lm 0.32.2 makes their caches.

An unknown family counts as plain attention: its rows need at most that.
"""

from __future__ import annotations

from typing import Any

from engine.sizing.layers import FullLayers, Layers, StateLayers, WindowLayers

Config = dict[str, Any]

# What lists of layer types call attention over a window, over everything, and states.
_WINDOWED = {"sliding_attention", "chunked_attention", "local_attention"}
_FULL = {"full_attention", "attention", "global_attention", "*"}
_STATES = {"linear_attention", "mamba", "recurrent", "conv", "M"}
# Families with sliding_window in their config whose caches mlx-lm keeps whole.
_WINDOW_FAMILIES = {
    *("gemma3", "gemma3_text", "gemma3n", "gemma3n_text", "gemma4", "gemma4_text", "gpt_oss"),
    *("cohere2", "exaone4", "olmo3", "llama4", "llama4_text", "mimo_v2_flash", "afmoe", "afm7"),
    *("step3p5", "ministral3", "llama"),
}
_LATENT_FAMILIES = {
    *("deepseek_v3", "deepseek_v32", "kimi_k2", "glm4_moe_lite", "glm_moe_dsa", "longcat_flash"),
}
# Whose scores are arrays of their own, all heads', queries and keys' at once.
_OWN_ATTENTION_FAMILIES = {"gemma2", "olmo", "plamo2", "deepseek_v41"}


def has_own_attention(text: Config) -> bool:
    """Of latents, a part of the scores is added as a mask."""
    return bool(text.get("kv_lora_rank")) or text.get("model_type") in _OWN_ATTENTION_FAMILIES


def head_size(text: Config, *, hidden: int, heads: int) -> int:
    """Of queries and keys; 0 for a model without attention."""
    if "qk_nope_head_dim" in text:
        return int(text["qk_nope_head_dim"]) + int(text.get("qk_rope_head_dim") or 0)
    return int(text.get("head_dim") or (hidden // heads if heads else 0))


def cached_layers(text: Config, *, hidden: int, heads: int, num_layers: int) -> tuple[Layers, ...]:
    """Groups of layers; those that keep nothing are left out. Raises LookupError."""
    keys_and_values = _token_elements(text, hidden=hidden, heads=heads)
    token_elements, larger_elements = sum(keys_and_values), max(keys_and_values)
    kinds = _kinds(text, num_layers, has_attention=heads > 0)
    num_full = sum(kind in _FULL for kind in kinds)
    num_windowed = sum(kind in _WINDOWED for kind in kinds)
    num_states = sum(kind in _STATES for kind in kinds)
    found: list[Layers] = []
    if num_full:
        found.append(
            FullLayers(
                count=num_full, token_elements=token_elements, larger_elements=larger_elements
            )
        )
    if num_windowed:
        window = int(text.get("sliding_window") or text["attention_chunk_size"])
        found.append(WindowLayers(count=num_windowed, token_elements=token_elements, window=window))
    if num_states:
        elements = _state_elements(text, hidden)
        found.append(StateLayers(count=num_states, row_elements=elements))
    return tuple(found)


def _token_elements(text: Config, *, hidden: int, heads: int) -> tuple[int, int]:
    """Keys and values of one token in one layer."""
    if text.get("kv_lora_rank"):
        return _latent_elements(text, heads)
    if text.get("multi_query"):
        kv_heads = 1
    else:
        kv_heads = text.get("num_key_value_heads") or text.get("num_kv_heads") or heads
    if isinstance(kv_heads, list):
        kv_heads = max(kv_heads)
    elements = int(kv_heads) * head_size(text, hidden=hidden, heads=heads)
    return elements, elements


def _latent_elements(text: Config, heads: int) -> tuple[int, int]:
    """Multi-head latent attention: most families keep the latent, some the heads made of it."""
    rope = int(text["qk_rope_head_dim"])
    if text.get("model_type") in _LATENT_FAMILIES:
        return int(text["kv_lora_rank"]), rope
    return heads * (int(text["qk_nope_head_dim"]) + rope), heads * int(text["v_head_dim"])


def _kinds(text: Config, num_layers: int, *, has_attention: bool) -> list[str]:
    if pattern := text.get("hybrid_override_pattern"):  # "M-M*-": states, MLPs, attention
        return list(pattern)
    kinds = text.get("layer_types") or text.get("layers_block_type") or text.get("block_types")
    if kinds and len(kinds) == num_layers:
        return _as_kept(text, list(kinds))
    if text.get("model_type") == "falcon_h1":  # both in every layer
        return ["full_attention", "mamba"] * num_layers
    return [_kind(text, number, has_attention) for number in range(num_layers)]


def _as_kept(text: Config, kinds: list[str]) -> list[str]:
    if text.get("model_type") in _WINDOW_FAMILIES:
        return kinds
    return ["full_attention" if kind in _WINDOWED else kind for kind in kinds]


def _kind(text: Config, number: int, has_attention: bool) -> str:
    """Of layer `number`, where the config gives a rule and not a list."""
    if not has_attention:
        return "mamba"
    if every := text.get("full_attention_interval"):
        return "full_attention" if (number + 1) % every == 0 else "linear_attention"
    if every := text.get("attn_layer_period"):
        is_attention = number % every == int(text.get("attn_layer_offset") or 0)
        return "full_attention" if is_attention else "mamba"
    if full_layers := text.get("full_attn_idxs"):
        return "full_attention" if number in full_layers else "conv"
    return _kind_by_window(text, number)


def _kind_by_window(text: Config, number: int) -> str:
    if text.get("model_type") not in _WINDOW_FAMILIES:
        return "full_attention"
    if text.get("attention_chunk_size"):
        return "full_attention" if (number + 1) % 4 == 0 else "chunked_attention"
    every = text.get("sliding_window_pattern")
    if not text.get("sliding_window") or not isinstance(every, int):
        return "full_attention"
    return "full_attention" if number % every == every - 1 else "sliding_attention"


def _state_elements(text: Config, hidden: int) -> int:
    """One row's state in one recurrent layer. Raises KeyError where the family is unknown."""
    if "linear_num_value_heads" in text:
        return _gated_delta_elements(text)
    if "conv_L_cache" in text:
        return hidden * (int(text["conv_L_cache"]) - 1)
    if "mamba_d_state" in text:
        inner = int(text.get("mamba_d_ssm") or hidden * int(text.get("mamba_expand") or 2))
        groups = 2 * int(text.get("mamba_n_groups") or 0) * int(text["mamba_d_state"])
        kept = int(text.get("mamba_d_conv") or 4) - 1
        return inner * int(text["mamba_d_state"]) + (inner + groups) * kept
    if "mamba_num_heads" in text:
        inner = int(text["mamba_num_heads"]) * int(text["mamba_head_dim"])
        size = int(text["ssm_state_size"])
        groups = 2 * int(text["n_groups"]) * size
        return inner * size + (inner + groups) * (int(text["conv_kernel"]) - 1)
    if "lru_width" in text:
        return int(text["lru_width"]) * int(text.get("conv1d_width") or 4)
    return _mamba_elements(text, hidden)


def _gated_delta_elements(text: Config) -> int:
    values, keys = int(text["linear_num_value_heads"]), int(text["linear_num_key_heads"])
    value_size, key_size = int(text["linear_value_head_dim"]), int(text["linear_key_head_dim"])
    convolved = 2 * keys * key_size + values * value_size
    return convolved * (int(text["linear_conv_kernel_dim"]) - 1) + values * value_size * key_size


def _mamba_elements(text: Config, hidden: int) -> int:
    size = int(text["state_size"])
    inner = int(text.get("intermediate_size") or hidden * int(text.get("expand") or 2))
    kept = int(text["conv_kernel"]) - 1
    if "n_groups" in text:  # mamba2
        inner = int(text["num_heads"]) * int(text["head_dim"])
        return inner * size + (inner + 2 * int(text["n_groups"]) * size) * kept
    return inner * (size + kept)
