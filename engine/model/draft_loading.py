"""The smaller model that drafts for a larger one, from its folder."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import mlx.core as mx

from engine.model import caches as row_caches
from engine.model import direct_step
from engine.model.draft_model import DraftModel
from engine.model.loader import LoadedModel, LoadFailed, load
from engine.model.rewinding import may_cut, may_rewind


def loading(
    path: Path, larger: LoadedModel, *, casts_to_float32: bool
) -> Iterator[DraftModel | None]:
    """None after each portion, the model at last. Raises LoadFailed, also where it cannot draft for
    the larger one."""
    if not may_rewind(row_caches.new_caches(larger.model)):
        raise LoadFailed("its layers cannot take tokens back: no model can draft for it")
    loaded = None
    for progress in load(path, casts_to_float32=casts_to_float32):
        loaded = progress.loaded
        yield None
    assert loaded is not None
    _check(path, loaded, larger)
    decode = None
    for decode in direct_step.finding(loaded.model, has_batches=False):  # noqa: B007 - the last
        yield None
    assert decode is not None
    yield DraftModel(
        loaded.model,
        decode,
        vocab_size=_vocab_size(larger.model),
        own_vocab_size=_vocab_size(loaded.model),
    )


def _check(path: Path, loaded: LoadedModel, larger: LoadedModel) -> None:
    if loaded.tokenizer.get_vocab() != larger.tokenizer.get_vocab():
        raise LoadFailed(f"the draft model {path.name} has another vocabulary")
    if not may_cut(row_caches.new_caches(loaded.model)):
        raise LoadFailed(f"the draft model {path.name} cannot take tokens back")


def _vocab_size(model: Any) -> int:
    logits = model(mx.array([[0]], mx.uint32), cache=row_caches.new_caches(model))
    return int(logits.shape[-1])
