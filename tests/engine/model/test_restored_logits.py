"""The next token's logits after a restored prefix are those after a computed one, in float32."""

from __future__ import annotations

import functools
import importlib
import random
from typing import Any

import mlx.core as mx
import mlx.nn as nn
import pytest

from engine.cache.captures import Captured, Payload
from engine.cache.memory_tier import MemoryTier
from engine.cache.owners import OwnerKind, owner_name
from engine.cache.plan import Needs, Query
from engine.cache.prefix import PrefixCache
from engine.core.blocks import BLOCK_TOKENS, Chain, root_key, token_bytes
from engine.model import snapshots
from engine.model.block_copies import TokenSpan
from engine.model.caches import new_caches
from engine.model.loader import load
from engine.model.quantised import quantised_caches
from tests.engine.devices import needs_quantised_caches
from tests.tiny_models import tiny_model_path

QUANTISED_ROWS = pytest.param("quantised rows", marks=needs_quantised_caches)
KINDS = ["tiny-qwen3", "tiny-gemma3", "tiny-qwen3-next", "tiny-mamba", "tiny-llama4"]
KINDS += ["tiny-gpt-oss"]
_SMALL = {
    "vocab_size": 4096,
    "hidden_size": 64,
    "intermediate_size": 128,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "rms_norm_eps": 1e-6,
    "rope_theta": 10_000.0,
}
# Models whose layers are composites: a recurrent part beside a sliceable or a windowed one.
COMPOSITES: dict[str, dict[str, Any]] = {
    "falcon_h1": _SMALL
    | {"head_dim": 16, "mamba_d_ssm": 64, "mamba_d_head": 16, "mamba_n_heads": 4}
    | {"mamba_d_state": 16},
    "baichuan_m1": _SMALL
    | {"model_type": "baichuan_m1", "sliding_window": 64, "sliding_window_layers": [1]}
    | {"conv_window": 2},
}
TOLERANCE = 1e-4  # of the largest logit: sums are taken in another order
ANN = frozenset([owner_name(OwnerKind.PERSON, "ann")])


def words(seed: int, count: int) -> list[int]:
    chooser = random.Random(seed)
    return [chooser.randint(100, 3000) for _ in range(count)]


BLOCK, OTHER = words(1, BLOCK_TOKENS), words(2, BLOCK_TOKENS)
TAIL = words(3, 90)
ONE, TWO, THREE = [*BLOCK, *TAIL], [*BLOCK, *OTHER[:120]], [*BLOCK, *BLOCK]
# name -> (what was computed before, what is asked, at least so much of it is restored)
CASES: dict[str, tuple[list[int], list[int], int]] = {
    "equal": (ONE, ONE, BLOCK_TOKENS),
    "continued": (ONE, [*ONE, *OTHER[:40]], len(ONE)),
    "beginning of a stored one": (TWO, [*BLOCK, *OTHER[:50]], BLOCK_TOKENS),
    "another end inside a block": (TWO, [*BLOCK, *OTHER[:100], *TAIL[:40]], BLOCK_TOKENS),
    "repeated blocks": (THREE, [*BLOCK, *BLOCK, *BLOCK[:40]], 2 * BLOCK_TOKENS),
    "shared middle": (ONE, [*TAIL, *BLOCK], 0),
}


@functools.cache
def model_of(kind: str) -> Any:
    if kind in COMPOSITES:
        mx.random.seed(1)
        module = importlib.import_module(f"mlx_lm.models.{kind}")
        return module.Model(module.ModelArgs(**COMPOSITES[kind]))
    name = "tiny-qwen3" if kind in ("quantised", "quantised rows") else kind
    *_, last = load(tiny_model_path(name), casts_to_float32=True)
    assert last.loaded is not None
    if kind == "quantised":
        nn.quantize(last.loaded.model, group_size=32, bits=8)
    return last.loaded.model


def new_row(kind: str) -> Any:
    model = model_of(kind)
    return quantised_caches(model, 8)() if kind == "quantised rows" else new_caches(model)


def query_of(tokens: list[int], needs: Needs) -> Query:
    chain = Chain(root_key({"model": "test"}), token_bytes(tokens))
    return Query(model="test", chain=chain, num_tokens=len(tokens), owners=ANN, needs=needs)


