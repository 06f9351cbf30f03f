"""What an encoder is said to need: never less than one text of that length takes."""

from __future__ import annotations

from pathlib import Path

import pytest

from engine.sizing.encoder import EncoderEstimate
from engine.sizing.estimate import Numbers
from engine.sizing.shape import read_shape
from tests.tiny_encoders import FAMILIES, HEADS, POSITIONS, make_encoder


@pytest.mark.parametrize("may_fuse", [True, False])
@pytest.mark.parametrize("family", FAMILIES)
def test_needs_cover_every_length_and_meet_the_longest(
    tmp_path: Path, family: str, may_fuse: bool
) -> None:
    make_encoder(tmp_path, family)
    numbers = Numbers(compute_bytes=4, may_fuse=may_fuse)
    estimate = EncoderEstimate(read_shape(tmp_path), numbers)
    needs = estimate.needs()
    for length in (1, 17, 64, POSITIONS):
        assert needs.bytes_for(length) >= estimate.alone_bytes(length)
    assert needs.bytes_for(POSITIONS) < 1.01 * estimate.alone_bytes(POSITIONS)
    assert estimate.alone_bytes(POSITIONS) > HEADS * POSITIONS**2 * 4  # the scores alone
