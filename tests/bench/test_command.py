"""The command line, and that every benchmark it names is there."""

from __future__ import annotations

import pytest

from tests.bench.__main__ import BENCHMARKS, find_benchmark
from tests.bench.options import Options, parse_command


@pytest.mark.parametrize("name", BENCHMARKS)
def test_every_named_benchmark_can_be_run(name: str) -> None:
    assert callable(find_benchmark(name))


def test_a_benchmark_chooses_by_itself_what_it_is_not_told() -> None:
    command = parse_command(["throughput"], benchmarks=BENCHMARKS)
    assert command.options == Options()
    assert not command.is_json


def test_any_subset_can_be_told() -> None:
    arguments = ["throughput", "--json", "--models", "small", "--streams", "8,32"]
    command = parse_command(
        [*arguments, "--temperatures", "0,0.8", "--lengths", "equal"], benchmarks=BENCHMARKS
    )
    assert command.is_json
    assert command.options.models == ("small",)
    assert command.options.streams == (8, 32)
    assert command.options.temperatures == (0.0, 0.8)
    assert command.options.lengths == ("equal",)


def test_an_unknown_benchmark_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        parse_command(["warp"], benchmarks=BENCHMARKS)
    assert "throughput" in capsys.readouterr().err
