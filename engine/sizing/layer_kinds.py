"""Which layers of a family keep keys and values, of all tokens or a window, and which a state: as
mlx-lm 0.32.2 makes their caches.

What is unknown counts as plain attention, which needs most for a long row.
"""

from __future__ import annotations

import enum

from engine.sizing import states
from engine.sizing.fields import Config, attention_heads, num_layers, number, part


class Kind(enum.Enum):
    FULL = enum.auto()
    WINDOW = enum.auto()
    STATE = enum.auto()


Kinds = tuple[Kind, ...]  # of one layer: mostly one, of an MLP none

_FULL, _WINDOW, _STATE, _NOTHING = "full_attention", "sliding_attention", "mamba", "mlp"
_WINDOW_NAMES = {_WINDOW, "chunked_attention", "local_attention", "L"}
_STATE_NAMES = {_STATE, "linear_attention", "recurrent", "conv", "conv_mixer", "M"}
_NOTHING_NAMES = {_NOTHING, "moe", "-", "E"}
_LISTS = (
    "hybrid_override_pattern",
    "layer_types",
    "layers_block_type",
    "block_types",
    "_block_types",
)
# Whose caches keep the window that their config names, and no more. Others' keep everything.
WINDOW_FAMILIES = {
    *("afmoe", "baichuan_m1", "cohere2", "deepseek_v41", "deepseek_v41_text", "exaone4"),
    *("exaone_moe", "gear", "gemma3", "gemma3_text", "gemma3n", "gemma3n_text", "gemma4"),
    *("gemma4_text", "gemma4_unified", "gpt_oss", "iquestloopcoder", "laguna", "llama", "llama4"),
    *("llama4_text", "mellum", "mimo_v2_flash", "ministral3", "muse_glimmer", "muse_spark"),
    *("muse_spark_text", "olmo3", "plamo3", "recurrent_gemma", "spark2_5", "step3p5"),
}
_COMPRESSING = {"deepseek_v41", "deepseek_v41_text"}
_WINDOW_SIZES = (
    *("loop_window_size", "sliding_window", "sliding_window_size", "window_size"),
    *("attention_window_size", "attention_chunk_size"),
)
# What every layer keeps besides its own.
_BESIDES: dict[str, Kinds] = {
    "baichuan_m1": (Kind.STATE,),
    "falcon_h1": (Kind.STATE,),
    "iquestloopcoder": (Kind.WINDOW,),
    "longcat_flash": (Kind.FULL,),
    "longcat_flash_ngram": (Kind.FULL,),
}


def layer_kinds(text: Config) -> list[Kinds]:
    """Of each layer that has a cache. Raises LookupError."""
    count = num_layers(text)
    if compress_ratios(text):
        sources = text.get("kv_source_layer_ids") or ()
        return [(Kind.WINDOW, Kind.FULL)[: 1 + (index in sources)] for index in range(count)]
    names = _listed(text) or [_by_rule(text, index, count) for index in range(count)]
    num_cached = count - number(text, "num_kv_shared_layers", "num_kv_reuse_layers")
    cached = [_kinds(text, names[index % len(names)]) for index in range(num_cached)]
    num_loops = len(text.get("loop_loss_weights") or ()) + 1
    return cached * max(num_loops, number(text, "num_loops"))


def window_tokens(text: Config) -> int:
    """0: no layer keeps a window."""
    is_bare_llama4 = text.get("architectures") == ["Llama4ForCausalLM"]  # keeps everything
    if is_bare_llama4 or text.get("model_type") not in WINDOW_FAMILIES:
        return 0
    return number(text, *_WINDOW_SIZES)


def compress_ratios(text: Config) -> list[int]:
    """Of each layer, how many tokens become one; empty: caches keep each."""
    return text.get("compress_ratios") or [] if text.get("model_type") in _COMPRESSING else []


def _kinds(text: Config, name: str) -> Kinds:
    if name in _NOTHING_NAMES:
        return ()
    wanted = (_kind(text, name), *_BESIDES.get(str(text.get("model_type")), ()))
    return tuple(kind if _is_known(text, kind) else Kind.FULL for kind in wanted)


def _kind(text: Config, name: str) -> Kind:
    if name in _STATE_NAMES:
        return Kind.STATE
    all_windows = text.get("model_type") == "recurrent_gemma"
    return Kind.WINDOW if name in _WINDOW_NAMES or all_windows else Kind.FULL


def _is_known(text: Config, kind: Kind) -> bool:
    if kind is Kind.STATE:
        return states.row_elements(text) > 0
    return kind is Kind.FULL or window_tokens(text) > 0


def _listed(text: Config) -> list[str]:
    """What the config names one by one, from the first layer on; a short list repeats."""
    for field in _LISTS:
        if kinds := text.get(field):
            return list(kinds)
    if isinstance(pattern := text.get("sliding_window_pattern"), str):  # "LLLG"
        return list(pattern)
    if pattern := text.get("hybrid_layer_pattern"):
        return [_WINDOW if is_window else _FULL for is_window in pattern]
    return [_of_block(part(one, "attention")) for one in text.get("block_configs") or ()]


def _of_block(attention: Config) -> str:
    is_left_out = attention.get("no_op") or attention.get("replace_with_linear")
    return _NOTHING if is_left_out else _FULL


def _by_rule(text: Config, index: int, count: int) -> str:
    if not attention_heads(text):
        if not states.row_elements(text):
            raise LookupError("it has no num_attention_heads")
        return _STATE
    if (is_full := _is_full_between_states(text, index, count)) is not None:
        return _FULL if is_full else _STATE
    return _WINDOW if _is_window(text, index) else _FULL


def _is_full_between_states(text: Config, index: int, count: int) -> bool | None:
    """None: no such rule."""
    if recurrent := part(text, "linear_attn_config").get("kda_layers"):
        return index + 1 not in recurrent
    if size := number(text, "layer_group_size"):  # the last of a group, and what fills none
        return (index + 1) % size == 0 or index >= count // size * size
    if every := number(text, "full_attention_interval"):
        return (index + 1) % every == 0
    if every := number(text, "attn_layer_period"):
        return index % every == number(text, "attn_layer_offset")
    if full_layers := text.get("full_attn_idxs"):
        return index in full_layers
    if (every := number(text, "mamba_step")) and text.get("mamba_enabled", True):
        return index % every == every // 2
    return None


def _is_window(text: Config, index: int) -> bool:
    if windowed := text.get("sliding_window_layers"):
        return index in windowed
    every = 4 if text.get("attention_chunk_size") else number(text, "sliding_window_pattern")
    return every > 0 and (index + 1) % every != 0
