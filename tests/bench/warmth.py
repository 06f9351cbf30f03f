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
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

from tests.bench.cold import Sample, over_cold
from tests.bench.exchange import Question, Target
from tests.bench.load import ask, quiet_collector
from tests.bench.names import HEARTH
from tests.bench.options import Options
from tests.bench.ours import hearth_service
from tests.bench.prompts import PromptMaker
from tests.bench.report import Result, milliseconds
from tests.bench.rivals import mlx_lm_server
from tests.bench.rounds import Budget, interleave
from tests.bench.stats import median
from tests.tiny_models import tiny_model_path

PROMPT_TOKENS = 1_800
MORE_TOKENS = 6
TURN_TOKENS = 40
ANSWER_TOKENS = 8
FORMS = ("repeat", "longer", "second_turn", "edited")


def measure_warmth(
    models: Mapping[str, str], options: Options, *, rounds: int
) -> Iterator[tuple[str, dict[str, list[Sample]]]]:
    """Of each model, by its short name: the samples of our service and of mlx_lm.server."""
    budget = Budget(options.seconds, num_parts=len(models))
    for model, recipe in models.items():
        with both_sides(model, tiny_model_path(recipe)) as (ours, server, prompts):
            yield (
                model,
                interleave(
                    {target.name: measuring(target, prompts, model) for target in (ours, server)},
                    rounds=options.rounds or rounds,
                    deadline=budget.next_deadline(),
                ),
            )


def warmth_results(
    model: str, samples: Mapping[str, list[Sample]], bars: Mapping[str, float]
) -> list[Result]:
    """The bars, by form, are ours to hold; the rival's figures stand beside them."""
    return [
        result
        for name, side in samples.items()
        for result in _side(model, name, side, bars if name == HEARTH else {})
    ]


def times(samples: list[Sample], form: str) -> list[float]:
    return [sample[form] for sample in samples]


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


def measuring(target: Target, prompts: PromptMaker, label: str) -> Callable[[int], Sample]:
    """One round: a cold prompt, then its four forms."""

    def measure(number: int) -> Sample:
        start = prompts.prompt(f"{label} {number}", tokens=PROMPT_TOKENS)
        other = prompts.prompt(f"{label} {number} other", tokens=PROMPT_TOKENS // 2)
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


def _side(model: str, name: str, samples: list[Sample], bars: Mapping[str, float]) -> list[Result]:
    return [
        *(
            milliseconds(f"{model}.{form}.{name}", median(times(samples, form)))
            for form in ("cold", *FORMS)
        ),
        *over_cold(model, samples, {form: bars.get(form) for form in FORMS}, side=f".{name}"),
    ]


def _question(messages: list[dict[str, str]]) -> Question:
    return Question(prompt="", max_tokens=ANSWER_TOKENS, more={"messages": messages})
