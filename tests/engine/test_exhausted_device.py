"""A device that takes no more, though the limit is not reached: other programs use it too."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from engine import wire
from engine.core.limits import Limits
from engine.core.step import Outcome, Step
from engine.model.memory import DeviceMemory
from engine.shelf import LoadFailed
from tests.engine.test_shelf import make_shelf
from tests.engine.test_vector_handle import FakeComputer
from tests.engine.test_vector_handle import Rig as VectorRig
from tests.engine.worker_rig import Engine
from tests.fakes import FakeRunner
from tests.tiny_models import tiny_model_path

GIB = 1024**3
CUDA = "cudaMallocAsync(&data, size, stream) failed: out of memory"
MODEL = wire.ModelSpec(name="m", path=str(tiny_model_path("tiny-qwen3")))


class FullDevice(FakeRunner):
    """It takes a step only where nothing is kept that could go."""

    tier_bytes = staticmethod(lambda: 0)

    def run(self, step: Step) -> tuple[Outcome, ...]:
        if (step.slices or step.decodes) and self.tier_bytes():
            raise RuntimeError(CUDA)
        return super().run(step)


def full_engine() -> Engine:
    engine = Engine(runner=FullDevice)
    engine.prefixes.memory.budget_bytes = GIB
    return engine


@pytest.mark.parametrize("names", [("one", "two"), ("alone",)])
def test_what_the_device_does_not_take_is_tried_again_without_the_prefix_cache(
    names: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    engine = full_engine()
    kept = [GIB]
    monkeypatch.setattr(FullDevice, "tier_bytes", lambda self: kept[0])
    monkeypatch.setattr(engine.prefixes, "shrink", lambda most: kept.__setitem__(0, most))
    for name in names:
        engine.ask(name, max_tokens=8)
    num_cleared = engine.memory.num_clears
    engine.run(*names)
    assert all(isinstance(engine.transport.ends[name], wire.Finished) for name in names)
    assert kept == [0] and engine.memory.num_clears > num_cleared


def test_who_alone_finds_no_memory_is_told_why(monkeypatch: pytest.MonkeyPatch) -> None:
    engine = full_engine()
    monkeypatch.setattr(FullDevice, "tier_bytes", lambda self: GIB)
    engine.ask("one", max_tokens=8)
    engine.run("one")
    end = engine.transport.ends["one"]
    assert isinstance(end, wire.Failed) and "no memory left" in end.detail
    assert engine.pool.guard.counts["exhaustion"] == 1


class FullComputer(FakeComputer):
    is_full = True

    def run(self, rows: Sequence[tuple[int, ...]]) -> list[Any]:
        if self.is_full:
            raise RuntimeError(CUDA)
        return super().run(rows)


@pytest.mark.parametrize("gives_way", [True, False])
def test_a_text_alone_is_tried_again_once(gives_way: bool) -> None:
    rig, given = VectorRig(computer=FullComputer), []

    def give_all() -> None:
        given.append(True)
        rig.computer.is_full = not gives_way  # type: ignore[attr-defined]

    rig.add("one", (1, 2, 3))
    for _ in range(3):
        rig.note(rig.handle.turn(limits=Limits(is_quiet=True, give_all=give_all)))
    end = rig.events["one"][-1]
    assert given == [True]
    assert isinstance(end, wire.Finished if gives_way else wire.Failed)


@pytest.mark.parametrize("error", [RuntimeError(CUDA), MemoryError()])
def test_a_load_that_finds_no_memory_at_its_end_has_failed(
    error: Exception, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It ended the engine, and would have ended each one that comes after."""

    def finding(*_: Any, **__: Any) -> None:
        raise error

    monkeypatch.setattr("engine.shelf.direct_step.finding", finding)
    with pytest.raises(LoadFailed, match="no memory left"):
        list(make_shelf().load(MODEL))


def test_weights_that_others_leave_no_room_for_are_not_read(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    shelf = make_shelf()
    needed_bytes = shelf.weight_bytes(MODEL)
    monkeypatch.setattr(DeviceMemory, "obtainable_bytes", lambda self: needed_bytes - 1)
    with pytest.raises(LoadFailed, match=r"need \S+ MiB and the device has \S+ MiB left"):
        next(shelf.load(MODEL))
    monkeypatch.setattr(DeviceMemory, "obtainable_bytes", lambda self: needed_bytes)
    assert list(shelf.load(MODEL))


def test_a_cuda_device_gives_what_is_free_and_what_is_kept_unused() -> None:
    info: dict[str, str | int] = {"total_memory": 80 * GIB, "free_memory": 3 * GIB}
    cuda = DeviceMemory(explicit_ceiling_bytes=GIB, kind="cuda", read_info=lambda: info)
    assert cuda.obtainable_bytes() == 3 * GIB + cuda.read_device().pool_bytes
    assert DeviceMemory(explicit_ceiling_bytes=GIB, kind="cpu").obtainable_bytes() is None
