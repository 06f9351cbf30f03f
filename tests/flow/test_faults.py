"""A small run of the `faults` benchmark: processes die at random, and every account is right."""

from __future__ import annotations

import pytest

from tests.bench.faults import VICTIMS, hurt
from tests.stack import Stack

pytestmark = pytest.mark.stack


def test_accounts_are_right_after_random_kills(stack: Stack, endless: str) -> None:
    report = hurt(stack, num_requests=60, seed=7, between_kills=(8, 12))
    found = {result.name: result.value for result in report.results}
    assert found["requests answered"] >= 60
    assert found["accepted and not answered"] == 0, report.tables
    assert sum(found[f"{name} killed"] for name in VICTIMS) >= 3
