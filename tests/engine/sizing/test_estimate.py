"""Bytes from sizes: against what mlx-lm's caches really keep, and what computing really takes."""

from __future__ import annotations

import dataclasses

import mlx.core as mx
import pytest

from engine.model import caches as row_caches
from engine.sizing.estimate import Estimate, Numbers
from engine.sizing.shape import read_shape, shape_of
from tests.engine.model.rig import loaded
from tests.engine.sizing.configs import LLAMA_3_8B, QWEN3_8B
from tests.tiny_models import tiny_model_path

CPU = Numbers(compute_bytes=4, may_fuse=False)
METAL = Numbers(compute_bytes=2, may_fuse=True)
MIB, GIB = 1024**2, 1024**3


def estimate_of(name: str) -> Estimate:
    return Estimate(read_shape(tiny_model_path(name)), CPU)


@pytest.mark.parametrize(
    "name", ["tiny-qwen3", "small-llama", "tiny-gemma3", "tiny-qwen3-next", "tiny-mamba"]
)
@pytest.mark.parametrize("num_tokens", [1, 200, 700])
def test_a_rows_caches_are_what_they_were_estimated(name: str, num_tokens: int) -> None:
    model = loaded(name).model
    caches = row_caches.new_caches(model)
    for start in range(0, num_tokens, 256):
        width = min(256, num_tokens - start)
        model(mx.ones((1, width), mx.uint32), cache=caches)
        row_caches.evaluate(caches)
    estimated = estimate_of(name).row_bytes(num_tokens, slice_tokens=256)
    assert estimated == pytest.approx(row_caches.num_bytes(caches), rel=0.03, abs=300_000)


def test_eight_rows_of_32k_tokens_of_a_well_known_model() -> None:
    estimate = Estimate(shape_of(LLAMA_3_8B), METAL)
    assert estimate.token_bytes == 32 * 2048 * 2
    assert estimate.batch_bytes([32_768] * 8) == 32 * GIB


def test_rows_are_padded_to_the_longest() -> None:
    estimate = Estimate(shape_of(QWEN3_8B), METAL)
    assert estimate.batch_bytes([256, 256, 4096]) == 3 * estimate.row_bytes(4096)
    assert estimate.batch_bytes([]) == 0


def test_scores_of_a_head_size_without_a_fused_kernel_grow_with_the_context() -> None:
    fused = Estimate(shape_of(QWEN3_8B), METAL)
    odd = Estimate(shape_of(QWEN3_8B | {"head_dim": 256}), METAL)
    assert fused.slice_bytes(2048, 60_000) < 2 * GIB
    assert odd.slice_bytes(2048, 60_000) > 32 * 2048 * 60_000 * 2


def test_scores_of_short_slices_exist_where_they_are_composed() -> None:
    """In as many layers as are computed ahead; what a row needs alone counts them."""
    composed = dataclasses.replace(METAL, composed_scores=2**20)
    ours, fused = Estimate(shape_of(QWEN3_8B), composed), Estimate(shape_of(QWEN3_8B), METAL)
    scores = 32 * 256 * 4096 * 2 * ours.correction.slices[0]
    more = ours.slice_bytes(256, 4096 - 256) - fused.slice_bytes(256, 4096 - 256)
    assert scores * 0.9 < more < scores
    assert ours.slice_bytes(256, 4096) == fused.slice_bytes(256, 4096)
    needs = ours.needs()
    for tokens in (100, 5_000, 33_000, 100_000):
        assert needs.fixed_bytes + needs.token_bytes * tokens >= ours.alone_bytes(tokens)


def test_scores_of_slices_that_are_computed_in_blocks_take_a_block() -> None:
    """But where they are arrays of the family's own, or of quantised caches."""
    in_blocks = dataclasses.replace(CPU, block_scores=2**17)
    config = QWEN3_8B | {"head_dim": 256}
    shape, own = shape_of(config), shape_of(config | {"model_type": "gemma2"})
    scores = 32 * 2048 * 62_048 * 4
    saved = Estimate(shape, CPU).slice_bytes(2048, 60_000)
    saved -= Estimate(shape, in_blocks).slice_bytes(2048, 60_000)
    assert scores <= saved <= 1.2 * scores
    quantised = dataclasses.replace(in_blocks, kv_bits=8)
    for composed in (Estimate(own, in_blocks), Estimate(shape, quantised)):
        assert composed.slice_bytes(2048, 60_000) > scores


def test_a_slice_shrinks_with_the_room_but_never_below_the_smallest() -> None:
    estimate = Estimate(shape_of(QWEN3_8B | {"head_dim": 256}), METAL)
    rooms = [64 * GIB, 4 * GIB, 1 * GIB, 0]
    sizes = [
        estimate.most_slice_tokens(room, context_tokens=30_000, at_most=2048) for room in rooms
    ]
    assert sizes[0] == 2048 and sizes == sorted(sizes, reverse=True) and sizes[-1] == 32


@pytest.mark.parametrize("name", ["tiny-qwen3", "tiny-gemma3", "tiny-qwen3-next", "tiny-mamba"])
def test_what_is_published_of_a_row_is_never_less_than_the_estimate(name: str) -> None:
    estimate = estimate_of(name)
    needs = estimate.needs()
    for num_tokens in (40, 300, 1_000, 4_097, 16_000, 100_000):
        alone = estimate.alone_bytes(num_tokens)
        assert alone <= needs.bytes_for(num_tokens) <= 1.05 * alone + 3 * MIB


def test_the_longest_row_that_fits_is_found() -> None:
    needs = Estimate(shape_of(QWEN3_8B), METAL).needs()
    most = needs.most_tokens(8 * GIB, at_most=1_000_000)
    assert needs.bytes_for(most) <= 8 * GIB < needs.bytes_for(most + 1)
    assert needs.most_tokens(10, at_most=100) == 0
    assert needs.most_tokens(8 * GIB, at_most=100) == 100


def test_quantised_caches_are_smaller() -> None:
    shape = shape_of(QWEN3_8B)
    four = Estimate(shape, Numbers(compute_bytes=2, may_fuse=True, kv_bits=4))
    assert four.row_bytes(4096) == pytest.approx(
        Estimate(shape, METAL).row_bytes(4096) * 0.28, 0.02
    )


@pytest.mark.parametrize(("head_size", "bytes_of_element"), [(128, 1.0625), (96, 1.125)])
def test_quantised_elements_share_their_scales_with_as_many_as_a_head_allows(
    head_size: int, bytes_of_element: float
) -> None:
    shape = dataclasses.replace(shape_of(QWEN3_8B), head_size=head_size)
    eight = Estimate(shape, Numbers(compute_bytes=2, may_fuse=True, kv_bits=8))
    assert eight.token_bytes == Estimate(shape, METAL).token_bytes / 2 * bytes_of_element


def test_what_is_copied_together_is_alive_twice_but_never_more_than_there_is() -> None:
    together = Numbers(compute_bytes=2, may_fuse=True, together_bytes=10**9)
    shape = shape_of(QWEN3_8B)
    apart, bundled = Estimate(shape, METAL), Estimate(shape, together)
    factor = bundled.correction.steps[2]
    large, small = 20 * 10**9, 10**8
    assert bundled.move_bytes(large) == pytest.approx(apart.move_bytes(large) + factor * 10**9)
    assert bundled.move_bytes(small) == factor * small
    assert apart.move_bytes(small) == pytest.approx(factor * small / 72, rel=1e-6)
