"""How a model is built: where its body and its head are, and whether its layers are Llama's.

mlx-lm's families write their layers alike, many to the letter: where a layer's code is the same as
Llama's or Qwen3's, so is what it computes. What a family does around its layers is not looked at:
who goes past a model's modules compares the answers when it is loaded.
"""

from __future__ import annotations

from typing import Any

from mlx_lm.models import llama, qwen3
from mlx_lm.models.cache import KVCache

from engine.model.caches import new_caches


def parts_of(model: Any) -> tuple[Any, Any]:
    """Body and head; None for one that is not where mlx-lm's models have it."""
    model = getattr(model, "language_model", model)
    body = getattr(model, "model", None) or getattr(model, "backbone", None)
    head = getattr(model, "lm_head", None)
    if head is None:  # the embedding serves as one
        embedding = getattr(body, "embed_tokens", None) or getattr(body, "embeddings", None)
        head = getattr(embedding, "as_linear", None)
    return body, head


def known_layers(model: Any) -> list[Any] | None:
    """All of its layers; None if one is of another kind, or keeps something else than all keys and
    values."""
    body, head = parts_of(model)
    layers = getattr(body, "layers", None)
    if not layers or head is None or not all(map(_is_known, layers)):
        return None
    if any(type(one) is not KVCache for one in new_caches(model)):
        return None
    return list(layers)


def _is_known(layer: Any) -> bool:
    """Whether it is written as Llama's, or Qwen3's, and looks back on everything."""
    return (
        not getattr(layer, "use_sliding", False)
        and _says_the_same(layer, llama.TransformerBlock)
        and _says_the_same(layer.self_attn, llama.Attention, qwen3.Attention)
        and _says_the_same(layer.mlp, llama.MLP)
    )


def _says_the_same(part: Any, *known: Any) -> bool:
    return _text_of(type(part)) in map(_text_of, known)


def _text_of(kind: Any) -> Any:
    """All that the code of its call says, wherever it stands."""
    code = getattr(kind.__call__, "__code__", None)
    return code and (code.co_code, code.co_names, code.co_varnames, code.co_consts)
