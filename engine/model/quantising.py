"""Writes a quantised copy of a model folder, tensor by tensor: what mlx-lm's own `convert` does.
The tower of a model that sees comes along, in full precision.

    lazy weights → cast → quantised, all lazy → one tensor computed → into the file → dropped

At most one tensor is in memory, with what it is computed from. It does not know who wants the copy.
"""

from __future__ import annotations

import json
import os
import shutil
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any

import mlx.core as mx
from mlx.utils import tree_flatten, tree_map, tree_map_with_path
from mlx_lm.utils import (
    get_total_parameters,
    load_model,
    make_shards,
    quantize_model,
    save_config,
)

from engine.model.identity import stamps_of
from engine.model.load_faults import explain
from engine.model.vision.loading import stored_tower
from engine.sizing.images import sees
from engine.sizing.quantising import Way

_COPIED = ("*.json", "*.jinja", "*.txt", "*.model", "*.tiktoken")  # what a tokenizer may be of
_WRITTEN = ("config.json", "model.safetensors.index.json")
_CAST_TO = ("float16", "bfloat16", "float32")
_ALIGNMENT_BYTES = 8
_DTYPE_NAMES = {
    mx.bool_: "BOOL",
    mx.uint8: "U8",
    mx.int8: "I8",
    mx.uint16: "U16",
    mx.int16: "I16",
    mx.uint32: "U32",
    mx.int32: "I32",
    mx.uint64: "U64",
    mx.int64: "I64",
    mx.float16: "F16",
    mx.bfloat16: "BF16",
    mx.float32: "F32",
    mx.float64: "F64",
    mx.complex64: "C64",
}

Weights = dict[str, mx.array]


class QuantisingFailed(Exception):
    """This model cannot be quantised."""


def write_quantised_copy(source: Path, target: Path, way: Way) -> Iterator[float]:
    """Into a new folder, synced to the disk at the end; yields which part of it is written. Raises
    QuantisingFailed, whose message is for people."""
    try:
        stamps = stamps_of(source)
        target.mkdir(mode=0o700)
        yield from _write(source, target, way)
        if stamps_of(source) != stamps:
            raise QuantisingFailed("the files of the model were changed while they were read")
    except QuantisingFailed:
        raise
    # mlx_lm raises whatever a strange folder provokes; an architecture whose package is missing
    # would end the process
    except (Exception, SystemExit) as error:
        raise QuantisingFailed(_told(source, error)) from error


def _write(source: Path, target: Path, way: Way) -> Iterator[float]:
    model, config = load_model(source, lazy=True)
    is_seeing = sees(source, config)
    tower = stored_tower(source) if is_seeing else {}
    _cast(model, config)
    tower = _as_named(tower, config)
    model, config = quantize_model(model, config, way.group_size, way.bits, mode=way.mode)
    if not _has_quantised_layers(model):
        raise QuantisingFailed(f"no layer of it can be quantised in groups of {way.group_size}")
    keeps_vision_config = is_seeing or "vision_tower" in getattr(model, "model", {})
    save_config(config, target / "config.json", keep_vision_config=keeps_vision_config)
    _copy_other_files(source, target)
    yield from _write_weights(model, tower, target)
    for path in (*target.iterdir(), target):
        _sync(path)


def _cast(model: Any, config: dict[str, Any]) -> None:
    """To the number type that the config names, as `convert` does."""
    if (dtype := _dtype_of(config)) is None:
        return
    is_cast = getattr(model, "cast_predicate", lambda _: True)

    def cast(path: str, array: mx.array) -> mx.array:
        return _as_float(array, dtype) if is_cast(path) else array

    model.update(tree_map_with_path(cast, model.parameters()))


def _as_named(weights: Weights, config: dict[str, Any]) -> Weights:
    dtype = _dtype_of(config)
    return {name: one if dtype is None else _as_float(one, dtype) for name, one in weights.items()}


def _dtype_of(config: dict[str, Any]) -> mx.Dtype | None:
    name = config.get("torch_dtype")
    if name is None and (text_config := config.get("text_config")):
        name = text_config.get("dtype")
    return getattr(mx, name) if name in _CAST_TO else None


def _as_float(array: mx.array, dtype: mx.Dtype) -> mx.array:
    return array.astype(dtype) if mx.issubdtype(array.dtype, mx.floating) else array


def _has_quantised_layers(model: Any) -> bool:
    return any("scales" in module for module in model.modules())


def _copy_other_files(source: Path, target: Path) -> None:
    files = {file for pattern in _COPIED for file in source.glob(pattern) if file.is_file()}
    for file in files:
        if file.name not in _WRITTEN:
            shutil.copyfile(file, target / file.name)


def _write_weights(model: Any, tower: Weights, target: Path) -> Iterator[float]:
    """In files of the names and sizes that mlx-lm gives them, and their index."""
    weights: Weights = {**dict(tree_flatten(model.parameters())), **tower}
    tower.clear()
    total_bytes = sum(array.nbytes for array in weights.values())
    about = {"total_size": total_bytes, "total_parameters": get_total_parameters(model)}
    # No tensor may be held by anything but its shard, which drops it once it is written
    model.update(tree_map(lambda _: mx.array([]), model.parameters()))
    shards: list[Weights] = make_shards(weights)
    weights.clear()
    places: dict[str, str] = {}
    done_bytes = 0
    for number, shard in enumerate(shards, start=1):
        name = f"model-{number:05d}-of-{len(shards):05d}.safetensors"
        name = name if len(shards) > 1 else "model.safetensors"
        places |= dict.fromkeys(shard, name)
        for num_bytes in _write_shard(target / name, shard):
            done_bytes += num_bytes
            yield done_bytes / max(1, total_bytes)
    index = {"metadata": about, "weight_map": dict(sorted(places.items()))}
    (target / "model.safetensors.index.json").write_text(json.dumps(index, indent=4))


def _write_shard(path: Path, shard: Weights) -> Iterator[int]:
    """The bytes of each tensor once it is written; the shard is empty afterwards."""
    with path.open("wb") as file:
        header = json.dumps(_header_of(shard)).encode()
        header += b" " * (-len(header) % _ALIGNMENT_BYTES)
        file.write(struct.pack("<Q", len(header)) + header)
        for name in list(shard):
            yield _write_tensor(file, shard.pop(name))


def _header_of(shard: Weights) -> dict[str, Any]:
    header: dict[str, Any] = {"__metadata__": {"format": "mlx"}}
    start = 0
    for name, array in shard.items():
        end = start + array.nbytes
        header[name] = {
            "dtype": _DTYPE_NAMES[array.dtype],
            "shape": array.shape,
            "data_offsets": [start, end],
        }
        start = end
    return header


def _write_tensor(file: IO[bytes], array: mx.array) -> int:
    # bfloat16 is unknown to Python's buffers
    plain = array.view(mx.uint16) if array.dtype == mx.bfloat16 else array
    file.write(memoryview(mx.contiguous(plain)))  # type: ignore[arg-type]
    return array.nbytes


def _told(source: Path, error: Exception | SystemExit) -> str:
    if isinstance(error, OSError) and error.strerror:
        return f"{error.strerror}: {error.filename}" if error.filename else error.strerror
    return explain(source, error)


def _sync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
