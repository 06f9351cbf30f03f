"""What the caches of a family keep, as mlx-lm 0.32.2 makes them.

An unknown family counts as plain attention: its rows need at most that.
"""

from __future__ import annotations

import collections
import dataclasses

from engine.sizing import states
from engine.sizing.fields import Config, attention_heads, head_size, hidden_size, number, part
from engine.sizing.layer_kinds import Kind, compress_ratios, layer_kinds, window_tokens
from engine.sizing.layers import FullLayers, Layers, StateLayers, WindowLayers

# Of multi-head latent attention these keep the latent, others the heads made of it.
LATENT_FAMILIES = {
    *("bailing_hybrid", "bailing_moe_v3", "deepseek_v3", "deepseek_v32", "glm4_moe_lite"),
    *("glm_moe_dsa", "joyai_llm_flash", "kimi_k2", "kimi_k3", "kimi_linear", "longcat_flash"),
    *("kimi_k25", "kimi_vl", "longcat_flash_ngram", "mistral4"),
}
# Whose scores are arrays of their own, all heads', queries and keys' at once.
_OWN_ATTENTION_FAMILIES = {"gemma2", "olmo", "plamo2", "deepseek_v41", "deepseek_v41_text"}
_KV_HEADS = ("num_key_value_heads", "num_kv_heads", "n_kv_heads", "num_attention_groups")
_ORDER = (FullLayers, WindowLayers, StateLayers)


def has_own_attention(text: Config) -> bool:
    """Of latents, a part of the scores is added as a mask."""
    return bool(text.get("kv_lora_rank")) or text.get("model_type") in _OWN_ATTENTION_FAMILIES


def cached_layers(text: Config) -> tuple[Layers, ...]:
    """Groups of equal layers; those that keep nothing are left out. Raises LookupError."""
    counts = collections.Counter(
        _layer(text, index, kind) for index, kinds in enumerate(layer_kinds(text)) for kind in kinds
    )
    grouped = (dataclasses.replace(one, count=count) for one, count in counts.items())
    return tuple(sorted(grouped, key=lambda one: _ORDER.index(type(one))))


def _layer(text: Config, index: int, kind: Kind) -> Layers:
    if kind is Kind.STATE:
        return StateLayers(count=1, row_elements=states.row_elements(text))
    keys, values = _token_elements(text, index, kind)
    if kind is Kind.WINDOW:
        window = window_tokens(text)
        return WindowLayers(count=1, token_elements=keys + values, window=window)
    elements = keys + values + _searched_elements(text, index)
    return FullLayers(count=1, token_elements=elements, larger_elements=max(keys, values))


def _token_elements(text: Config, index: int, kind: Kind) -> tuple[int, int]:
    """Keys and values of one token in layer `index`."""
    if ratios := compress_ratios(text):
        # Keys that are values as well: all of the window, and one of so many tokens.
        return -(-head_size(text) // (int(ratios[index]) if kind is Kind.FULL else 1)), 0
    return _latent_elements(text) or _head_elements(text, index, kind)


def _latent_elements(text: Config) -> tuple[int, int] | None:
    if not (rank := number(text, "kv_lora_rank")):
        return None
    if text.get("model_type") in LATENT_FAMILIES:
        return rank, number(text, "qk_rope_head_dim")
    heads = attention_heads(text)
    value_size = number(text, "v_head_dim") or hidden_size(text) // heads
    return heads * head_size(text), heads * value_size


def _searched_elements(text: Config, index: int) -> int:
    """The keys by which sparse attention finds the tokens that it attends to."""
    config = part(text, "sparse_attention_config")
    size = number(text, "index_head_dim") or number(config, "sparse_index_dim")
    if ratios := compress_ratios(text):
        return -(-size // int(ratios[index]))
    if text.get("kv_lora_rank"):
        return 2 * size  # as values, too
    is_sparse = config.get("sparse_attention_freq")
    return size if is_sparse is None or is_sparse[index] else 0


def _head_elements(text: Config, index: int, kind: Kind) -> tuple[int, int]:
    heads = _kv_heads(text, index, kind)
    key_size, value_size = _windowed_sizes(text) if kind is Kind.WINDOW else _full_sizes(text)
    return heads * key_size, heads * value_size


def _kv_heads(text: Config, index: int, kind: Kind) -> int:
    found = 0
    if kind is Kind.WINDOW:
        found = number(text, "swa_num_key_value_heads", "num_swa_key_value_heads")
        found = found or number(part(text, "attention_other_setting"), "num_attention_groups")
    elif text.get("attention_k_eq_v"):
        found = number(text, "num_global_key_value_heads")
    return found or _usual_kv_heads(text, index)


def _usual_kv_heads(text: Config, index: int) -> int:
    heads = attention_heads(text)
    if blocks := text.get("block_configs"):
        return heads // int(blocks[index]["attention"]["n_heads_in_group"])
    for name in _KV_HEADS:
        if found := text.get(name):
            return int(found[index] if isinstance(found, list) else found)
    if text.get("multi_query"):
        return 1
    group = number(text, "n_shared_head") or 1
    return number(part(text, "attn_config"), "kv_n_heads") or heads // group


def _windowed_sizes(text: Config) -> tuple[int, int]:
    size = number(text, "swa_head_dim", "head_dim")
    if not size:
        heads = number(text, "num_swa_attention_heads") or attention_heads(text)
        size = hidden_size(text) // heads
    return size, number(text, "swa_v_head_dim", "v_head_dim") or size


def _full_sizes(text: Config) -> tuple[int, int]:
    size = head_size(text)
    return size, number(text, "v_head_dim") or size
