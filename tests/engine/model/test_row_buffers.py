"""A row holds the bytes that it is counted with, and no input of a slice besides."""

from __future__ import annotations

import gc

import mlx.core as mx
import pytest

from engine.core.step import Slice, Step
from engine.model import caches as row_caches
from engine.model import snapshots
from engine.model.runner import Runner
from tests.engine.model.rig import loaded, num_operations

SPARE_BYTES = 16 * 1024  # a view may keep so much of its buffer


@pytest.mark.parametrize("name", ["tiny-mamba", "tiny-qwen3-next"])
def test_a_recurrent_row_holds_nothing_of_its_slices_inputs(name: str) -> None:
    runner = Runner(loaded(name).model, token_bytes=bytes)
    prompt = Slice(row_ids=(0,), start_tokens=0, token_ids=(tuple(range(10, 522)),))
    runner.run(Step(slices=(prompt,)))  # what is made once stays
    runner.run(Step(leaves=(0,)))
    before_bytes = _in_use()
    runner.run(Step(slices=(prompt,)))
    assert 0 < _in_use() - before_bytes <= runner.num_bytes + SPARE_BYTES


@pytest.mark.parametrize(("device", "num_arrays"), [(mx.cpu, 4), (mx.gpu, 2)])
def test_copies_for_the_cache_are_stacked_where_each_array_costs_time(
    device: mx.DeviceType, num_arrays: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not on a CPU, which copies from stacks more slowly."""
    model = loaded("tiny-qwen3").model
    monkeypatch.setattr(mx, "default_device", lambda: mx.Device(device))
    runner = Runner(model, token_bytes=bytes, runs_ahead=False)
    runner.run(Step(slices=(Slice(row_ids=(0,), start_tokens=0, token_ids=((5, 6, 7),)),)))
    found = runner.find_row(0)
    assert found is not None
    (copied,) = runner.copy_slices(found[0], [(0, 3)])
    snapshots.compute([copied.content])
    assert len(copied.content.arrays) == num_arrays


@pytest.mark.parametrize(("together_bytes", "num_joins"), [(0, 4), (1 << 30, 1)])
def test_so_much_of_what_is_copied_and_restored_is_alive_twice(
    together_bytes: int, num_joins: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Stacks of several blocks, and of several layers, as far as that goes."""
    model = loaded("tiny-qwen3").model
    monkeypatch.setattr(mx, "default_device", lambda: mx.Device(mx.gpu))
    runner = Runner(model, token_bytes=bytes, runs_ahead=False, together_bytes=together_bytes)
    tokens = tuple(range(10, 42))
    runner.run(Step(slices=(Slice(row_ids=(0,), start_tokens=0, token_ids=(tokens,)),)))
    row, _ = runner.find_row(0) or ([], 0)
    row_caches.evaluate(row)
    copies = runner.copy_slices(row, [(start, start + 8) for start in range(0, 32, 8)])
    contents = [one.content for one in copies]
    begun: list[list[mx.array]] = []
    monkeypatch.setattr(mx, "eval", begun.append)
    monkeypatch.setattr(mx, "async_eval", begun.append)
    snapshots.compute(contents)
    monkeypatch.undo()
    assert len(begun) == num_joins
    mx.eval(begun)
    monkeypatch.setattr(row_caches, "start_evaluating", lambda caches: None)
    runner.restore_row(1, [(one, 8) for one in contents], None, num_tokens=32)
    again, _ = runner.find_row(1) or ([], 0)
    joined = [array for layer in again for array in layer.state[:2]]
    assert num_operations(joined, "Concatenate") == 2 * min(num_joins, len(again))


def _in_use() -> int:
    gc.collect()
    mx.synchronize()
    mx.clear_cache()  # what other tests left there is larger than what is asked for, and counts
    return mx.get_active_memory()
