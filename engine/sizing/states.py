"""What a recurrent layer keeps of one row: of any length the same."""

from __future__ import annotations

from collections.abc import Callable

from engine.sizing.fields import Config, attention_heads, head_size, hidden_size, number, part


def row_elements(text: Config) -> int:
    """In one layer; 0 where it is unknown."""
    for field, elements in _BY_FIELD.items():
        if text.get(field):
            try:
                return elements(text)
            except KeyError:  # a field is missing: a family of another kind
                return 0
    return 0


def _gated_delta(text: Config) -> int:
    values, keys = int(text["linear_num_value_heads"]), int(text["linear_num_key_heads"])
    value_size, key_size = int(text["linear_value_head_dim"]), int(text["linear_key_head_dim"])
    convolved = 2 * keys * key_size + values * value_size
    return convolved * (int(text["linear_conv_kernel_dim"]) - 1) + values * value_size * key_size


def _kimi_delta(text: Config) -> int:
    config = part(text, "linear_attn_config")
    heads, size = int(config["num_heads"]), int(config["head_dim"])
    return heads * size * (size + 3 * (_kernel(config, "short_conv_kernel_size") - 1))


def _bailing(text: Config) -> int:
    heads = attention_heads(text)
    size = number(text, "head_dim") or hidden_size(text) // heads
    kept = number(text, "short_conv_kernel_size") or 1
    return heads * size * (size + 3 * (kept - 1))


def _rwkv(text: Config) -> int:
    return hidden_size(text) * (int(text["head_dim"]) + 2)


def _short_convolution(text: Config) -> int:
    convolved = hidden_size(text)
    if text.get("model_type") == "gear":  # keys and values
        convolved = 2 * int(text["num_key_value_heads"]) * head_size(text)
    return convolved * (int(text["conv_L_cache"]) - 1)


def _last_keys_and_values(text: Config) -> int:
    heads = number(text, "num_swa_key_value_heads", "num_key_value_heads")
    return 2 * max(heads, number(text, "num_key_value_heads")) * head_size(text)


def _mamba_of_hybrids(text: Config) -> int:
    size, groups = int(text["mamba_d_state"]), number(text, "mamba_n_groups")
    inner = number(text, "mamba_d_ssm")
    inner = inner or number(text, "mamba_n_heads") * number(text, "mamba_d_head")
    inner = inner or number(text, "mamba_num_heads") * number(text, "hidden_size_per_head")
    inner = inner or hidden_size(text) * (number(text, "mamba_expand") or 2)
    return inner * size + (inner + 2 * groups * size) * (_kernel(text, "mamba_d_conv") - 1)


def _nemotron(text: Config) -> int:
    size, kept = int(text["ssm_state_size"]), int(text["conv_kernel"]) - 1
    inner = int(text["mamba_num_heads"]) * int(text["mamba_head_dim"])
    return inner * size + (inner + 2 * int(text["n_groups"]) * size) * kept


def _recurrent_gemma(text: Config) -> int:
    return (number(text, "lru_width") or hidden_size(text)) * int(text["conv1d_width"])


def _mamba(text: Config) -> int:
    size, kept = int(text["state_size"]), int(text["conv_kernel"]) - 1
    if "n_groups" in text:  # mamba2
        inner = int(text["num_heads"]) * int(text["head_dim"])
        return inner * size + (inner + 2 * int(text["n_groups"]) * size) * kept
    inner = number(text, "intermediate_size")
    inner = inner or hidden_size(text) * (number(text, "expand") or 2)
    return inner * (size + kept)


def _kernel(config: Config, name: str) -> int:
    return number(config, name) or 4


# By the field that tells them; the first counts.
_BY_FIELD: dict[str, Callable[[Config], int]] = {
    "linear_num_value_heads": _gated_delta,
    "linear_attn_config": _kimi_delta,
    "layer_group_size": _bailing,
    "decay_low_rank_dim": _rwkv,
    "conv_L_cache": _short_convolution,
    "conv_window": _last_keys_and_values,
    "mamba_d_state": _mamba_of_hybrids,
    "mamba_num_heads": _nemotron,
    "conv1d_width": _recurrent_gemma,
    "state_size": _mamba,
}
