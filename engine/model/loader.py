"""A model folder into weights on the device, in small portions. It does not know requests.

`mlx_lm`'s own loading path, lazily; then the weights are evaluated portion by portion, so that the
rows of other models go on between two of them.
"""

from __future__ import annotations

import dataclasses
import importlib
import struct
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor, wait
from pathlib import Path
from typing import Any

import mlx.core as mx
from mlx.utils import tree_flatten, tree_map
from mlx_lm.utils import MODEL_REMAPPING, load_model, load_tokenizer

from engine.model import kernels
from engine.model.capability import check_batching
from engine.model.compiling import compile_where_possible
from engine.model.identity import identity_of, stamps_of
from engine.model.kept_layers import kept_layers
from engine.model.load_faults import explain
from engine.model.vision.loading import read_sight
from engine.model.vision.sight import Sight
from engine.sizing.layers import Layers
from engine.sizing.tensors import read_header
from engine.sizing.text_config import DEFAULT_CONTEXT_TOKENS, context_limit

_PORTION_BYTES = 64 * 1024**2
_MOMENT_SECONDS = 0.01
_WEIGHTS_FRACTION = 0.9  # the rest of the progress is the self-check


class LoadFailed(Exception):
    """This model cannot be loaded."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class LoadedModel:
    """Weights in memory and what the engine must know of them. `identity` names everything that
    the content of a cache depends on. `layers`: what a row keeps, None where only the family knows.
    `sight`: what reads images; None: it reads none.
    """

    model: Any
    tokenizer: Any
    weight_bytes: int
    context_limit_tokens: int
    is_batchable: bool
    identity: dict[str, str]
    layers: tuple[Layers, ...] | None = None
    sight: Sight | None = None


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class LoadProgress:
    """`loaded` is set on the last one."""

    fraction: float
    loaded: LoadedModel | None = None


def stored_weight_bytes(path: Path, *, casts_to_float32: bool = False) -> int:
    """Bytes of all tensors once loaded, from the safetensors headers alone. Raises LoadFailed."""
    files = sorted(path.glob("model*.safetensors"))
    if not files:
        raise LoadFailed(f"no model*.safetensors in {path}")
    return sum(_tensor_bytes(file, casts_to_float32=casts_to_float32) for file in files)


def load(path: Path, *, casts_to_float32: bool) -> Iterator[LoadProgress]:
    """Load in portions; each `next()` works for a moment. Raises LoadFailed."""
    yield LoadProgress(fraction=0.0)
    compile_where_possible()
    try:
        stamps = stamps_of(path)
        model, config = _read_model(path)
        sight, tower = read_sight(path, config, model)
        parts = [model] if tower is None else [model, tower]
        for part in parts:
            if casts_to_float32:
                part.update(tree_map(as_float32, part.parameters()))
            kernels.lay_out_weights(part)
        tokenizer = _start_loading_tokenizer(path, config)
        for fraction in evaluate_weights(*parts):
            yield LoadProgress(fraction=fraction * _WEIGHTS_FRACTION)
        while not tokenizer.done():
            wait([tokenizer], timeout=_MOMENT_SECONDS)
            yield LoadProgress(fraction=_WEIGHTS_FRACTION)
        kernels.bind(model, kernels.wanted())
        is_batchable = None
        for is_batchable in _check_batching(model):  # noqa: B007 - the last one is the verdict
            yield LoadProgress(fraction=_WEIGHTS_FRACTION)
        loaded = LoadedModel(
            model=model,
            tokenizer=tokenizer.result(),
            weight_bytes=sum(map(num_weight_bytes, parts)),
            context_limit_tokens=context_limit(config) or DEFAULT_CONTEXT_TOKENS,
            is_batchable=bool(is_batchable),
            identity=identity_of(path, model),
            layers=kept_layers(model, compute_bytes=4 if casts_to_float32 else 2),
            sight=sight,
        )
        if stamps_of(path) != stamps:  # they may not be what they are called
            raise LoadFailed("its files were changed while they were read")
    except LoadFailed:
        raise
    # mlx_lm raises whatever a broken folder provokes; the load ends here with one clear error.
    # An architecture whose package is missing would end the process.
    except (Exception, SystemExit) as error:
        raise LoadFailed(explain(path, error)) from error
    yield LoadProgress(fraction=1.0, loaded=loaded)


def _read_model(path: Path) -> tuple[Any, dict[str, Any]]:
    """Embedding models are published without their head: the body's parts alone, unprefixed."""
    names = (name for file in path.glob("model*.safetensors") for name in read_header(file))
    if not any(name.startswith("embed_tokens.") for name in names):
        return load_model(path, lazy=True)  # type: ignore[no-any-return]
    return load_model(  # type: ignore[no-any-return]
        path,
        lazy=True,
        model_config={"tie_word_embeddings": True},
        get_model_classes=_headless_classes,
    )


