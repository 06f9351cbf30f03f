"""Rows and slices that memory has no room for wait; nobody's tokens change by it."""

from __future__ import annotations

import random

from engine.core.limits import Fitting
from tests.engine.core.scheduler_bench import Bench


def test_a_row_joins_when_others_have_left_where_memory_has_no_room_for_both() -> None:
    bench = Bench()
    bench.fitting = Fitting(most_joins=0)
    for name in ("first", "second", "third"):
        bench.add(name, prompt_tokens=10, max_tokens=8)
    bench.run()
    assert bench.drawn_at["second"][0] > bench.drawn_at["first"][-1]
    assert bench.drawn_at["third"][0] > bench.drawn_at["second"][-1]


def test_a_slice_that_does_not_fit_waits_until_nobody_decodes() -> None:
    bench = Bench()
    bench.add("first", prompt_tokens=10, max_tokens=8)
    while "first" not in bench.drawn_at:
        bench.turn()
    bench.fitting = Fitting(may_slice=False)
    bench.add("second", prompt_tokens=500)
    bench.run()
    assert bench.drawn_at["second"][0] > bench.drawn_at["first"][-1]
    between = [one for one in bench.steps if one.slices and one.slices[0].row_ids == (1,)]
    assert between and bench.steps.index(between[0]) > 7


def test_everybody_ends_with_the_same_tokens_whatever_does_not_fit_meanwhile() -> None:
    def outputs(chooser: random.Random | None) -> list[list[int]]:
        bench = Bench()
        for number in range(12):
            bench.add(f"r{number}", prompt_tokens=1 + 40 * number, max_tokens=1 + number)
        while not bench.scheduler.is_idle:
            if chooser is not None:
                most_joins, may_slice = chooser.randrange(3), chooser.random() < 0.5
                bench.fitting = Fitting(most_joins=most_joins, may_slice=may_slice)
            bench.turn()
        return [list(one.output_token_ids) for one in bench.sequences.values()]

    undisturbed = outputs(None)
    assert [len(one) for one in undisturbed] == list(range(1, 13))
    for seed in range(20):
        assert outputs(random.Random(seed)) == undisturbed
