"""What the content of a cache depends on, of a model's files and of how they were loaded."""

from __future__ import annotations

import hashlib
import os
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import mlx.core as mx
import mlx_lm
from mlx.utils import tree_flatten

KERNELS = 1  # counts what changes keys and values beyond rounding: a repair of what we compute
_READ_WHOLE = (
    *("config.json", "tokenizer.json", "adapter_config.json"),
    *("preprocessor_config.json", "processor_config.json"),  # what is seen of images
)
_SAMPLES, _SAMPLE_BYTES = 1024, 4096


def identity_of(path: Path, model: Any) -> dict[str, str]:
    """Small files by their content; weights by size, time of writing and samples of their content,
    for a copy may keep size and time. In which numbers they are computed with is seen from all
    parameters: of quantised ones the first are packed integers in any case. What computes them, for
    what was computed wrongly is not to outlive its repair."""
    parameters: Any = tree_flatten(model.parameters())
    fields = {
        "dtypes": " ".join(sorted({str(array.dtype) for _, array in parameters})),
        "computed by": f"{mx.__version__} {mlx_lm.__version__} {KERNELS}",  # type: ignore[attr-defined]
    }
    for name in _READ_WHOLE:
        if (path / name).exists():
            fields[name] = hashlib.sha256((path / name).read_bytes()).hexdigest()
    for file in _weights_in(path):
        about = file.stat()
        fields[file.name] = f"{_sample_hash(file)} {about.st_size} {about.st_mtime_ns}"
    return fields


def stamps_of(path: Path) -> dict[str, tuple[int, ...]]:
    """Of the same files: others where one was written or replaced since."""
    files = [*(path / name for name in _READ_WHOLE if (path / name).exists()), *_weights_in(path)]
    found = ((file.name, file.stat()) for file in files)
    return {name: (about.st_ino, about.st_size, about.st_mtime_ns) for name, about in found}


def _weights_in(path: Path) -> list[Path]:
    """Not ._model.safetensors, which macOS lays beside it on disks that store no attributes."""
    return sorted(path.glob("[!.]*.safetensors"))


def _sample_hash(file: Path) -> str:
    """Of its header and all of a small file; of a large one of so many places from its beginning to
    its end: no large tensor lies between two of them."""
    digest = hashlib.sha256()
    with file.open("rb") as stream:
        (header_bytes,) = struct.unpack("<Q", stream.read(8))
        digest.update(stream.read(header_bytes))
        for offset in _offsets(os.fstat(stream.fileno()).st_size):
            stream.seek(offset)
            digest.update(stream.read(_SAMPLE_BYTES))
    return digest.hexdigest()


def _offsets(size: int) -> Iterator[int]:
    last = max(0, size - _SAMPLE_BYTES)
    step = max(_SAMPLE_BYTES, -(-last // (_SAMPLES - 1)))
    yield from range(0, last, step)
    yield last
