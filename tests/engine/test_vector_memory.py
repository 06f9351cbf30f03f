"""Embeddings and scores beside rows that need the memory."""

from __future__ import annotations

from collections.abc import Iterable

import pytest

from engine.core.limits import Limits
from engine.sizing.encoder import EncoderEstimate
from engine.sizing.estimate import Estimate, Numbers
from engine.sizing.shape import shape_of
from tests.engine.sizing.configs import QWEN3_8B
from tests.engine.test_vector_handle import Rig

ESTIMATE = Estimate(shape_of(QWEN3_8B), Numbers(compute_bytes=2, may_fuse=True))
TEXT, LONG_TEXT = (1,) * 100, (1,) * 8000
BGE_M3 = {
    "model_type": "xlm-roberta",
    "hidden_size": 1024,
    "num_hidden_layers": 24,
    "num_attention_heads": 16,
    "intermediate_size": 4096,
    "vocab_size": 250_002,
}
ENCODER = EncoderEstimate(shape_of(BGE_M3), Numbers(compute_bytes=4, may_fuse=False))


def rig_with(num_texts: int) -> Rig:
    rig = Rig(estimate=ESTIMATE, max_rows=16)
    rig.add("a", *[TEXT] * num_texts)
    return rig


def test_a_bundle_is_no_larger_than_memory_allows() -> None:
    rig = rig_with(8)
    limits = Limits(free_bytes=ESTIMATE.bundle_bytes(3, len(TEXT)))
    rig.note(rig.handle.turn(limits=limits))
    assert rig.computer.runs == [3 * len(TEXT)]


def test_what_does_not_fit_beside_rows_waits_for_them() -> None:
    rig = rig_with(2)
    rig.note(rig.handle.turn(limits=Limits(free_bytes=10)))
    assert rig.computer.runs == [] and not rig.handle.is_idle
    rig.note(rig.handle.turn(limits=Limits(free_bytes=10, is_quiet=True)))
    assert len(rig.computer.runs) == 1


def test_a_long_text_that_was_begun_goes_on() -> None:
    rig = Rig(estimate=ESTIMATE, stall_ms=10)
    rig.add("a", (1,) * 5000)
    rig.turn()
    num_runs = len(rig.computer.runs)
    rig.note(rig.handle.turn(limits=Limits(free_bytes=10)))
    assert len(rig.computer.runs) == num_runs + 1


def test_a_text_that_memory_does_not_allow_at_once_is_computed_in_pieces() -> None:
    """Intake let it in because it fits so, also where nobody else has a row."""
    rig = Rig(estimate=ESTIMATE)
    rig.add("a", (1,) * 1500)
    limits = Limits(free_bytes=ESTIMATE.bundle_bytes(1, 200), is_quiet=True)
    while not rig.handle.is_idle:
        rig.note(rig.handle.turn(limits=limits))
    assert rig.scores("a") == {0: 1500}
    assert max(rig.computer.runs) <= 200


@pytest.mark.parametrize("others_length", range(300, 1500, 100))
def test_nobody_gets_the_vector_of_a_text_that_is_computed_in_pieces(others_length: int) -> None:
    rig = Rig(estimate=ESTIMATE)
    limits = Limits(free_bytes=ESTIMATE.bundle_bytes(1, 200), is_quiet=True)
    rig.add("a", (1,) * 1500)
    rig.note(rig.handle.turn(limits=limits))
    rig.add("b", (2,) * others_length)
    while not rig.handle.is_idle:
        rig.note(rig.handle.turn(limits=limits))
    assert rig.scores("a") == {0: 1500}
    assert rig.scores("b") == {0: 2 * others_length}


def test_the_prefix_cache_gives_way_to_vectors() -> None:
    rig = rig_with(2)
    asked = []
    limits = Limits(
        free_bytes=10, tier_bytes=1 << 40, make_room=lambda needed, kept: asked.append(needed)
    )
    rig.note(rig.handle.turn(limits=limits))
    assert len(rig.computer.runs) == 1
    assert asked == [ESTIMATE.bundle_bytes(2, len(TEXT))]


@pytest.mark.parametrize(
    ("estimate", "needed_bytes"),
    [
        (ESTIMATE, ESTIMATE.row_bytes(len(LONG_TEXT))),
        (ENCODER, ENCODER.alone_bytes(len(LONG_TEXT))),
    ],
    ids=["decoder", "encoder"],
)
def test_a_long_text_begins_beside_rows_where_there_is_room_for_all_of_it(
    estimate: Estimate, needed_bytes: int
) -> None:
    rig = Rig(estimate=estimate)
    rig.add("a", LONG_TEXT)
    rig.note(rig.handle.turn(limits=Limits(free_bytes=needed_bytes - 1)))
    assert rig.computer.runs == []
    rig.note(rig.handle.turn(limits=Limits(free_bytes=2 * needed_bytes)))
    assert len(rig.computer.runs) == 1 and not rig.handle.is_idle


@pytest.mark.parametrize("estimate", [ESTIMATE, ENCODER], ids=["decoder", "encoder"])
def test_the_prefix_cache_gives_way_to_what_a_piece_takes(estimate: Estimate) -> None:
    rig = Rig(estimate=estimate)
    rig.add("a", LONG_TEXT)
    asked: list[int] = []
    limits = Limits(is_quiet=True, make_room=lambda needed, kept: asked.append(needed))
    while not rig.handle.is_idle:
        rig.note(rig.handle.turn(limits=limits))
    widths = rig.computer.runs
    starts = [sum(widths[:number]) for number in range(len(widths))]
    expected: Iterable[int] = map(ESTIMATE.grown_slice_bytes, widths, starts)
    if estimate is ENCODER:  # all tokens at once, of some layers
        expected = (ENCODER.alone_bytes(len(LONG_TEXT)) for _ in widths)
    assert len(widths) > 1 and asked == list(expected)
