"""The stored bytes of one record: header, arrays, checksums. It does not know what the arrays mean.

    magic 8 | header length 4 | header checksum 16 | header JSON | payload
    header: key, kind, tokens, arrays [dtype, shape, bytes], payload bytes, payload checksum

Every bit of a file is under a checksum: the header's own, or the payload's inside the header. What
does not read back exactly is Corrupt, which the caller counts and treats as a miss.
"""

from __future__ import annotations

import dataclasses
import json
import struct
from collections.abc import Callable, Sequence
from enum import StrEnum
from typing import Any, NamedTuple

import xxhash

MAGIC = b"HEARTH\x00\x01"
_FIXED = struct.Struct("<8sI16s")
MAX_HEADER_BYTES = 1 << 20


class Corrupt(Exception):
    """A record's file does not hold what was written."""


class Kind(StrEnum):
    """SLICE: what attention layers hold for a block's own tokens.
    BOUNDARY: what windowed and recurrent layers hold at a block's end.
    OPENING: the logits that follow a whole prompt, under a key of their own."""

    SLICE = "slice"
    BOUNDARY = "boundary"
    OPENING = "opening"


class RecordKey(NamedTuple):
    block: bytes
    kind: Kind

    @property
    def file_name(self) -> str:
        return f"{self.block.hex()}.{self.kind}"


@dataclasses.dataclass(frozen=True, slots=True)
class ArrayBytes:
    """One array as plain bytes; `dtype` is a name that only the model side interprets."""

    dtype: str
    shape: tuple[int, ...]
    data: bytes | memoryview


@dataclasses.dataclass(frozen=True, slots=True)
class Readout:
    """A record's arrays on their way to the disk. `read` is called by the thread that writes them;
    what it returns is good until it is called for the next record."""

    num_bytes: int
    read: Callable[[], Sequence[ArrayBytes]]


def pack(
    record: RecordKey, tokens: bytes, arrays: Sequence[ArrayBytes]
) -> list[bytes | memoryview]:
    """The file's content, in pieces to be written one after the other."""
    payload = [_flat(array.data) for array in arrays]
    checksum = xxhash.xxh3_128()
    for piece in payload:
        checksum.update(piece)
    header = json.dumps(
        {
            "key": record.block.hex(),
            "kind": record.kind,
            "tokens": tokens.hex(),
            "arrays": [[a.dtype, a.shape, len(p)] for a, p in zip(arrays, payload, strict=True)],
            "payload_bytes": sum(map(len, payload)),
            "payload_checksum": checksum.hexdigest(),
        },
        separators=(",", ":"),
    ).encode()
    fixed = _FIXED.pack(MAGIC, len(header), xxhash.xxh3_128_digest(header))
    return [fixed, header, *payload]


def _flat(data: bytes | memoryview) -> memoryview:
    """Python casts no view without elements."""
    view = memoryview(data)
    return view.cast("B") if view.nbytes else memoryview(b"")


def unpack(data: bytes, record: RecordKey, tokens: bytes) -> list[ArrayBytes]:
    """The arrays of a file that must be `record` for exactly these tokens. Raises Corrupt."""
    header, payload_start = _read_header(data)
    try:
        is_ours = (
            header["key"] == record.block.hex()
            and header["kind"] == record.kind
            and header["tokens"] == tokens.hex()
        )
        payload = memoryview(data)[payload_start:]
        if not is_ours:
            raise Corrupt("the file holds another record")
        if len(payload) != header["payload_bytes"]:
            raise Corrupt("the file is not as long as it says")
        if xxhash.xxh3_128_hexdigest(payload) != header["payload_checksum"]:
            raise Corrupt("the payload's checksum does not match")
        return _split(payload, header["arrays"])
    except (KeyError, TypeError, ValueError) as error:
        raise Corrupt("the header misses a field") from error


def _read_header(data: bytes) -> tuple[dict[str, Any], int]:
    if len(data) < _FIXED.size:
        raise Corrupt("the file is shorter than a header")
    magic, length, checksum = _FIXED.unpack_from(data)
    if magic != MAGIC:
        raise Corrupt("the file has another format")
    header = data[_FIXED.size : _FIXED.size + length]
    if length > MAX_HEADER_BYTES or len(header) != length:
        raise Corrupt("the header is cut off")
    if xxhash.xxh3_128_digest(header) != checksum:
        raise Corrupt("the header's checksum does not match")
    fields = json.loads(header)
    return fields, _FIXED.size + length


def _split(payload: memoryview, arrays: list[list[Any]]) -> list[ArrayBytes]:
    parts, at = [], 0
    for dtype, shape, num_bytes in arrays:
        parts.append(ArrayBytes(dtype, tuple(shape), payload[at : at + num_bytes]))
        at += num_bytes
    return parts