@functools.cache
def _cache_after(kind: str, computed: tuple[int, ...], *, stacks: bool) -> PrefixCache:
    """What one prompt left, as if all of it had been on disk meanwhile."""
    model = model_of(kind)
    cache = PrefixCache(
        MemoryTier(budget_bytes=1 << 40),
        None,
        contents=snapshots.CONTENTS,
    )
    row = new_row(kind)
    needs = snapshots.needs_of(row)
    assert needs is not None
    compute_and_keep(cache, model, row, list(computed), needs, stacks=stacks)
    through_bytes(cache)
    return cache


def compute_and_keep(
    cache: PrefixCache, model: Any, row: Any, tokens: list[int], needs: Needs, *, stacks: bool
) -> None:
    """Slice by slice as the engine does: a boundary is copied at the end of each block."""
    for stop in [*range(BLOCK_TOKENS, len(tokens), BLOCK_TOKENS), len(tokens)]:
        start = (stop - 1) // BLOCK_TOKENS * BLOCK_TOKENS
        model(mx.array([tokens[start:stop]]), cache=row)
        asked = query_of(tokens[:stop], needs)
        slice_of = functools.partial(_copied_slice, row, stacks=stacks)
        cache.store(
            asked,
            [
                Captured(
                    one.span,
                    slice_of((one.span.start, one.span.stop)) if one.wants_slice else None,
                    snapshots.payload(snapshots.capture_boundary(row))
                    if one.wants_boundary
                    else None,
                )
                for one in cache.missing(asked, boundaries=frozenset([stop]))
            ],
        )


def _copied_slice(row: Any, span: TokenSpan, *, stacks: bool) -> Payload:
    (copy,) = snapshots.capture_slices(row, [span], stacks=stacks)
    return copy


def through_bytes(cache: PrefixCache) -> None:
    for node in cache.nodes:
        for kind in sorted(node.in_memory):
            content = cache.memory.get(node.record(kind))
            revived = snapshots.revive(snapshots.dump(content).read())
            cache.memory.remove(node.record(kind))
            cache.memory.put(node.record(kind), revived.content, num_bytes=1, model="test")


@pytest.mark.parametrize(
    ("case", "stacks"), [*((case, False) for case in CASES), ("another end inside a block", True)]
)
@pytest.mark.parametrize("kind", [*KINDS, *COMPOSITES, "quantised", QUANTISED_ROWS])
def test_logits_after_a_restored_prefix_are_those_of_a_fresh_run(
    kind: str, case: str, stacks: bool
) -> None:
    computed, asked, least = CASES[case]
    model, cache = model_of(kind), _cache_after(kind, tuple(computed), stacks=stacks)
    needs = snapshots.needs_of(new_row(kind))
    assert needs is not None
    plan = cache.plan(query_of(asked, needs))
    assert least <= plan.num_tokens < len(asked)
    if not least:
        assert plan.is_cold
        return
    row = new_row(kind)
    snapshots.restore(row, *cache.payloads(plan))
    restored = model(mx.array([asked[plan.num_tokens :]]), cache=row)[:, -1]
    fresh = model(mx.array([asked]), cache=new_row(kind))[:, -1]
    difference = mx.abs(restored - fresh).max().item()
    assert difference <= TOLERANCE * mx.abs(fresh).max().item()  # type: ignore[operator]


def test_a_restored_row_has_room_for_its_next_token() -> None:
    """Growing would copy all of it once more."""
    model, cache = model_of("tiny-qwen3"), _cache_after("tiny-qwen3", tuple(ONE), stacks=False)
    needs = snapshots.needs_of(new_caches(model))
    assert needs is not None
    plan = cache.plan(query_of([*ONE, 7], needs))
    row = new_caches(model)
    snapshots.restore(row, *cache.payloads(plan))
    sizes = [layer.nbytes for layer in row]
    model(mx.array([[7]]), cache=row)
    assert [layer.nbytes for layer in row] == sizes


@pytest.mark.parametrize(
    ("kind", "num_arrays"),
    [("tiny-qwen3", 2), pytest.param("quantised rows", 6, marks=needs_quantised_caches)],
)
def test_a_stack_is_few_arrays_whatever_the_layers(kind: str, num_arrays: int) -> None:
    cache = _cache_after(kind, tuple(ONE), stacks=True)
    contents = [
        cache.memory.get(node.record(one)) for node in cache.nodes for one in node.in_memory
    ]
    assert contents and {len(one.arrays) for one in contents} == {num_arrays}
    assert {len(array) for one in contents for array in one.arrays} == {len(new_row(kind))}
