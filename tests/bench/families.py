"""Every architecture of mlx-lm as a tiny model with random weights, in process: is each answer what
it is alone?

    answers    greedy, of nine rows that join and leave at random, against mlx-lm's own loop
    lives      drawn in every way, cancelled, paused, failing, beside a prefix cache that is too
               small, against the same requests alone without one
    row bytes  what a row is said to take by its config alone / what its caches hold

What mlx-lm itself cannot compute here is told and does not count, nor what it computes otherwise
when a prompt is cut otherwise. `--models` names some of them.
"""

from __future__ import annotations

import dataclasses
import multiprocessing
import os
import random
import sys
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from typing import Any

import mlx.core as mx
import numpy as np
import numpy.typing as npt

from engine.model.caches import new_caches, num_bytes
from engine.model.snapshots import needs_of
from engine.sizing.estimate import Estimate, Numbers
from engine.sizing.shape import shape_of
from tests.bench.family_configs import config_of, family_names
from tests.bench.options import Options
from tests.bench.report import BenchmarkFailed, Report, Result, text_table
from tests.engine.model.rig import (
    Run,
    as_mlx_lm_has_it,
    loaded,
    make_handle,
    prefilled,
    random_works,
    reference_tokens,
    register,
)
from tests.engine.model.test_equality import run_with_random_joins
from tests.engine.model.test_whole_lives import requests_that_differ, run_with_cache

SIZED_TOKENS = 512
CUT_TOLERANCE = 0.05


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """`fault`: why mlx-lm itself does not compute it, or why it could not be compared."""

    family: str
    is_batched: bool = False
    keeps_prefixes: bool = False
    answers_alike: bool = False
    lives_alike: bool = False
    row_bytes_ratio: float = 0.0
    fault: str = ""
    is_mlx_lms: bool = False


def run(options: Options) -> Report:
    os.environ["MLX_ENABLE_TF32"] = "0"  # CUDA would round what is multiplied to ten bits
    names = options.models or tuple(family_names())
    with Apart() as apart:
        outcomes = [_outcome(apart, name) for name in names]
    known = [one for one in outcomes if not one.is_mlx_lms]
    results = [
        _share("families.answers", [one.answers_alike for one in known]),
        _share("families.lives", [one.lives_alike for one in known]),
        Result(
            name="families.compared",
            value=len(known),
            unit="of " + str(len(names)),
            better="higher",
        ),
    ]
    return Report(results=results, tables=[_table(outcomes)])


class Apart:
    """A process of its own, made anew where one ended: what a model's code does ends no more."""

    def __enter__(self) -> Apart:
        self._pool = self._open()
        return self

    def __exit__(self, *_: object) -> None:
        self._pool.shutdown()

    def ask(self, what: Callable[[str], Any], name: str) -> Any:
        """Raises what it raises, BrokenProcessPool where it ended the process."""
        try:
            return self._pool.submit(what, name).result()
        except BrokenProcessPool:
            self._pool = self._open()
            raise

    def _open(self) -> ProcessPoolExecutor:
        return ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn"))


def _outcome(apart: Apart, name: str) -> Outcome:
    print(name, file=sys.stderr)
    try:
        apart.ask(answer_by_mlx_lm, name)
    except Exception as error:  # whatever its code raises
        return Outcome(family=name, fault=_told(error), is_mlx_lms=True)
    try:
        outcome: Outcome = apart.ask(compare, name)
    except Exception as error:
        return Outcome(family=name, fault=_told(error))
    return outcome


def answer_by_mlx_lm(name: str) -> None:
    register(name, config_of(name))
    for work in random_works(3, 9):
        reference_tokens(name, work)
    chooser = random.Random(1)
    long = [chooser.randrange(10, 4000) for _ in range(SIZED_TOKENS)]
    with as_mlx_lm_has_it(name) as model:
        whole, cut = (_last_logits(model, long, first) for first in (0, SIZED_TOKENS - 1))
    if np.abs(whole - cut).max() > CUT_TOLERANCE * whole.std():
        raise BenchmarkFailed("its logits depend on how a prompt is cut")


def _last_logits(model: Any, token_ids: Sequence[int], first: int) -> npt.NDArray[np.float32]:
    """Where so many tokens are computed before the others."""
    caches = new_caches(model)
    for part in (token_ids[:first], token_ids[first:]):
        if part:
            logits = model(mx.array([part], mx.uint32), cache=caches)
            mx.eval(logits)
    return np.array(logits[0, -1])


def compare(name: str) -> Outcome:
    register(name, config_of(name))
    works, run = random_works(3, 9), Run(make_handle(name))
    run_with_random_joins(run, works, seed=3)
    answers = [run.tokens(one.request_id) for one in works]
    chooser = random.Random(1)
    keeps_prefixes = needs_of(new_caches(loaded(name).model)) is not None
    lives = run_with_cache(name, chooser) if keeps_prefixes else Run(make_handle(name))
    estimate = Estimate(shape_of(config_of(name)), Numbers(compute_bytes=4, may_fuse=False))
    held = num_bytes(prefilled(name, 1, SIZED_TOKENS).caches)
    return Outcome(
        family=name,
        is_batched=loaded(name).is_batchable,
        answers_alike=answers == [reference_tokens(name, one) for one in works],
        keeps_prefixes=keeps_prefixes,
        lives_alike=not requests_that_differ(name, lives, chooser),
        row_bytes_ratio=estimate.row_bytes(SIZED_TOKENS, slice_tokens=SIZED_TOKENS) / held,
    )


def _told(error: Exception) -> str:
    return f"{type(error).__name__}: {error}".splitlines()[0][:80]


def _share(name: str, held: list[bool]) -> Result:
    value = sum(held) / max(len(held), 1)
    return Result(name=name, value=value, unit="share", better="higher", rival="alone", bar=1.0)


def _table(outcomes: list[Outcome]) -> str:
    header = ["architecture", "batched", "prefixes", "answers", "lives", "row bytes", "fault"]
    return text_table(header, [_line(one) for one in outcomes])


def _line(outcome: Outcome) -> list[str]:
    if outcome.fault:
        whose = "mlx-lm's own: " if outcome.is_mlx_lms else ""
        return [outcome.family, *[""] * 5, whose + outcome.fault]
    told = (
        *(outcome.is_batched, outcome.keeps_prefixes),
        *(outcome.answers_alike, outcome.lives_alike),
    )
    ratio = f"{outcome.row_bytes_ratio:.2f}"
    return [outcome.family, *("yes" if one else "no" for one in told), ratio, ""]
