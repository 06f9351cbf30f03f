"""A draw on the device: submitted, and read when it has been computed. Owner: the model thread."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import mlx.core as mx
import numpy as np

from engine import wire
from engine.core.step import Drawn, Join
from engine.model.sampling import BatchSampler, DrawnRows, SampledRow


class Draw(NamedTuple):
    """What is drawn for these rows, in their order; None: for nobody."""

    row_ids: tuple[int | None, ...]
    rows: list[SampledRow]
    drawn: DrawnRows

    def read(self, token_bytes: Callable[[int], bytes]) -> tuple[Drawn, ...]:
        """Waits for it."""
        token_ids: list[int] = self.drawn.token_ids.tolist()  # type: ignore[assignment]
        logprobs = _read_logprobs(self.drawn, token_ids, token_bytes)
        undefined: list[bool] = self.drawn.is_undefined.tolist()  # type: ignore[assignment]
        rows = zip(self.row_ids, self.rows, token_ids, undefined, strict=True)
        return tuple(
            Drawn(
                row_id=row_id,
                token_id=token_id,
                logprobs=logprobs.get(index),
                fault=row.advance(token_id),
                is_undefined=is_undefined,
            )
            for index, (row_id, row, token_id, is_undefined) in enumerate(rows)
            if row_id is not None
        )


def submit_draw(row_ids: tuple[int | None, ...], sampler: BatchSampler, logits: mx.array) -> Draw:
    """Submits the draw of these rows from `logits` [B, V]."""
    drawn = sampler.draw(logits)
    mx.async_eval(drawn.arrays)  # type: ignore[no-untyped-call]
    return Draw(row_ids, sampler.rows, drawn)


def submit_first_draw(joins: Sequence[Join], logits: mx.array) -> Draw:
    """Of rows that are in no batch, from `logits` [B, V]."""
    sampler = BatchSampler()
    sampler.arrange([sampled_row(join) for join in joins])
    return submit_draw(tuple(join.row_id for join in joins), sampler, logits)


def sampled_row(join: Join) -> SampledRow:
    return SampledRow(
        join.sampling,
        prompt_token_ids=join.prompt_token_ids,
        output_token_ids=join.output_token_ids,
        constraint=join.grammar.start(join.output_token_ids) if join.grammar else None,
    )


def _read_logprobs(
    drawn: DrawnRows, token_ids: list[int], token_bytes: Callable[[int], bytes]
) -> dict[int, wire.PositionLogprobs]:
    if drawn.drawn_logprobs is None:
        return {}
    assert drawn.top_token_ids is not None and drawn.top_logprobs is not None

    def told(token_id: int, logprob: float) -> wire.TokenLogprob:
        content = token_bytes(int(token_id))
        # In this order: of NaN and a number Python's max is the first.
        return wire.TokenLogprob.of(int(token_id), content, max(-9999.0, float(logprob)))

    of_drawn = np.array(drawn.drawn_logprobs)
    top_ids, of_top = np.array(drawn.top_token_ids), np.array(drawn.top_logprobs)
    return {
        row: wire.PositionLogprobs(
            token=told(token_ids[row], of_drawn[number]),
            top=tuple(map(told, top_ids[number][:wanted], of_top[number])),
        )
        for number, (row, wanted) in enumerate(drawn.logprob_rows)
    }
