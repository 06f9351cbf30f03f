"""Which inputs of embeddings and rerankings are computed together."""

from __future__ import annotations

import pytest

from engine import wire
from engine.core.bundling import Fits, Input, Pending, plan_bundle
from engine.core.cost import CostModel

MANY_ROWS, MUCH_TIME = 100, 1000.0
NOW = 50.0


def learned() -> CostModel:
    """10 ms a turn and 1 ms a token, whatever stands before it."""
    cost = CostModel()
    for tokens in [16, 64, 256, 1024] * 10:
        cost.learn(tokens=tokens, context=tokens / 2, seconds=0.01 + tokens * 0.001)
    return cost


def request(
    name: str,
    *lengths: int,
    waited: float = 0.0,
    priority: wire.Priority = wire.Priority.INTERACTIVE,
) -> Pending:
    inputs = [
        Input(request_id=name, place=place, token_ids=(7,) * length)
        for place, length in enumerate(sorted(lengths))
    ]
    return Pending(inputs=inputs, priority=priority, arrived_at=NOW - waited)


def bundle(
    *pending: Pending,
    seconds: float = MUCH_TIME,
    max_rows: int = MANY_ROWS,
    fits: Fits | None = None,
) -> list[tuple[str, int]]:
    limits = {} if fits is None else {"fits": fits}
    planned = plan_bundle(
        pending, cost=learned(), seconds=seconds, now=NOW, max_rows=max_rows, **limits
    )
    return [(one.request_id, len(one.token_ids)) for one in planned]


def test_the_request_with_least_left_goes_first() -> None:
    many = request("many", *[30] * 40)
    assert bundle(many, request("few", 30, 30), max_rows=2) == [("few", 30)] * 2
    assert bundle(many, request("few", 30, 30), max_rows=3)[-1] == ("many", 30)


def test_who_has_waited_long_is_not_passed_by_newcomers_for_ever() -> None:
    """1,200 tokens are 1.2 s of work more than 30; a second waited takes half a second off."""
    newcomer = request("newcomer", 30)
    assert bundle(request("many", *[30] * 40, waited=2.0), newcomer, max_rows=1) == [
        ("newcomer", 30)
    ]
    assert bundle(request("many", *[30] * 40, waited=3.0), newcomer, max_rows=1) == [("many", 30)]


@pytest.mark.parametrize(
    ("priority", "patience"), [(wire.Priority.API, 15), (wire.Priority.BATCH, 60)]
)
def test_a_lower_class_waits_until_its_patience_has_ended(
    priority: wire.Priority, patience: float
) -> None:
    """It has less to do by 0.6 s, which counts like 1.2 s of waiting."""
    person = request("person", *[30] * 21)

    def first(waited: float) -> str:
        lower = request("lower", 30, waited=waited, priority=priority)
        return bundle(lower, person, max_rows=1)[0][0]

    assert first(patience - 1.3) == "person"
    assert first(patience - 1.1) == "lower"


def test_inputs_of_other_lengths_wait_rather_than_be_padded() -> None:
    mixed = request("mixed", 100, 110, 190, 300)
    assert bundle(mixed) == [("mixed", 100), ("mixed", 110), ("mixed", 190)]
    assert bundle(request("one", 100), request("other", 40, 120, 300)) == [
        ("one", 100),
        ("other", 120),
    ]


def test_a_bundle_fits_into_its_time_padding_included() -> None:
    """Two rows of 100 take 0.21 s, three 0.31 s; beside 190 tokens each takes those of 190."""
    assert len(bundle(request("even", *[100] * 9), seconds=0.32)) == 3
    assert len(bundle(request("odd", 100, 190), seconds=0.32)) == 1
    assert len(bundle(request("odd", 100, 190), seconds=0.42)) == 2
    longer_first = (request("odd", 100, 190), request("third", 100, 100, 100))
    assert bundle(*longer_first, seconds=0.42) == [("odd", 100), ("odd", 190)]


def test_one_that_is_too_long_for_any_turn_is_a_bundle_alone() -> None:
    assert bundle(request("long", 5000, 5000), seconds=0.1) == [("long", 5000)]
    assert bundle(request("longer", 9000, 9000)) == [("longer", 9000)]


def test_a_bundle_has_no_more_tokens_than_compute_faster() -> None:
    assert len(bundle(request("many", *[1000] * 20))) == 8  # of 8,192 tokens


def test_a_bundle_fits_into_memory() -> None:
    asked: list[tuple[int, int]] = []

    def fits(num_rows: int, num_tokens: int) -> bool:
        asked.append((num_rows, num_tokens))
        return num_rows * num_tokens <= 330

    assert len(bundle(request("some", 100, 105, 110, 110), fits=fits)) == 3
    assert asked == [(2, 105), (3, 110), (4, 110)]
    asked.clear()
    bundle(request("odd", 50, 60), request("third", 50, 50, 50), fits=fits)
    assert asked == [(num_rows, 60) for num_rows in range(2, 6)]
