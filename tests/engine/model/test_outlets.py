"""Copies reach the disk's thread as they are, whoever reads the device's memory."""

from __future__ import annotations

import ctypes
import threading
from collections.abc import Sequence
from typing import Any

import mlx.core as mx
import numpy as np
import pytest

from engine.cache.record import ArrayBytes
from engine.model import outlets, snapshots
from engine.model.caches import new_caches
from engine.model.cuda_reading import CudaFailed, DeviceReader
from engine.model.outlets import checked, device_reader, outlets_of, readout
from tests.engine.model.rig import loaded

CONTENTS = {
    "numbers of every kind": lambda: [
        mx.arange(3000).astype(dtype)
        for dtype in (mx.float32, mx.float16, mx.bfloat16, mx.int32, mx.int64, mx.uint8, mx.uint32)
    ],
    "what is empty": lambda: [mx.zeros((0,)), mx.arange(40), mx.zeros((0, 3))],
    "nothing at all": lambda: [mx.zeros((0,)), mx.zeros((0,))],
    "few numbers": lambda: [mx.array([7], mx.int32), mx.array(1.5), mx.array([1, 2], mx.uint8)],
    "a part of a buffer": lambda: [mx.contiguous(mx.arange(4096).reshape(4, 1024)[2:3])],
    "a stack": lambda: [mx.random.normal((3, 1, 2, 16, 8)).astype(mx.bfloat16)],
}


class HostReader(DeviceReader):
    """In the place of a device: what lies at addresses of this process."""

    def __init__(self) -> None:
        """No driver is looked for."""

    def read(self, spans: Sequence[tuple[int, int]]) -> list[memoryview]:
        return [memoryview(ctypes.string_at(address, size)) for address, size in spans]


def host_address(array: mx.array) -> mx.array:
    mx.eval(array)
    carrier = array.view(outlets.CARRIERS.get(array.dtype, array.dtype))
    return mx.array([np.asarray(carrier).ctypes.data], mx.uint64)


@pytest.fixture(params=["as it is", "by addresses"])
def reading(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """As this machine has it, and as CUDA has it with the host's memory for the device's."""
    if request.param == "by addresses":
        if device_reader() is not None:
            pytest.skip("here it is the way it is")
        reader = HostReader()
        monkeypatch.setattr(outlets, "device_reader", lambda: reader)
        monkeypatch.setattr(outlets, "address_of", host_address)
    return str(request.param)


def numbers_of(array: mx.array) -> bytes:
    carrier = array.view(outlets.CARRIERS.get(array.dtype, array.dtype)) if array.size else array
    return np.array(carrier).tobytes()


def read_elsewhere(read: Any) -> list[ArrayBytes]:
    """As the disk's writer does; what it is given is good until it reads on."""
    found: list[ArrayBytes] = []

    def run() -> None:
        parts = read()
        found.extend(ArrayBytes(one.dtype, one.shape, bytes(one.data)) for one in parts)

    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    return found


@pytest.mark.usefixtures("reading")
@pytest.mark.parametrize("name", CONTENTS)
def test_another_thread_reads_what_was_copied(name: str) -> None:
    arrays = CONTENTS[name]()
    snapshot = snapshots.payload(arrays).content
    snapshots.compute([snapshot])
    given = snapshots.dump(snapshot)
    assert given.num_bytes == sum(array.nbytes for array in arrays)
    found = read_elsewhere(given.read)
    assert [(one.dtype, one.shape) for one in found] == [
        (str(array.dtype), tuple(array.shape)) for array in arrays
    ]
    assert [one.data for one in found] == [numbers_of(array) for array in arrays]


@pytest.mark.usefixtures("reading")
def test_what_waits_to_be_written_outlives_the_cache() -> None:
    """Its memory is nobody else's until it has been read."""
    arrays = [mx.arange(50_000) * 3]
    expected = np.arange(50_000, dtype=np.int32) * 3
    given = readout(arrays, _computed(arrays))
    arrays.clear()
    mx.clear_cache()
    others = [mx.zeros((50_000,), mx.int32) for _ in range(20)]
    mx.eval(others)
    (found,) = read_elsewhere(given.read)
    assert found.data == expected.tobytes()


def _computed(arrays: Sequence[mx.array]) -> list[mx.array]:
    found = outlets_of(arrays)
    mx.eval(list(arrays), found)
    return found


@pytest.mark.parametrize(
    "fault", [CudaFailed("cuInit failed with 100"), OSError("no libcuda.so.1"), AttributeError()]
)
def test_a_driver_that_fails_is_done_without(fault: Exception) -> None:
    def make() -> DeviceReader:
        raise fault

    assert checked(make) is None


def test_a_driver_that_reads_something_else_is_done_without(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    class Confused(HostReader):
        def read(self, spans: Sequence[tuple[int, int]]) -> list[memoryview]:
            return [memoryview(bytes(size)) for _, size in spans]

    monkeypatch.setattr(outlets, "address_of", host_address)
    assert checked(Confused) is None
    assert checked(HostReader) is not None


@pytest.mark.skipif(not mx.cuda.is_available(), reason="needs CUDA")
def test_on_cuda_the_driver_reads_and_moves_nothing() -> None:
    """A buffer that Python has looked at lies elsewhere, and its address is of somebody else."""
    arrays = [mx.random.normal((36, 1, 8, 256, 128)).astype(mx.bfloat16), mx.array([5, 9])]
    before = _computed(arrays)
    given = readout(arrays, before)
    parts = read_elsewhere(given.read)
    after = _computed(arrays)
    assert device_reader() is not None
    assert [one.item() for one in before] == [one.item() for one in after]
    assert [one.data for one in parts] == [numbers_of(array) for array in arrays]


@pytest.mark.parametrize("kind", ["windowed", "recurrent"])
def test_restoring_looks_at_nothing_that_is_yet_to_be_written(
    kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = loaded({"windowed": "tiny-gemma3", "recurrent": "tiny-mamba"}[kind]).model
    row = new_caches(model)
    model(mx.arange(90)[None], cache=row)
    snapshot = snapshots.payload(snapshots.capture_boundary(row)).content
    mx.eval(snapshot.arrays, snapshot.outlets)
    looked_at: list[int] = []
    for look in ("tolist", "item"):
        plain = getattr(mx.array, look)
        monkeypatch.setattr(
            mx.array, look, lambda one, plain=plain: (looked_at.append(id(one)), plain(one))[1]
        )
    snapshots.restore(new_caches(model), [], snapshot)
    assert looked_at
    assert not set(looked_at) & {id(one) for one in snapshot.arrays}
