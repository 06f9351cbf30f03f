"""How copies leave a device for the disk: their writer is another thread, which may not use MLX.

    CPU, Metal   it reads the arrays' own memory; numbers that Python has no name for are looked at
                 as integers of the same width
    CUDA         it is told where they lie and copies them out (cuda_reading.py)

What it finds them by is computed with them, so that nobody has to wait for it. Owner: the model
thread, but for what a Readout reads.
"""

from __future__ import annotations

import dataclasses
import functools
import logging
import math
from collections.abc import Callable, Sequence

import mlx.core as mx
import numpy as np

from engine.cache.record import ArrayBytes, Readout
from engine.model.cuda_reading import CudaFailed, DeviceReader, address_of
from engine.model.memory import device_kind

CARRIERS = {mx.bfloat16: mx.uint16}
logger = logging.getLogger(__name__)


def outlets_of(arrays: Sequence[mx.array]) -> list[mx.array]:
    """Of arrays with buffers of their own; lazy, to be evaluated with them."""
    if device_reader() is None:
        return [_carried(array) for array in arrays]
    return [address_of(array) for array in arrays if array.size]


def _carried(array: mx.array) -> mx.array:
    carrier = CARRIERS.get(array.dtype)
    return array if carrier is None else array.view(carrier)


def readout(arrays: Sequence[mx.array], outlets: Sequence[mx.array]) -> Readout:
    """Of arrays that are evaluated with their outlets; nothing is copied yet."""
    num_bytes = sum(array.nbytes for array in arrays)
    empty = [ArrayBytes(str(array.dtype), tuple(array.shape), b"") for array in arrays]
    if (reader := device_reader()) is None:
        views = [memoryview(one) for one in outlets]  # type: ignore[arg-type, unused-ignore]
        return Readout(num_bytes, lambda: _filled(empty, views))
    addresses = map(_number, outlets)
    spans = list(zip(addresses, [one.nbytes for one in arrays if one.size], strict=True))
    return Readout(num_bytes, functools.partial(_read, reader, spans, empty, tuple(arrays)))


def _number(address: mx.array) -> int:
    return int(address.item())  # type: ignore[arg-type]


def _read(
    reader: DeviceReader,
    spans: Sequence[tuple[int, int]],
    empty: Sequence[ArrayBytes],
    _owners: tuple[mx.array, ...],
) -> list[ArrayBytes]:
    """It has the arrays, so that their memory stays theirs until it is copied."""
    found = iter(reader.read(spans))
    sizes = [math.prod(one.shape) for one in empty]
    return _filled(empty, [next(found) if size else memoryview(b"") for size in sizes])


def _filled(empty: Sequence[ArrayBytes], views: Sequence[memoryview]) -> list[ArrayBytes]:
    return [dataclasses.replace(one, data=view) for one, view in zip(empty, views, strict=True)]


@functools.cache
def device_reader() -> DeviceReader | None:
    """None where the host reads the device's memory itself, and where the driver does not give what
    is there. Asked for first when a model is loaded: a kernel may have to be compiled."""
    if device_kind() != "cuda":
        return None
    return checked(DeviceReader)


def checked(make: Callable[[], DeviceReader]) -> DeviceReader | None:
    """One that has read what is known."""
    numbers = np.arange(5_000, dtype=np.uint32)
    array = mx.array(numbers) + 0  # on the device
    try:
        reader, addresses = make(), [address_of(array), address_of(array[1:])]
        mx.eval(addresses)
        first, second = map(_number, addresses)
        whole, rest = reader.read([(first, numbers.nbytes), (second, numbers.nbytes - 4)])
    except (CudaFailed, OSError, AttributeError) as error:
        logger.warning("device memory is read by MLX", extra={"error": repr(error)})
        return None
    is_right = bytes(whole) == numbers.tobytes() and bytes(rest) == numbers[1:].tobytes()
    return reader if is_right else None
