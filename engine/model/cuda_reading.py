"""Device memory of MLX's arrays, read past MLX by the CUDA driver, from any thread.

When Python looks at an array's numbers MLX moves its buffer to memory that the host and the device
share, for good: from there kernels read at 5 GB/s, and so do those of later arrays that get the
buffer. So an array is asked for its address, by a kernel of our own, and what lies there is copied
out on a stream that nothing else waits for.
"""

from __future__ import annotations

import ctypes
import functools
import itertools
from collections.abc import Sequence
from typing import Any

import mlx.core as mx

from engine.model.cuda_source import make_kernel

_NON_BLOCKING = 1
_SOURCE = "if (threadIdx.x == 0) address[0] = reinterpret_cast<unsigned long long>(array);"


class CudaFailed(Exception):
    """A call of the driver has failed."""


def address_of(array: mx.array) -> mx.array:
    """[1], of an array without gaps that is not empty; lazy. When it is evaluated the array is
    computed; it is true as long as that lives and nobody looks at its numbers.

    Its eight bytes are in shared memory from the first: to look at them moves nothing.
    """
    content = (array if array.ndim else array[None]).view(mx.uint8)
    addresses: list[mx.array] = _kernel()(
        inputs=[content],
        grid=(1, 1, 1),
        threadgroup=(1, 1, 1),
        output_shapes=[(1,)],
        output_dtypes=[mx.uint64],
    )
    return addresses[0]


@functools.cache
def _kernel() -> Any:
    return make_kernel("hearth_address", ["array"], ["address"], _SOURCE, copies_views=False)


class DeviceReader:
    """Reads into one buffer of its own, which the device writes to directly."""

    def __init__(self) -> None:
        """Raises CudaFailed or OSError where there is no driver."""
        self._driver = ctypes.CDLL("libcuda.so.1")
        self._context, self._stream = ctypes.c_void_p(), ctypes.c_void_p()
        device = ctypes.c_int()
        self._call("cuInit", 0)
        self._call("cuDeviceGet", ctypes.byref(device), 0)
        self._call("cuDevicePrimaryCtxRetain", ctypes.byref(self._context), device)
        self._call("cuCtxSetCurrent", self._context)
        self._call("cuStreamCreate", ctypes.byref(self._stream), _NON_BLOCKING)
        self._buffer, self._buffer_bytes = ctypes.c_void_p(), 0

    def read(self, spans: Sequence[tuple[int, int]]) -> list[memoryview]:
        """What lies at each (address, bytes), of which none is empty. It is good until the next
        call."""
        if not spans:
            return []
        self._call("cuCtxSetCurrent", self._context)
        self._make_room(sum(num_bytes for _, num_bytes in spans))
        first = self._buffer.value or 0
        stops = list(itertools.accumulate(num_bytes for _, num_bytes in spans))
        try:
            for (address, num_bytes), stop in zip(spans, stops, strict=True):
                self._copy(address, first + stop - num_bytes, num_bytes)
        finally:  # also what was begun before another failed writes into the buffer
            self._call("cuStreamSynchronize", self._stream)
        whole = memoryview((ctypes.c_char * stops[-1]).from_address(first)).cast("B")
        return [whole[start:stop] for start, stop in itertools.pairwise([0, *stops])]

    def _copy(self, address: int, to: int, num_bytes: int) -> None:
        self._call(
            "cuMemcpyDtoHAsync_v2",
            ctypes.c_void_p(to),
            ctypes.c_uint64(address),
            ctypes.c_size_t(num_bytes),
            self._stream,
        )

    def _make_room(self, num_bytes: int) -> None:
        if num_bytes <= self._buffer_bytes:
            return
        if self._buffer.value:
            self._call("cuMemFreeHost", self._buffer)
        self._buffer, self._buffer_bytes = ctypes.c_void_p(), 0
        self._call("cuMemHostAlloc", ctypes.byref(self._buffer), ctypes.c_size_t(num_bytes), 0)
        self._buffer_bytes = num_bytes

    def _call(self, name: str, *arguments: Any) -> None:
        if code := getattr(self._driver, name)(*arguments):
            raise CudaFailed(f"{name} failed with {code}")
