"""Logits of the last position of each row only: a slice that draws needs no others.

mlx-lm's models give them for every position, which for a large vocabulary is a good part of a
slice's work and most of its memory. Nearly all of them are a body (`model`) and a head (`lm_head`,
or the embedding): where these two give the same bits as the whole model, they serve for it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import mlx.core as mx

from engine.model import caches as row_caches
from engine.model.caches import Caches

LastLogits = Callable[[mx.array, Caches], mx.array]

_PROBE = ((11, 7, 5, 13, 17),)


def find_last_logits(model: Any) -> LastLogits | None:
    """A function of token ids [B, n] and caches that gives [B, V], lazily; None where body and
    head are not the whole model, or cannot be told apart."""
    body = getattr(model, "model", None)
    head = getattr(model, "lm_head", None)
    if head is None:  # the embedding serves as one
        head = getattr(getattr(body, "embed_tokens", None), "as_linear", None)
    if body is None or head is None or not _are_whole(model, body, head):
        return None

    def last_logits(token_ids: mx.array, caches: Caches) -> mx.array:
        states = body(token_ids, cache=caches)
        logits: mx.array = head(states[:, -1:, :])
        return logits[:, -1, :]

    return last_logits


def _are_whole(model: Any, body: Any, head: Any) -> bool:
    probe = mx.array(_PROBE, mx.uint32)
    whole = model(probe, cache=row_caches.new_caches(model))
    try:
        parts = head(body(probe, cache=row_caches.new_caches(model)))
    except (TypeError, ValueError, AttributeError):  # it wants other arguments
        return False
    return bool(mx.array_equal(whole, parts))
