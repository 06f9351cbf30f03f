"""Prints the demo model's pass rate per skill: `python -m engine.demo.evaluate [--model DIR]`."""

from __future__ import annotations

import argparse
import time
from collections import defaultdict
from pathlib import Path

from engine.demo.answering import MODEL_FOLDER, DemoModel
from engine.demo.exam import Case, cases

_PROMPTS_AT_ONCE = 64


def failures_by_skill(model: DemoModel, exam: list[Case]) -> dict[str, tuple[int, list[str]]]:
    """Per skill: how many cases there were, and what each failed one said."""
    counts: defaultdict[str, int] = defaultdict(int)
    failures: defaultdict[str, list[str]] = defaultdict(list)
    for start in range(0, len(exam), _PROMPTS_AT_ONCE):
        part = exam[start : start + _PROMPTS_AT_ONCE]
        answers = model.answer([case.prompt for case in part])
        for case, answer in zip(part, answers, strict=True):
            counts[case.skill] += 1
            if not case.is_right(answer):
                asked = case.prompt.messages[-1]["content"]
                failures[case.skill].append(f"{asked!r} -> {answer!r}")
    return {skill: (count, failures[skill]) for skill, count in counts.items()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", type=Path, default=MODEL_FOLDER)
    parser.add_argument("--each", type=int, default=60, help="cases per drawn skill")
    parser.add_argument("--show", type=int, default=0, help="failures to show per skill")
    arguments = parser.parse_args()
    started = time.monotonic()
    results = failures_by_skill(DemoModel(arguments.model), cases(each=arguments.each))
    print(f"{'skill':<28} {'passed':>9}")
    for skill, (count, failed) in results.items():
        passed = count - len(failed)
        print(f"{skill:<28} {passed:>4}/{count:<4} {passed / count:>6.1%}")
        for failure in failed[: arguments.show]:
            print("    ", failure[:400])
    print(f"{time.monotonic() - started:.0f} s")


if __name__ == "__main__":
    main()
