"""How much sooner a prompt is answered when its beginning was answered before, in four forms.

    repeat       the same conversation once more
    longer       the same message with six more tokens
    second_turn  the conversation with its answer and a further question
    edited       the same message, other words from its middle on

Each round has words of its own, so that a cold prompt is cold. It does not know who is asked.
"""

from __future__ import annotations

import contextlib
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

from tests.bench.exchange import Question, Target
from tests.bench.load import ask, quiet_collector
from tests.bench.ours import hearth_service
from tests.bench.prompts import PromptMaker
from tests.bench.rivals import mlx_lm_server
from tests.bench.stats import median_ratio

MORE_TOKENS = 6
TURN_TOKENS = 40
ANSWER_TOKENS = 8
FORMS = ("repeat", "longer", "second_turn", "edited")

Sample = dict[str, float]  # form, or "cold": seconds to the first token


@contextlib.contextmanager
def both_sides(name: str, model_path: Path) -> Iterator[tuple[Target, Target, PromptMaker]]:
    """Our service and mlx_lm.server on one model, both warm."""
    with contextlib.ExitStack() as stack:
        logs = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="hearth-bench-logs-")))
        ours = stack.enter_context(hearth_service()).serve(name, model_path)
        server = stack.enter_context(mlx_lm_server(model_path, logs))
        prompts = PromptMaker(model_path)
        for target in (ours, server):
            for number in range(3):
                prompt = prompts.prompt(f"warm-up {number}", tokens=300)
                ask(target, Question(prompt=prompt, max_tokens=ANSWER_TOKENS))
        yield ours, server, prompts


def measuring(
    target: Target, prompts: PromptMaker, label: str, *, tokens: int
) -> Callable[[int], Sample]:
    """One round: a cold prompt, then its four forms."""

    def measure(number: int) -> Sample:
        start = prompts.prompt(f"{label} {number}", tokens=tokens)
        other = prompts.prompt(f"{label} {number} other", tokens=tokens // 2)
        words = start.split()
        asked = {
            "repeat": [user(start)],
            "longer": [user(f"{start} {prompts.prompt('six', tokens=MORE_TOKENS)}")],
            "edited": [user(f"{' '.join(words[: len(words) // 2])} {other}")],
        }
        with quiet_collector():
            cold = ask(target, _question([user(start)]))
            asked["second_turn"] = [
                user(start),
                {"role": "assistant", "content": cold.text},
                user(prompts.prompt(f"{label} {number} turn", tokens=TURN_TOKENS)),
            ]
            sample = {form: ask(target, _question(asked[form])).ttft for form in FORMS}
        return {"cold": cold.ttft, **sample}

    return measure


def user(content: str) -> dict[str, str]:
    return {"role": "user", "content": content}


def over_cold(samples: list[Sample], form: str) -> float:
    return median_ratio([one[form] for one in samples], [one["cold"] for one in samples])


def _question(messages: list[dict[str, str]]) -> Question:
    return Question(prompt="", max_tokens=ANSWER_TOKENS, more={"messages": messages})
