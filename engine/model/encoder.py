"""Encoders: what one can do, and a model folder into one on the device. It knows no requests."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Protocol

import mlx.core as mx
import mlx.nn as nn
from mlx.utils import tree_flatten, tree_map

from engine.core.encoder_config import is_cross_encoder, most_positions
from engine.model import bert, modernbert
from engine.model.compiling import compile_where_possible
from engine.model.load_faults import explain
from engine.model.loader import (
    LoadedModel,
    LoadFailed,
    LoadProgress,
    as_float32,
    evaluate_weights,
    num_weight_bytes,
)

# What broken files provoke in reading them and in mlx.
_BROKEN_FOLDER_ERRORS = (OSError, ValueError, LookupError, TypeError, RuntimeError)


class Encoder(Protocol):
    """Texts' tokens into one state each [R, T, D], layer by layer. Rows are padded on the right;
    what stands there changes nothing."""

    @property
    def num_layers(self) -> int: ...
    def embed(self, ids: mx.array, types: mx.array) -> mx.array: ...
    def masks(self, lengths: list[int]) -> Any: ...
    def run_layer(self, number: int, states: mx.array, masks: Any) -> mx.array: ...
    def finish(self, states: mx.array) -> mx.array: ...
    def score(self, states: mx.array, lengths: list[int]) -> mx.array:
        """[R, 1]. Only of one that was trained to score."""
        ...


def load_encoder(path: Path, *, casts_to_float32: bool) -> Iterator[LoadProgress]:
    """Load in portions, as `loader.load` does. Raises LoadFailed."""
    yield LoadProgress(fraction=0.0)
    compile_where_possible()
    try:
        config = json.loads((path / "config.json").read_text("utf-8"))
        model = _read(path, config)
        if casts_to_float32:
            model.update(tree_map(as_float32, model.parameters()))
        for fraction in evaluate_weights(model):
            yield LoadProgress(fraction=fraction)
        loaded = LoadedModel(
            model=model,
            tokenizer=None,
            weight_bytes=num_weight_bytes(model),
            context_limit_tokens=most_positions(config) or 0,
            is_batchable=True,
            identity={},
        )
    except _BROKEN_FOLDER_ERRORS as error:
        raise LoadFailed(explain(path, error)) from error
    yield LoadProgress(fraction=1.0, loaded=loaded)


def _read(path: Path, config: Mapping[str, Any]) -> nn.Module:
    if config.get("position_embedding_type", "absolute") != "absolute":
        raise LoadFailed("its kind of positions is not supported")
    is_modern = config["model_type"] == "modernbert"
    named = modernbert.named_parts if is_modern else bert.named_parts
    weights: dict[str, mx.array] = {}
    for file in sorted(path.glob("model*.safetensors")):
        weights |= {named(name): array for name, array in _load_file(file).items()}
    has_head = is_cross_encoder(config)
    model = (modernbert.ModernBert if is_modern else bert.Bert)(config, has_head=has_head)
    if (quantization := config.get("quantization")) is not None:
        nn.quantize(
            model,
            group_size=quantization["group_size"],
            bits=quantization["bits"],
            class_predicate=lambda name, _: f"{name}.scales" in weights,
        )
    _check_head(weights, has_head=has_head)
    wanted = set(dict(tree_flatten(model.parameters())))
    # A file may also hold the head that its body was trained with.
    model.load_weights([(name, array) for name, array in weights.items() if name in wanted])
    return model


def _load_file(file: Path) -> dict[str, mx.array]:
    loaded: Any = mx.load(str(file))
    return dict(loaded)


def _check_head(weights: Mapping[str, mx.array], *, has_head: bool) -> None:
    if not has_head:
        return
    names = ("head.classifier.weight", "head.classifier.out_proj.weight", "classifier.weight")
    labels = next((weights[name].shape[0] for name in names if name in weights), 0)
    if labels != 1:
        raise LoadFailed(f"its head has {labels} labels; a score needs exactly one")
