"""What is drafted from a row's own text, and how much of it is worth verifying."""

from __future__ import annotations

import itertools
import random

from hypothesis import given
from hypothesis import strategies as st

from engine.core.drafting import Drafting
from engine.core.lookup import PromptLookup
from engine.core.sequence import Sequence
from engine.core.step import Drawn, Outcome, Step
from tests.fakes import FakeGrammar, make_work

ROW = 7


def row(*, max_tokens: int = 1000, row_id: int = ROW) -> Sequence:
    work = make_work(f"r{row_id}", max_tokens=max_tokens)
    sequence = Sequence(work, delivered_token_ids=(), arrived_at=0.0)
    sequence.row_id, sequence.num_drawn = row_id, 1
    return sequence


class Device:
    """Steps of one row: a plain one takes a second, one that verifies so many times as long."""

    def __init__(self, *, cost: float, at_most: int = 16) -> None:
        self.drafting = Drafting(is_possible=True)
        self.cost, self.at_most = cost, at_most
        self.asked: list[int] = []

    def step(self, *, is_right: bool, finds: bool = True, row_id: int = ROW) -> None:
        most = self.drafting.most_tokens([row(row_id=row_id)], at_most=self.at_most)
        self.asked.append(most)
        num_drafted = most if finds else 0
        num_right = num_drafted if is_right else 0
        self.drafting.learn(
            Outcome(
                step=Step(decodes=(row_id,), most_draft_tokens=most),
                seconds=self.cost if num_drafted else 1.0,
                drawn=tuple(Drawn(row_id, 1) for _ in range(num_right + 1)),
                num_drafted=num_drafted,
            )
        )


@given(st.lists(st.integers(0, 3), max_size=60), st.integers(1, 9))
def test_the_last_occurrence_of_the_longest_known_ending_says_what_follows(
    token_ids: list[int], at_most: int
) -> None:
    expected: tuple[int, ...] = ()
    for order in (3, 8):
        ending = token_ids[-order:]
        for start in range(len(token_ids) - order):
            if len(ending) == order and token_ids[start : start + order] == ending:
                expected = tuple(token_ids[start + order : start + order + at_most])
    assert PromptLookup().draft(ROW, token_ids, at_most=at_most) == expected


def test_a_row_that_grows_is_followed_and_another_is_read_anew() -> None:
    chooser, lookup, lines = random.Random(1), PromptLookup(), {1: [0], 2: [3]}
    for _ in range(400):
        row_id = chooser.choice([1, 1, 1, 2])
        lines[row_id] += [chooser.randrange(4) for _ in range(chooser.randrange(1, 4))]
        known = list(lines[row_id])
        assert lookup.draft(row_id, known, at_most=5) == PromptLookup().draft(1, known, at_most=5)


def test_more_is_drafted_while_all_is_right_up_to_the_limit() -> None:
    device = Device(cost=1.5)
    for _ in range(6):
        device.step(is_right=True)
    assert device.asked == [0, 4, 8, 16, 16, 16]  # what a plain step takes is measured first


def test_it_rests_for_longer_and_longer_while_it_does_not_pay() -> None:
    device = Device(cost=1.5)
    for _ in range(400):
        device.step(is_right=False)
    tries = [number for number, most in enumerate(device.asked) if most]
    rests = [later - earlier for earlier, later in itertools.pairwise(tries)]
    assert rests == sorted(rests) and 4 < rests[0] < 10 and rests[-1] > 120


def test_what_costs_nothing_is_tried_for_ever() -> None:
    device = Device(cost=1.0)
    for _ in range(100):
        device.step(is_right=False)
    assert sum(most > 0 for most in device.asked) > 95


def test_a_plain_step_is_measured_again_from_time_to_time() -> None:
    device = Device(cost=1.5)
    for _ in range(300):
        device.step(is_right=True)
    assert 4 <= device.asked.count(0) <= 6


def test_where_nothing_is_found_the_device_is_let_run_ahead() -> None:
    device = Device(cost=1.5)
    for _ in range(100):
        device.step(is_right=True, finds=False)
    assert sum(most > 0 for most in device.asked) < 30


def test_another_row_begins_anew() -> None:
    device = Device(cost=3.0)
    for _ in range(50):
        device.step(is_right=False)
    device.step(is_right=True, row_id=ROW + 1)
    device.step(is_right=True, row_id=ROW + 1)
    assert device.asked[-1] == 4


def test_only_for_a_row_alone_that_may_draw_and_no_grammar_holds() -> None:
    device = Device(cost=1.0)
    device.step(is_right=True)
    drafting = device.drafting
    assert drafting.most_tokens([row()], at_most=16) == 4
    assert drafting.most_tokens([row(), row(row_id=8)], at_most=16) == 0
    assert drafting.most_tokens([row()], at_most=0) == 0
    assert drafting.most_tokens([row(max_tokens=3)], at_most=16) == 2
    assert drafting.most_tokens([row(max_tokens=1)], at_most=16) == 0
    held = row()
    held.grammar = FakeGrammar()
    assert drafting.most_tokens([held], at_most=16) == 0
    assert Drafting(is_possible=False).most_tokens([row()], at_most=16) == 0