def _headless_classes(config: dict[str, Any]) -> tuple[type, type]:
    model_type = MODEL_REMAPPING.get(config["model_type"], config["model_type"])
    architecture = importlib.import_module(f"mlx_lm.models.{model_type}")

    class Headless(architecture.Model):  # type: ignore[name-defined]
        def sanitize(self, weights: dict[str, mx.array]) -> dict[str, mx.array]:
            named = {f"model.{name}": array for name, array in weights.items()}
            sanitize = getattr(super(), "sanitize", dict)
            return sanitize(named)

    return Headless, architecture.ModelArgs


def _check_batching(model: Any) -> Iterator[bool | None]:
    """The verdict comes last. A model that only MLX's kernels batch rightly keeps those."""
    verdict = None
    for verdict in check_batching(model):
        yield verdict
    if not verdict and kernels.unbind(model):
        for verdict in check_batching(model):
            yield verdict
        if not verdict:
            kernels.bind(model, kernels.wanted())


def _start_loading_tokenizer(path: Path, config: dict[str, Any]) -> Future[Any]:
    """In a thread of its own, as large vocabularies take seconds and need no mlx."""
    executor = ThreadPoolExecutor(1, thread_name_prefix="tokenizer")
    ends = config.get("eos_token_id")
    tokenizer = executor.submit(load_tokenizer, path, eos_token_ids=ends)
    executor.shutdown(wait=False)
    return tokenizer


def num_weight_bytes(model: Any) -> int:
    return sum(array.nbytes for _, array in _parameters(model))


def as_float32(array: mx.array) -> mx.array:
    is_small_float = array.dtype in (mx.bfloat16, mx.float16)
    return array.astype(mx.float32) if is_small_float else array


def evaluate_weights(*models: Any) -> Iterator[float]:
    arrays = [array for model in models for _, array in _parameters(model)]
    total = max(1, sum(array.nbytes for array in arrays))
    done = in_portion = 0
    portion: list[mx.array] = []
    for array in arrays:
        portion.append(array)
        in_portion += array.nbytes
        if in_portion >= _PORTION_BYTES:
            mx.eval(portion)
            done, in_portion, portion = done + in_portion, 0, []
            yield done / total
    mx.eval(portion)
    yield 1.0


def _parameters(model: Any) -> list[tuple[str, mx.array]]:
    parameters: Any = tree_flatten(model.parameters())
    return list(parameters)


def _tensor_bytes(file: Path, *, casts_to_float32: bool) -> int:
    try:
        header = read_header(file)
        tensors = [entry for name, entry in header.items() if name != "__metadata__"]
        grown = {"BF16": 2, "F16": 2} if casts_to_float32 else {}
        return sum(
            (entry["data_offsets"][1] - entry["data_offsets"][0]) * grown.get(entry["dtype"], 1)
            for entry in tensors
        )
    except (OSError, ValueError, LookupError, TypeError, struct.error) as error:
        raise LoadFailed(f"{file.name} is no safetensors file: {error}") from error
