"""The tensors of a model folder, from the headers of its safetensors files alone."""

from __future__ import annotations

import dataclasses
import json
import math
import struct
from pathlib import Path
from typing import Any

ITEM_BYTES = {"F64": 8, "I64": 8, "U64": 8, "F32": 4, "I32": 4, "U32": 4, "BF16": 2, "F16": 2}
_MALFORMED = (ArithmeticError, AttributeError, LookupError, TypeError, ValueError)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Tensor:
    """`dtype` as safetensors spells it: BF16."""

    name: str
    dtype: str
    shape: tuple[int, ...]

    @property
    def size(self) -> int:
        return math.prod(self.shape)


def tensors_of(folder: Path) -> list[Tensor]:
    """Of the files that mlx-lm reads. Raises OSError, or ValueError that names the file."""
    files = sorted(folder.glob("model*.safetensors"))
    return [tensor for file in files for tensor in _tensors_in(file)]


def _tensors_in(file: Path) -> list[Tensor]:
    try:
        return [
            Tensor(name=name, dtype=str(entry["dtype"]), shape=tuple(map(int, entry["shape"])))
            for name, entry in read_header(file).items()
            if name != "__metadata__"
        ]
    except (*_MALFORMED, struct.error) as error:
        raise ValueError(f"{file.name} is no safetensors file") from error


def read_header(file: Path) -> dict[str, Any]:
    """Raises OSError, ValueError or struct.error where this is no safetensors file."""
    with file.open("rb") as stream:
        (size,) = struct.unpack("<Q", stream.read(8))
        if size > file.stat().st_size:
            raise ValueError("its header is longer than the file")
        header: dict[str, Any] = json.loads(stream.read(size))
        return header
