"""How many questions a model answers rightly. They are asked one after the other, greedily and
without thinking, so that the same model gives the same answers run after run."""

from __future__ import annotations

from functools import partial

from hosting.benchmarks.asking import Asking, TooLarge
from hosting.benchmarks.extraction import judge, prompt_of
from hosting.models import Benchmark, BenchmarkAnswer

_DOING = "Answering questions"


def num_steps(benchmark: Benchmark) -> int:
    return benchmark.question_set.num_questions if benchmark.question_set else 0


def measure(asking: Asking) -> None:
    """Raises Failed, Cancelled, Stopped, BenchmarkChanged."""
    benchmark = asking.benchmark
    if benchmark.question_set is None:
        return
    for number, question in enumerate(benchmark.question_set.questions, start=1):
        order = asking.order(
            messages=({"role": "user", "content": prompt_of(question)},),
            max_tokens=benchmark.answer_tokens,
            template_options={"enable_thinking": False},
        )
        try:
            (outcome,) = asking.ask(partial(list, [order]), doing=_DOING, is_timed=False)
            text = outcome.answer.content
        except TooLarge as reason:
            text = f"(not asked: {reason})"
        verdict = judge(question, text)
        asking.write(
            num_steps=1,
            num_asked=number,
            num_right=benchmark.num_right + verdict.is_right,
            answer=BenchmarkAnswer(
                benchmark=benchmark,
                number=number,
                text=text,
                found=verdict.found,
                is_right=verdict.is_right,
            ),
        )
