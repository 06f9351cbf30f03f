"""Rows join, move, grow and leave: of one layer only, and first the keys, old and new are alive."""

from __future__ import annotations

from collections.abc import Callable

import mlx.core as mx
import pytest

from engine.model import caches as row_caches
from engine.model import snapshots
from engine.model.batch import NewRow, RowBatch
from engine.model.grouped_batch import GroupedBatch
from tests.engine.devices import needs_exact_memory
from tests.engine.model.rig import loaded

pytestmark = needs_exact_memory

MODEL = "small-llama"
NUM_LAYERS = 6
HALF_A_LAYER = 0.55


def new_row(row_id: int, length: int) -> NewRow:
    model = loaded(MODEL).model
    caches = row_caches.new_caches(model)
    model(mx.ones((1, length), mx.uint32), cache=caches)
    row_caches.evaluate(caches)
    return NewRow(row_id=row_id, token_id=5, length=length, caches=caches)


def batch_of(*lengths: int, together_bytes: int = 0) -> RowBatch:
    batch = RowBatch(loaded(MODEL).model, together_bytes=together_bytes)
    batch.join([new_row(number, length) for number, length in enumerate(lengths)])
    return batch


def layers_beside(change: Callable[[], RowBatch | GroupedBatch]) -> float:
    """The peak of a change above what was there before or after it, in layers of the result."""
    mx.synchronize()
    before_bytes = mx.get_active_memory()
    mx.reset_peak_memory()
    batch = change()
    mx.synchronize()
    after_bytes = mx.get_active_memory()
    layer_bytes = batch.num_bytes / NUM_LAYERS
    return (mx.get_peak_memory() - max(before_bytes, after_bytes)) / layer_bytes


def join_to(batch: RowBatch | GroupedBatch, rows: list[NewRow]) -> RowBatch | GroupedBatch:
    batch.join(rows)
    return batch


@pytest.mark.parametrize(
    ("present", "added"),
    [
        pytest.param((300, 300, 300, 300), (300, 300), id="level and level"),
        pytest.param((300, 300, 300, 300), (200, 310), id="level becomes padded"),
        pytest.param((300, 200, 310, 150), (250, 290), id="padded and more"),
        pytest.param((300, 200, 310, 150), (900,), id="padded and a longer one"),
    ],
)
def test_a_join_copies_the_keys_of_one_layer_at_a_time(
    present: tuple[int, ...], added: tuple[int, ...]
) -> None:
    batch = batch_of(*present)
    rows = [new_row(10 + number, length) for number, length in enumerate(added)]
    assert layers_beside(lambda: join_to(batch, rows)) < HALF_A_LAYER


def test_as_much_is_copied_together_as_is_allowed() -> None:
    """A device that is waited for is waited for less often."""
    present = (300, 200, 310, 150)
    together_bytes = 2 * batch_of(*present).num_bytes // NUM_LAYERS
    batch = batch_of(*present, together_bytes=together_bytes)
    rows = [new_row(10, 250), new_row(11, 290)]
    assert HALF_A_LAYER < layers_beside(lambda: join_to(batch, rows)) < 2 + HALF_A_LAYER


def test_rows_that_move_to_other_groups_are_copied_as_rows_that_join() -> None:
    batch = GroupedBatch(loaded(MODEL).model, pass_bytes=1)
    batch.join([new_row(number, length) for number, length in enumerate((40, 300, 310))])
    groups = batch.num_groups
    rows = [new_row(10 + number, length) for number, length in enumerate((290, 1200, 1100, 60))]
    assert layers_beside(lambda: join_to(batch, rows)) < HALF_A_LAYER
    assert batch.num_groups != groups


def test_a_row_that_gets_a_group_of_its_own_lets_go_of_the_one_it_was_in() -> None:
    """All share one, as long as memory has room for their padding."""
    batch = GroupedBatch(loaded(MODEL).model, pass_bytes=1 << 40)
    lengths = (1000, 980, 960, 600, 200)
    batch.join([new_row(number, length) for number, length in enumerate(lengths)])
    assert batch.num_groups == 1
    batch.most_bytes = 0
    row = new_row(10, 300)
    mx.synchronize()
    caches_bytes = batch.num_bytes + row_caches.num_bytes(row.caches)
    others_bytes = mx.get_active_memory() - caches_bytes
    batch.join([row])
    mx.synchronize()
    assert batch.num_groups == 4
    held_bytes = mx.get_active_memory() - others_bytes - batch.num_bytes
    assert held_bytes < batch.num_bytes / NUM_LAYERS


def test_the_step_after_a_join_does_not_copy_the_batch_again() -> None:
    batch = batch_of(300, 200, 310, 150)
    num_bytes = batch.num_bytes
    mx.eval(batch.forward())
    assert batch.num_bytes == num_bytes


def test_rows_that_become_level_are_copied_as_rows_that_join() -> None:
    batch = batch_of(300, 300, 300, 310)

    def leave() -> RowBatch:
        batch.leave((3,))
        batch.close()
        row_caches.evaluate(batch.extract(0)[0])
        return batch

    assert layers_beside(leave) < HALF_A_LAYER
    assert batch.is_level


def test_the_padding_of_a_long_row_that_leaves_is_not_copied() -> None:
    batch = batch_of(300, 200, 310, 150, 290, 1900)

    def leave() -> RowBatch:
        batch.leave((5,))
        batch.close()
        mx.eval(batch.forward())
        return batch

    assert layers_beside(leave) < HALF_A_LAYER


def test_full_buffers_are_copied_as_rows_that_join() -> None:
    batch = batch_of(511, 200, 310, 150)
    mx.eval(batch.forward())
    assert batch.full_tokens == 512

    def grow() -> RowBatch:
        mx.eval(batch.forward())
        return batch

    assert layers_beside(grow) < HALF_A_LAYER
    assert batch.full_tokens == 0


def test_what_is_kept_of_a_row_is_copied_and_nothing_else_of_it() -> None:
    batch = batch_of(300, 1800)

    def keep_a_block() -> RowBatch:
        row, _ = batch.extract(1)
        (copy,) = snapshots.capture_slices(row, [(0, 256)])
        snapshots.compute([copy.content])
        mx.synchronize()
        return batch

    assert layers_beside(keep_a_block) < 1.2  # 256 of 1,800 tokens of six layers


def test_a_row_that_stays_alone_lets_go_of_the_others() -> None:
    batch = batch_of(300, 200, 310)
    mx.synchronize()
    held_bytes = mx.get_active_memory() - batch.num_bytes
    batch.leave((0, 1))
    batch.close()
    mx.eval(batch.forward())
    mx.synchronize()
    assert mx.get_active_memory() - held_bytes < 1.1 * batch.num_bytes
