"""Rows of very different length decode in groups; nobody's tokens change by it."""

from __future__ import annotations

import random

import mlx.core as mx
import pytest

from engine.model import caches as row_caches
from engine.model.batch import RowBatch
from engine.model.grouped_batch import GroupedBatch, pass_bytes_of
from tests.engine.model.rig import loaded, prefilled

NAMES = ["tiny-qwen3", "tiny-gemma3", "tiny-qwen3-next", "tiny-mamba"]


def drawn(batch: RowBatch | GroupedBatch) -> dict[int, int]:
    """The token that each row draws, by row."""
    tokens = mx.argmax(batch.forward(), axis=-1)
    batch.feed(tokens)
    drawn = dict(zip(batch.places, tokens.tolist(), strict=True))  # type: ignore[arg-type]
    return {row_id: token for row_id, token in drawn.items() if row_id is not None}


def test_one_long_row_leaves_the_short_ones_their_own_group() -> None:
    model = loaded("tiny-qwen3").model
    batch = GroupedBatch(model, pass_bytes=100_000)
    batch.join([prefilled("tiny-qwen3", number, 20 + number) for number in range(3)])
    assert batch.num_groups == 1
    before = batch.num_bytes
    batch.join([prefilled("tiny-qwen3", 7, 900)])
    assert batch.num_groups == 2
    assert batch.num_bytes < 2 * before + prefilled("tiny-qwen3", 7, 900).caches[0].nbytes * 4
    batch.leave((7,))
    assert batch.row_ids == [0, 1, 2] and batch.num_groups == 1


def test_rows_move_to_another_group_only_where_that_saves_a_fifth() -> None:
    model, name = loaded("tiny-qwen3").model, "tiny-qwen3"
    token_bytes = int(row_caches.bytes_per_token(prefilled(name, 0, 300).caches))
    batch = GroupedBatch(model, pass_bytes=300 * token_bytes)
    batch.join([prefilled(name, 0, 300), prefilled(name, 1, 600)])
    assert batch.num_groups == 1
    batch.join([prefilled(name, 2, 310)])  # two groups would save a twelfth
    assert batch.num_groups == 1
    batch.join([prefilled(name, row, 300 + row) for row in range(3, 7)])
    assert batch.num_groups == 2


def test_groups_stay_apart_where_memory_has_no_room_for_one() -> None:
    """Others leave: heavy weights would have the rest share a pass, padded."""
    model = loaded("tiny-qwen3").model
    batch = GroupedBatch(model, pass_bytes=pass_bytes_of(model))
    batch.most_bytes = 0
    batch.join([prefilled("tiny-qwen3", row, length) for row, length in enumerate((20, 21, 900))])
    assert batch.num_groups == 2
    before = batch.num_bytes
    batch.leave((0,))
    assert batch.num_groups == 2
    assert batch.num_bytes < before
    batch.most_bytes = 1 << 40
    batch.join([prefilled("tiny-qwen3", 3, 30)])
    batch.leave((3,))
    assert batch.num_groups == 1


def test_heavy_weights_keep_all_rows_together() -> None:
    model = loaded("tiny-qwen3").model
    batch = GroupedBatch(model, pass_bytes=pass_bytes_of(model))
    batch.join([prefilled("tiny-qwen3", 0, 20), prefilled("tiny-qwen3", 1, 900)])
    assert batch.num_groups == 1


@pytest.mark.parametrize("name", NAMES)
def test_tokens_are_those_of_one_batch(name: str) -> None:
    """Random joins and leaves; groups form, grow, and dissolve meanwhile."""
    chooser = random.Random(name)
    model = loaded(name).model
    grouped, single = GroupedBatch(model, pass_bytes=40_000), RowBatch(model)
    most_groups = 0
    for turn in range(24):
        if len(single.row_ids) < 6 and chooser.random() < 0.7:
            length = chooser.choice([3, 8, 30, 31, 200, 210, 500])
            for batch in (grouped, single):
                batch.join([prefilled(name, turn, length)])
        elif single.row_ids:
            gone = tuple(
                chooser.sample(single.row_ids, min(len(single.row_ids), chooser.randint(1, 2)))
            )
            grouped.leave(gone)
            single.leave(gone)
            assert set(grouped.row_ids) == set(single.row_ids)
        most_groups = max(most_groups, grouped.num_groups)
        for _ in range(chooser.randint(0, 3)):
            if single.row_ids:
                assert drawn(grouped) == drawn(single)
    assert name == "tiny-mamba" or most_groups > 1


def test_a_row_is_found_in_its_group() -> None:
    model = loaded("tiny-qwen3").model
    batch = GroupedBatch(model, pass_bytes=100_000)
    batch.join([prefilled("tiny-qwen3", 0, 20), prefilled("tiny-qwen3", 1, 900)])
    drawn(batch)
    caches, length = batch.extract(1)
    assert length == 901 and caches[0].size() == 901


@pytest.mark.parametrize("lengths", [(255,), (255, 255), (255, 200)])
def test_it_says_before_a_step_whose_buffers_that_step_makes_larger(
    lengths: tuple[int, ...],
) -> None:
    batch = GroupedBatch(loaded("tiny-qwen3").model, pass_bytes=1 << 40)
    batch.join([prefilled("tiny-qwen3", place, length) for place, length in enumerate(lengths)])
    said = []
    for _ in range(3):
        said.append(batch.growing)
        before = batch.num_bytes
        drawn(batch)
        assert bool(said[-1]) == (batch.num_bytes > before)
    assert sorted(said) == [(), (), ((len(lengths), 256),)]


def test_its_groups_are_known_before_rows_leave_and_join() -> None:
    model, name = loaded("tiny-qwen3").model, "tiny-qwen3"
    chooser = random.Random(5)
    token_bytes = row_caches.bytes_per_token(prefilled(name, 0, 300).caches)
    batch = GroupedBatch(model, pass_bytes=600 * int(token_bytes))
    seen = set()
    for number in range(0, 60, 2):
        batch.most_bytes = chooser.choice((1_000, 4_000, 100_000)) * token_bytes
        leaves = tuple(chooser.sample(batch.row_ids, k=min(len(batch.row_ids) // 3, 2)))
        lengths: tuple[int, ...] = (
            chooser.choice((20, 250, 600, 1500)),
            chooser.choice((30, 700)),
        )
        if number % 3 == 2:
            lengths = ()
        rows = [prefilled(name, number + one, length) for one, length in enumerate(lengths)]
        joining = {row.row_id: (row.caches, row.length) for row in rows}
        known = batch.groups_after(leaves, joining)
        batch.leave(leaves)
        if rows:
            batch.join(rows)
        sizes = [len(group.places) for group in batch._groups]
        assert [one.num_rows for one in known] == sizes
        held = sum(one.num_rows * one.num_tokens for one in known) * token_bytes
        assert held / 2 < batch.num_bytes <= held  # buffers of rows that stay may be narrower
        drawn(batch)
        seen.add(len(known))
    assert len(seen) > 2
