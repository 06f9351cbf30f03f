"""Finding the row that makes a step fail."""

from __future__ import annotations

import pytest

from engine.core.bisection import Bisection


@pytest.mark.parametrize("culprit", range(7))
def test_the_culprit_is_found_and_nobody_else(culprit: int) -> None:
    rows = [f"r{number}" for number in range(7)]
    bisection, found, num_failures = Bisection(), None, 0
    while found is None:
        group = [row for row in rows if bisection.may_run(row)]
        if f"r{culprit}" in group:
            num_failures += 1
            found = bisection.report_failure(group)
        else:
            for row in group:
                bisection.clear(row)
    assert found == f"r{culprit}"
    assert num_failures <= 4


def test_everybody_may_run_once_all_are_cleared() -> None:
    bisection = Bisection()
    bisection.report_failure(["a", "b"])
    assert bisection.may_run("a") and not bisection.may_run("b") and not bisection.may_run("new")
    bisection.clear("a")
    assert bisection.may_run("b")
    bisection.clear("b")
    assert bisection.may_run("new")


def test_a_row_that_runs_alone_and_fails_is_the_culprit() -> None:
    assert Bisection().report_failure(["only"]) == "only"


def test_a_row_that_was_cleared_and_fails_later_drags_nobody_down() -> None:
    """It drew a token, the search went on with others, and it ran beside them."""
    bisection = Bisection()
    assert bisection.report_failure(["a", "late"]) is None
    bisection.clear("a")
    bisection.clear("late")
    assert bisection.report_failure(["b", "c", "d", "late"]) is None
    assert bisection.may_run("b") and bisection.may_run("c")
    bisection.clear("b")
    bisection.clear("c")
    assert bisection.may_run("d") and bisection.may_run("late")
    bisection.clear("late")
    assert bisection.report_failure(["d", "late"]) is None, "d may be innocent"
    assert bisection.may_run("d") and not bisection.may_run("late")
    bisection.clear("d")
    assert bisection.report_failure(["d", "late"]) is None, "d still runs beside it"
    assert bisection.may_run("late") and not bisection.may_run("d")
    assert bisection.report_failure(["late"]) == "late"
