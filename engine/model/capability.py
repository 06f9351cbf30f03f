"""May this model's rows be batched? Asked of the model itself, when it is loaded.

Some families have no batch form of their caches; some ignore padding and would answer wrongly in
silence. Both are found by running two unequal rows together and each alone. It does not know what
is done with the answer.
"""

from __future__ import annotations

import logging
from typing import Any

import mlx.core as mx
import numpy as np

from engine.model import caches as row_caches
from engine.model.batch import NewRow, RowBatch

_PROMPTS = ((11, 7, 5, 13, 17, 19, 23, 29, 31, 37, 41), (43, 9, 11, 5, 8))
_NUM_STEPS = 3
# In units of the logits' own spread: rounding stays far below, ignored padding far above.
_TOLERANCES = {mx.float32: 1e-2, mx.float16: 0.1, mx.bfloat16: 0.25}
# What a family's code raises that does not bear batches.
_NO_BATCH_ERRORS = (ValueError, TypeError, AttributeError, LookupError, RuntimeError)

logger = logging.getLogger(__name__)


def may_batch(model: Any) -> bool:
    """Two unequal rows give the same logits together as alone."""
    if not row_caches.may_merge(row_caches.new_caches(model)):
        return False
    alone = [_logits(model, (prompt,)) for prompt in _PROMPTS]
    try:
        together = _logits(model, _PROMPTS)
    except _NO_BATCH_ERRORS as error:
        logger.warning("model cannot be batched", extra={"error": repr(error)})
        return False
    tolerance = _TOLERANCES.get(alone[0].dtype, 0.25)
    return _spread_of_difference(mx.concatenate(alone, axis=1), together) < tolerance


def _logits(model: Any, prompts: tuple[tuple[int, ...], ...]) -> mx.array:
    """[steps, rows, V] after joining these rows to one batch; the inputs are fixed."""
    batch = RowBatch(model)
    batch.join([_prefilled(model, number, prompt) for number, prompt in enumerate(prompts)])
    logits = []
    for step in range(_NUM_STEPS):
        logits.append(batch.forward())
        batch.feed(mx.full((len(prompts),), 20 + step, mx.uint32))
        mx.eval(logits)
    return mx.stack(logits)


def _prefilled(model: Any, row_id: int, prompt: tuple[int, ...]) -> NewRow:
    caches = row_caches.new_caches(model)
    model(mx.array([prompt[:-1]], mx.uint32), cache=caches)
    row_caches.evaluate(caches)
    return NewRow(row_id=row_id, token_id=prompt[-1], length=len(prompt) - 1, caches=caches)


def _spread_of_difference(alone: mx.array, together: mx.array) -> float:
    first, second = (np.array(one.astype(mx.float32)) for one in (alone, together))
    return float(np.abs(first - second).max() / max(float(first.std()), 1e-6))
