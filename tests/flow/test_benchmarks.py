"""Benchmarks of real models in the running service: measured, repeated, cancelled, interrupted."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from openai import OpenAI

from tests.flow.asking import ask
from tests.stack import Stack

pytestmark = pytest.mark.stack
PATIENCE_SECONDS = 240.0
MANY_STREAMS = ("8", "16", "24", "32", "40", "48", "56", "64")  # minutes, on any machine of tests
CANCEL = """
from accounts.models import User
from hosting.actions.benchmarks import cancel_benchmark
from hosting.models import Benchmark
for one in Benchmark.objects.filter(pk__in={}):
    cancel_benchmark(one, actor=User.objects.first())
"""
FEW = [
    {"question": "What is 12 + 30?", "answer": ["42", "12 + 30 = 42"], "category": "sums"},
    {"question": "Name the days of the week.", "answer": "none", "category": "lists"},
    {"question": "Which is red?", "choices": ["snow", "blood"], "answer": "blood"},
]


@pytest.fixture
def few(tmp_path: Path) -> str:
    file = tmp_path / "few.jsonl"
    file.write_text("".join(f"{json.dumps(one)}\n" for one in FEW))
    return str(file)


def begin(stack: Stack, model: str, *options: str) -> int:
    told = stack.manage("benchmark", model, stack.admin_email, *options)
    found = re.match(r"benchmark (\d+) ", told)
    assert found is not None, told
    return int(found[1])


def column(stack: Stack, number: int, name: str) -> Any:
    return stack.rows(f"SELECT {name} FROM hosting_benchmark WHERE id = {number}")[0][0]


def over(stack: Stack, number: int) -> str:
    def is_over() -> bool:
        return column(stack, number, "state") not in ("waiting", "running")

    stack.wait_until(is_over, "the benchmark is over", seconds=PATIENCE_SECONDS)
    return str(column(stack, number, "state"))


def wait_begun(stack: Stack, number: int, *, num_done: int = 1) -> None:
    def is_under_way() -> bool:
        return bool(column(stack, number, "num_done") >= num_done)

    stack.wait_until(is_under_way, "the benchmark is under way", seconds=PATIENCE_SECONDS)


def answers_of(stack: Stack, number: int) -> list[tuple[Any, ...]]:
    what = "number, text, found, is_right"
    of_this = f"WHERE benchmark_id = {number} ORDER BY number"
    return stack.rows(f"SELECT {what} FROM hosting_benchmarkanswer {of_this}")


def check_nothing_is_left(stack: Stack) -> None:
    stack.wait_settled()
    assert stack.num_rows("hosting_batchanswer") == 0


def test_speed_is_measured(stack: Stack, demo: str) -> None:
    number = begin(
        stack, demo, "--only", "speed", "--lengths", "32", "300", "5000", "--streams", "1", "3"
    )
    assert over(stack, number) == "done", column(stack, number, "detail")
    short, long, too_long, alone, three = json.loads(column(stack, number, "speed"))
    assert len(short["ttft"]) == len(long["rates"]) == 5
    assert min(*short["rates"], *long["rates"]) > 0
    assert 250 < long["warm_cached"] < 300  # the cache keeps nothing as short as the other one
    assert too_long["skipped"].startswith("The model takes 4,096 tokens")
    assert (alone["shortest"], three["shortest"]) == (128, 128)
    assert len(three["totals"]) == 5 and len(three["each"]) == len(three["ttft"]) == 15
    assert min(three["totals"]) > min(three["each"]) > 0
    assert column(stack, number, "num_done") == column(stack, number, "num_steps") == 33
    conditions = json.loads(column(stack, number, "conditions"))
    assert re.fullmatch("[0-9a-f]{16}", conditions["Model's fingerprint"])
    assert "mlx" in conditions["Versions"] and "engine" in conditions["Engines"]
    check_nothing_is_left(stack)


def test_the_same_model_answers_the_same_run_after_run(
    stack: Stack, client: OpenAI, demo: str, few: str
) -> None:
    options = ("--only", "accuracy", "--questions", few)
    runs = [begin(stack, demo, *options) for _ in range(2)]
    assert [over(stack, number) for number in runs] == ["done", "done"]
    first, second = (answers_of(stack, number) for number in runs)
    assert first == second and [row[0] for row in first] == [1, 2, 3]
    wanted = ask(client, demo, "Hello, who are you?")
    assert wanted  # people are served as before
    right = column(stack, runs[0], "num_right")
    assert right == sum(row[3] for row in first) and first[0][3] and not first[1][3]
    check_nothing_is_left(stack)


def test_what_runs_is_cancelled_at_once(stack: Stack, endless: str, few: str) -> None:
    number = begin(stack, endless, "--only", "speed", "--streams", *MANY_STREAMS)
    waiting = begin(stack, endless, "--only", "accuracy", "--questions", few)
    wait_begun(stack, number)
    stack.manage("shell", "-c", CANCEL.format((waiting, number)))
    assert over(stack, number) == over(stack, waiting) == "cancelled"
    check_nothing_is_left(stack)


def test_where_its_worker_is_killed_it_says_so_and_the_next_one_runs(
    stack: Stack, endless: str, demo: str, few: str
) -> None:
    number = begin(stack, endless, "--only", "speed", "--streams", "1", "2", "4", "8")
    waiting = begin(stack, demo, "--only", "accuracy", "--questions", few)
    wait_begun(stack, number, num_done=8)
    stack.wait_restarted("celery", stack.kill("celery"))
    assert over(stack, number) == "interrupted"
    assert "died" in column(stack, number, "detail")
    assert len(json.loads(column(stack, number, "speed"))) >= 1
    assert over(stack, waiting) == "done"
    check_nothing_is_left(stack)


@pytest.mark.parametrize("victim", ["engine", "ledger", "redis", "web", "intake"])
def test_whoever_else_is_killed_it_goes_on(stack: Stack, demo: str, few: str, victim: str) -> None:
    number = begin(stack, demo, "--questions", few, "--lengths", "64", "1024", "--streams", "2")
    wait_begun(stack, number, num_done=3)
    stack.wait_restarted(victim, stack.kill(victim))
    assert over(stack, number) == "done", column(stack, number, "detail")
    assert len(answers_of(stack, number)) == len(FEW)
    assert column(stack, number, "num_done") == column(stack, number, "num_steps")
    check_nothing_is_left(stack)
