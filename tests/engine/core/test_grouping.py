"""Rows share a batch unless padding costs more than another pass over the weights."""

from __future__ import annotations

import itertools
import random

from engine.core.grouping import MAX_GROUPS, group_by_length, least_padded, padded_bytes


def grouped(lengths: list[int], *, pass_bytes: float = 1000, bytes_per_token: float = 1) -> list:
    return group_by_length(lengths, pass_bytes=pass_bytes, bytes_per_token=bytes_per_token)


def test_rows_of_about_one_length_stay_together() -> None:
    assert grouped([100, 90, 110, 100]) == [[0, 1, 2, 3]]


def test_a_very_long_row_decodes_by_itself() -> None:
    assert grouped([100, 6000, 110, 100]) == [[0, 2, 3], [1]]


def test_heavy_weights_are_read_once() -> None:
    assert grouped([100, 6000, 110, 100], pass_bytes=50_000) == [[0, 1, 2, 3]]


def test_without_padded_layers_there_is_one_group() -> None:
    assert grouped([100, 6000], bytes_per_token=0) == [[0, 1]]
    assert grouped([]) == []


def test_no_other_grouping_costs_less() -> None:
    chooser = random.Random(11)
    for _ in range(60):
        lengths = [chooser.choice([10, 50, 400, 3000, 9000]) for _ in range(6)]
        weights = chooser.choice([100, 2000, 20_000])
        groups = grouped(lengths, pass_bytes=weights)
        assert sorted(itertools.chain(*groups)) == list(range(6))
        assert len(groups) <= MAX_GROUPS
        cost = padded_bytes(groups, lengths, pass_bytes=weights, bytes_per_token=1)
        assert cost == min(
            padded_bytes(other, lengths, pass_bytes=weights, bytes_per_token=1)
            for other in all_groupings(6)
            if len(other) <= MAX_GROUPS
        )


def test_the_least_padding_is_that_of_groups_that_cost_no_pass() -> None:
    chooser = random.Random(5)
    for _ in range(60):
        lengths = [chooser.choice([256, 512, 1024, 4096, 5120, 8192]) for _ in range(9)]
        parts = least_padded(lengths)
        assert sum(rows for rows, _ in parts) == 9
        groups = grouped(lengths, pass_bytes=0)
        padded = padded_bytes(groups, lengths, pass_bytes=0, bytes_per_token=1)
        assert sum(rows * longest for rows, longest in parts) == padded
    assert least_padded([]) == []


def all_groupings(number: int) -> list[list[list[int]]]:
    """Every way to split 0..number-1 into groups."""
    if number == 0:
        return [[]]
    found = []
    for groups in all_groupings(number - 1):
        found.append([*groups, [number - 1]])
        for place in range(len(groups)):
            found.append(
                [[*one, number - 1] if at == place else one for at, one in enumerate(groups)]
            )
    return found
