"""A model's memory in words: what it takes, what is wrong with that, and what would help."""

from __future__ import annotations

import dataclasses
from typing import Any

from django.template.defaultfilters import filesizeformat

from engine.sizing.plan import MemoryPlan


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Trouble:
    """`field`: the setting that it is about. `may_wait`: requests would have to wait for each
    other; otherwise what is set can never be served."""

    field: str
    detail: str
    may_wait: bool = False


def sentence_of(plan: MemoryPlan) -> str:
    """weights 4.6 GB + 8 rows of 32,768 tokens 9.1 GB + working 1.2 GB = 14.9 GB of 20 GB"""
    parts = [f"{part['label']} {_size(part['bytes'])}" for part in parts_of(plan)]
    whole = _size(plan.total_bytes)
    if plan.ceiling_bytes is not None:
        whole += f" of {_size(plan.ceiling_bytes)}"
    return f"{' + '.join(parts)} = {whole}"


def brief_of(plan: MemoryPlan) -> str:
    """14.9 GB of 20 GB"""
    return sentence_of(plan).rpartition("= ")[2]


def parts_of(plan: MemoryPlan) -> list[dict[str, Any]]:
    """Each with its part of the ceiling, or of the whole where that is more, in percent."""
    parts = [("weights", "weights", plan.weight_bytes)]
    if plan.num_rows:
        rows = "1 row" if plan.num_rows == 1 else f"{plan.num_rows:,} rows"
        parts.append(("rows", f"{rows} of {plan.row_tokens:,} tokens", plan.row_bytes))
        parts.append(("working", "working", plan.working_bytes))
    whole = max(plan.total_bytes, plan.ceiling_bytes or 0, 1)
    return [
        {"kind": kind, "label": label, "bytes": size, "percent": round(100 * size / whole, 2)}
        for kind, label, size in parts
    ]


def trouble_of(plan: MemoryPlan, *, has_ceiling: bool) -> Trouble | None:
    """None when all rows fit. `has_ceiling`: the model has one of its own."""
    if plan.fits:
        return None
    whose = "the model's ceiling" if has_ceiling else "the memory limit"
    available = f"{_size(plan.ceiling_bytes or 0)} of {whose} are free"
    if not plan.num_rows or plan.weight_bytes >= (plan.ceiling_bytes or 0):
        return Trouble(
            field="memory_ceiling_gb",
            detail=f"The weights alone need {_size(plan.weight_bytes)}, and {available}. What "
            f"would help: a smaller or a quantised model, or more of {whose}.",
        )
    if (plan.most_tokens_alone or 0) < plan.row_tokens:
        return _too_long(plan, available)
    helps = (
        [f"at most {plan.most_rows:,} rows"] if plan.most_rows else ["shorter pieces of prompts"]
    )
    if plan.most_tokens:
        helps.append(f"a context limit of at most {plan.most_tokens:,} tokens")
    return Trouble(
        field="max_rows",
        detail=f"{plan.num_rows:,} rows of {plan.row_tokens:,} tokens need "
        f"{_size(plan.total_bytes)} with the weights, and {available}. "
        f"What would help: {', or '.join(helps)}.",
        may_wait=True,
    )


def _too_long(plan: MemoryPlan, available: str) -> Trouble:
    helps = "a smaller or a quantised model"
    if plan.most_tokens_alone:
        helps = f"a context limit of at most {plan.most_tokens_alone:,} tokens"
    return Trouble(
        field="context_limit_tokens",
        detail=f"Not even one request of {plan.row_tokens:,} tokens fits beside the weights: "
        f"{available}. What would help: {helps}.",
    )


def _size(num_bytes: int) -> str:
    return filesizeformat(num_bytes)
