"""The benchmarks of pressure and unloading, in small."""

from __future__ import annotations

from tests.bench import pressure, unload
from tests.bench.options import Options


def test_requests_near_a_limit_all_end() -> None:
    report = pressure.run(Options(models=("tiny",), rounds=15))
    by_name = {one.name: one for one in report.results}
    assert by_name["tiny.requests"].value == 15
    assert by_name["tiny.requests_without_end"].value == by_name["tiny.false_refusals"].value == 0
    assert 0 < by_name["tiny.highest_peak"].value < 2


def test_an_unloaded_model_is_gone() -> None:
    report = unload.run(Options(models=("tiny",), rounds=1))
    by_name = {one.name: one for one in report.results}
    assert by_name["tiny.loaded"].value > 4
    assert by_name["tiny.left_behind_most"].holds
