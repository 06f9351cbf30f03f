"""The benchmark of estimates on a few small mixes."""

from __future__ import annotations

from tests.bench.estimate import LARGE, LARGE_SIZES, TINY_SIZES, draw_mixes, run
from tests.bench.options import Options


def test_estimates_of_a_small_model_are_measured() -> None:
    report = run(Options(models=("tiny",), rounds=3))
    by_name = {one.name: one for one in report.results}
    assert by_name["mixes"].value == 3
    assert by_name["error_p95"].value < 0.4
    assert "tiny" in report.tables[0]


def test_mixes_are_the_same_every_time_and_stay_within_bounds() -> None:
    for name, sizes in ((LARGE, LARGE_SIZES), ("tiny-qwen3", TINY_SIZES)):
        mixes = list(draw_mixes(name, sizes))
        assert mixes == list(draw_mixes(name, sizes))
        assert len(mixes) == sizes.num_mixes + sizes.num_lessons
        assert max(len(one.lengths) * max(one.lengths) for one in mixes) <= sizes.most_tokens
        assert max(max(one.lengths) for one in mixes[sizes.num_lessons :]) == max(sizes.lengths)
