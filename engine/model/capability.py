"""May this model's rows be batched? Asked of the model itself, when it is loaded.

Some families have no batch form of their caches; some ignore padding and would answer wrongly in
silence. Both are found by running two unequal rows together and each alone. Some choose whole
blocks of a long row to attend to, which padding shifts: short rows do not show that, the name for
it does. It does not know what is done with the answer.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any

import mlx.core as mx
import numpy as np

from engine.model import caches as row_caches
from engine.model.batch import NewRow, RowBatch
from engine.model.caches import Caches

_PROMPTS = ((11, 7, 5, 13, 17, 19, 23, 29, 31, 37, 41), (43, 9, 11, 5, 8))
_NUM_STEPS = 3
# In units of the logits' own spread: rounding stays far below, ignored padding far above.
_TOLERANCES = {mx.float32: 1e-2, mx.float16: 0.1, mx.bfloat16: 0.25}
# What a family's code raises that does not bear batches.
NO_BATCH_ERRORS = (ValueError, TypeError, AttributeError, LookupError, RuntimeError)

logger = logging.getLogger(__name__)


def check_batching(
    model: Any, new_caches: Callable[[], Caches] | None = None
) -> Iterator[bool | None]:
    """None after each forward, so that rows of other models go on in between; at last the verdict:
    whether two unequal rows give the same logits together as alone. `new_caches` makes an empty
    row; None: the model does."""
    new_caches = new_caches or partial(row_caches.new_caches, model)
    if _attends_to_blocks(model) or not row_caches.may_merge(new_caches()):
        yield False
        return
    alone = [_Rows(model, (prompt,), new_caches) for prompt in _PROMPTS]
    for rows in alone:
        yield from rows.run()
    together = _Rows(model, _PROMPTS, new_caches)
    try:
        yield from together.run()
    except NO_BATCH_ERRORS as error:
        logger.warning("model cannot be batched", extra={"error": repr(error)})
        yield False
        return
    yield _is_alike([rows.logits for rows in alone], together.logits)


def check_steps(model: Any, steps: Sequence[Any], *, has_batches: bool) -> Iterator[int | None]:
    """None after each forward; at last how many of `steps` give this model's logits in its place,
    up to the first that does not: in decode steps of one row alone and, if it `has_batches`, of
    several."""
    if not steps:
        yield 0
        return
    num_alike, new_caches = len(steps), partial(row_caches.new_caches, model)
    for prompts in (_PROMPTS[:1], _PROMPTS) if has_batches else (_PROMPTS[:1],):
        models, *others = [_Rows(model, prompts, new_caches, step=step) for step in (None, *steps)]
        yield from models.run()
        for number, rows in enumerate(others[:num_alike]):
            try:
                yield from rows.run()
                is_alike = _is_alike([models.logits], rows.logits)
            except NO_BATCH_ERRORS as error:
                logger.warning("a way to decode is not taken", extra={"error": repr(error)})
                is_alike = False
            if not is_alike:
                num_alike = number
                break
    yield num_alike


def _attends_to_blocks(model: Any) -> bool:
    return any(getattr(part, "index_block_size", None) for part in model.modules())


class _Rows:
    """These prompts as the rows of one batch; the inputs of all steps are fixed. `step`: what
    computes decode steps, None: the model does."""

    def __init__(
        self,
        model: Any,
        prompts: tuple[tuple[int, ...], ...],
        new_caches: Callable[[], Caches],
        *,
        step: Any = None,
    ) -> None:
        self._model = model
        self._new_caches = new_caches
        self._step = step or model
        self._prompts = prompts
        self._steps: list[mx.array] = []

    @property
    def logits(self) -> mx.array:
        """[steps, rows, V]"""
        return mx.stack(self._steps)

    def run(self) -> Iterator[None]:
        """One forward at a time."""
        rows = []
        for number, prompt in enumerate(self._prompts):
            rows.append(self._prefilled(number, prompt))
            yield None
        batch = RowBatch(self._step)
        batch.join(rows)
        for step in range(_NUM_STEPS):
            self._steps.append(batch.forward())
            batch.feed(mx.full((len(self._prompts),), 20 + step, mx.uint32))
            mx.eval(self._steps)
            yield None

    def _prefilled(self, row_id: int, prompt: tuple[int, ...]) -> NewRow:
        caches = self._new_caches()
        self._model(mx.array([prompt[:-1]], mx.uint32), cache=caches)
        row_caches.evaluate(caches)
        return NewRow(row_id=row_id, token_id=prompt[-1], length=len(prompt) - 1, caches=caches)


def _is_alike(alone: list[mx.array], together: mx.array) -> bool:
    tolerance = _TOLERANCES.get(alone[0].dtype, 0.25)
    return _spread_of_difference(mx.concatenate(alone, axis=1), together) < tolerance


def _spread_of_difference(alone: mx.array, together: mx.array) -> float:
    first, second = (np.array(one.astype(mx.float32)) for one in (alone, together))
    return float(np.abs(first - second).max() / max(float(first.std()), 1e-6))
