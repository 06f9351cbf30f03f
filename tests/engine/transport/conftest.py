"""Fixtures of the transport's tests."""

from __future__ import annotations

import pytest

from tests.engine.transport.rig import Rig


@pytest.fixture
def rig(redis_url: str) -> Rig:
    return Rig(redis_url)
