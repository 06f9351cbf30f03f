"""Whether the time to the first token tells that somebody has sent this prompt before.

One person sends half of the prompts; another then sends all, in a random order, and guesses from
the times. The share of pairs guessed right is the AUC: 0.5 knows nothing, 1 knows all. The same
within one person shows that there is something to be seen. Our whole service over HTTP.

Times that tell nothing still give an AUC that strays from 0.5 by its standard error: 0.026 of 250
and 250 prompts, so that one run in forty misses the bar by chance. Across people there are so many
prompts that the bar is four of them away.
"""

from __future__ import annotations

import math
import random
from collections.abc import Sequence

from tests.bench.exchange import Question, Target
from tests.bench.load import ask, quiet_collector
from tests.bench.models import model_path
from tests.bench.names import HEARTH
from tests.bench.options import Options
from tests.bench.prompts import PromptMaker
from tests.bench.report import BenchmarkFailed, Report, Result
from tests.stack import Stack, running_stack

NUM_ACROSS = 1_000
NUM_WITHIN = 250
PROMPT_TOKENS = 1_800  # as those of `cached`: the longer, the more its time could tell
ANSWER_TOKENS = 2
ACROSS_BAR = 0.55
WITHIN_BAR = 0.99
_NEW_PERSON = """
from django.contrib.auth import get_user_model
get_user_model().objects.create_user({email!r}, name="Probe")
"""


def run(options: Options) -> Report:
    num_across, num_within = options.rounds or NUM_ACROSS, options.rounds or NUM_WITHIN
    report = Report()
    with running_stack() as stack:
        keys = [stack.create_api_key("bench"), _second_key(stack)]
        for model in options.models or ("tiny",):
            path = model_path(model)
            stack.manage("add_model", str(path), "--name", model)
            one, other = (
                Target(name=HEARTH, port=stack.port, model=model, api_key=key) for key in keys
            )
            prompts = PromptMaker(path)
            across = probe(one, other, prompts, f"{model} across", num_across)
            within = probe(one, one, prompts, f"{model} within", num_within)
            report.results += [
                _share(f"{model}.auc_across_people", across, "lower", ACROSS_BAR),
                _share(f"{model}.auc_standard_error", standard_error(num_across), "lower", None),
                _share(f"{model}.auc_within_one", within, "higher", WITHIN_BAR),
            ]
    return report


def probe(
    sender: Target, prober: Target, prompts: PromptMaker, label: str, num_probes: int
) -> float:
    """The AUC of the prober's times for "somebody has sent this"."""
    sent = [prompts.prompt(f"{label} sent {n}", tokens=PROMPT_TOKENS) for n in range(num_probes)]
    fresh = [prompts.prompt(f"{label} fresh {n}", tokens=PROMPT_TOKENS) for n in range(num_probes)]
    with quiet_collector():
        for prompt in sent:
            _ttft(sender, prompt)
        order = [*((prompt, True) for prompt in sent), *((prompt, False) for prompt in fresh)]
        random.Random(label).shuffle(order)
        for number in range(3):
            _ttft(prober, prompts.prompt(f"{label} warm-up {number}", tokens=PROMPT_TOKENS))
        times = [(_ttft(prober, prompt), was_sent) for prompt, was_sent in order]
    known = [seconds for seconds, was_sent in times if was_sent]
    unknown = [seconds for seconds, was_sent in times if not was_sent]
    return area_under_curve(known, unknown)


def area_under_curve(lower: Sequence[float], higher: Sequence[float]) -> float:
    """How often one of `lower` is below one of `higher`; a tie is half a guess."""
    if not lower or not higher:
        raise BenchmarkFailed("no times to compare")
    won = sum((one < other) + (one == other) / 2 for one in lower for other in higher)
    return won / (len(lower) * len(higher))


def standard_error(num_probes: int) -> float:
    """Of the AUC of times that tell nothing, with so many of each kind (Mann and Whitney, 1947)."""
    return math.sqrt((2 * num_probes + 1) / (12 * num_probes**2))


def _second_key(stack: Stack) -> str:
    email = "probe@example.org"
    stack.manage("shell", "-c", _NEW_PERSON.format(email=email))
    return stack.manage("create_api_key", email, "bench")


def _ttft(target: Target, prompt: str) -> float:
    return ask(target, Question(prompt=prompt, max_tokens=ANSWER_TOKENS)).ttft


def _share(name: str, value: float, better: str, bar: float | None) -> Result:
    return Result(
        name=name,
        value=value,
        unit="share",
        better="lower" if better == "lower" else "higher",
        bar=bar,
    )
