"""All sides of a comparison on one model: started, warm and idle.

It does not know what they will be asked.
"""

from __future__ import annotations

import contextlib
import dataclasses
import itertools
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

from tests.bench.exchange import Question, Target
from tests.bench.load import ask
from tests.bench.models import model_path
from tests.bench.names import MLX_LM_SERVER
from tests.bench.ours import Service, hearth_service
from tests.bench.prompts import PromptMaker
from tests.bench.report import BenchmarkFailed, Result
from tests.bench.rivals import InProcess, batch_generator, mlx_lm_server

NUM_EQUALITY_PROMPTS = 4
EQUALITY_TOKENS = 64


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Contestants:
    """`ours` is asked by one person; `service` knows more."""

    service: Service
    ours: Target
    server: Target
    generator: InProcess
    prompts: PromptMaker

    @property
    def targets(self) -> tuple[Target, Target]:
        """Those that are asked over HTTP."""
        return self.ours, self.server


@contextlib.contextmanager
def contestants(
    model: str,
    *,
    fields: dict[str, int | float] | None = None,
    server_options: Sequence[str] = (),
    **settings: str,
) -> Iterator[Contestants]:
    """Everybody on `model`, a short name; `fields` go into our registration of it, `settings` into
    our environment."""
    path = model_path(model)
    with contextlib.ExitStack() as stack:
        logs = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="hearth-bench-logs-")))
        service = stack.enter_context(hearth_service(**settings))
        sides = Contestants(
            service=service,
            ours=service.serve(model, path, **(fields or {})),
            server=stack.enter_context(mlx_lm_server(path, logs, *server_options)),
            generator=stack.enter_context(batch_generator(path, logs)),
            prompts=PromptMaker(path),
        )
        _warm_up(sides)
        yield sides


def check_equal_answers(model: str, sides: Contestants, *, least_share: float = 1.0) -> Result:
    """Greedy answers to the same prompts, alone: the share of their text until they differ, the
    shortest. Raises BenchmarkFailed below `least_share`."""
    shares = []
    for number in range(NUM_EQUALITY_PROMPTS):
        prompt = sides.prompts.prompt(f"equality {number}", tokens=40 * (number + 1))
        question = Question(prompt=prompt, max_tokens=EQUALITY_TOKENS)
        own, other = (ask(target, question) for target in sides.targets)
        if own.prompt_tokens != other.prompt_tokens:
            raise BenchmarkFailed(
                f"{model}: the prompt has {own.prompt_tokens} tokens with us,"
                f" {other.prompt_tokens} with {MLX_LM_SERVER}"
            )
        shares.append(equal_share(own.text, other.text))
        if shares[-1] < least_share:
            raise BenchmarkFailed(f"{model}: answers differ\n  {own.text!r}\n  {other.text!r}")
    return Result(
        name=f"{model}.equal_answers_alone",
        value=min(shares),
        unit="share",
        rival=MLX_LM_SERVER,
        bar=least_share,
        better="higher",
    )


def equal_share(own: str, other: str) -> float:
    """How much of two texts is the same from their beginnings on."""
    if is_same_text(own, other):
        return 1.0
    pairs = zip(own, other, strict=False)
    same = itertools.takewhile(lambda pair: pair[0] == pair[1], pairs)
    return len(list(same)) / max(len(own), len(other))


def is_same_text(own: str, other: str) -> bool:
    """Half a character at the end may be shown as a replacement character or not at all."""
    return own.rstrip("\ufffd") == other.rstrip("\ufffd")


def _warm_up(sides: Contestants) -> None:
    question = Question(prompt=sides.prompts.prompt("warm-up", tokens=40), max_tokens=16)
    for target in sides.targets:
        ask(target, question)
    sides.generator.run_load([[question]])
