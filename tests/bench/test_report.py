"""What is printed: the JSON line's shape, what holds, the tables."""

from __future__ import annotations

import json

from tests.bench.report import (
    Report,
    Result,
    describe_machine,
    json_line,
    milliseconds,
    ratio,
    results_table,
    text_table,
)


def test_the_json_line_has_the_agreed_shape() -> None:
    result = ratio("small-8.speed", 1.234567, better="higher", bar=1.2, rival="mlx_lm.server")
    line = json_line("throughput", [result], {"cores": 2})
    assert "\n" not in line
    assert json.loads(line) == {
        "bench": "throughput",
        "results": [
            {
                "name": "small-8.speed",
                "value": 1.2346,
                "unit": "ratio",
                "rival": "mlx_lm.server",
                "bar": 1.2,
                "better": "higher",
                "holds": True,
            }
        ],
        "machine": {"cores": 2},
    }


def test_a_lower_value_holds_below_its_bar_and_a_higher_one_above() -> None:
    assert milliseconds("wait", 0.010, bar=10.0).holds
    assert not milliseconds("wait", 0.011, bar=10.0).holds
    assert ratio("speed", 1.0, better="higher", bar=1.0).holds
    assert not ratio("speed", 0.9, better="higher", bar=1.0).holds


def test_what_has_no_bar_holds() -> None:
    assert Result(name="speed", value=0.0, unit="tok/s", better="higher").holds


def test_the_table_says_which_bar_is_missed() -> None:
    table = results_table([milliseconds("wait", 0.5, bar=100.0), ratio("speed", 2.0)])
    wait, speed = table.splitlines()[2:]
    assert wait.split("|")[5:7] == [" ≤ 100 ", " NO    "]
    assert speed.split("|")[5:7] == ["       ", "       "]


def test_columns_of_a_table_are_aligned() -> None:
    lines = text_table(["side", "tok/s"], [["hearth", "1"], ["BatchGenerator", "100"]]).splitlines()
    assert len({len(line) for line in lines}) == 1
    assert lines[1].startswith("| ---")


def test_beside_tables_only_what_has_a_bar_is_listed_again() -> None:
    with_bar, without = ratio("a", 1.0, bar=2.0), ratio("b", 1.0)
    assert Report(results=[with_bar, without]).to_print == [with_bar, without]
    assert Report(results=[with_bar, without], tables=["..."]).to_print == [with_bar]


def test_the_machine_is_named_with_versions_load_and_commit() -> None:
    machine = describe_machine()
    assert {"cpu", "cores", "python", "mlx", "mlx_lm", "load", "commit"} <= machine.keys()
    assert machine["mlx_lm"] and machine["commit"] and machine["cpu"]
