"""Heartbeats are read seldom; what they say of a model decides what is looked for in prompts."""

from __future__ import annotations

import pytest

from engine import wire
from engine.intake.heartbeats import Heartbeats
from tests.makers import make_status


def test_a_request_waits_for_heartbeats_when_nobody_has_read_them_meanwhile() -> None:
    reads, now = [], [0.0]
    beats = Heartbeats(lambda: [reads.append(now[0]) or make_status()][:1], clock=lambda: now[0])
    for now[0] in (0.0, 0.4, 1.9, 2.1, 3.5):
        assert beats.get()
    assert reads == [0.0, 2.1]
    for now[0] in (3.5, 4.0, 4.5, 5.5):
        beats.prepare()
        assert beats.get()
    assert reads == [0.0, 2.1, 3.5, 4.5, 5.5]


@pytest.mark.parametrize(
    ("said", "wanted"),
    [
        ([], True),  # who loads it may want them
        ([("loading", True)], True),
        ([("loaded", True)], True),
        ([("loaded", False)], False),
        ([("loaded", False), ("loading", True)], False),
        ([("loaded", False), ("loaded", True)], True),
    ],
)
def test_boundaries_are_wanted_where_a_row_is_kept_at_them(
    said: list[tuple[str, bool]], wanted: bool
) -> None:
    beats = [
        make_status(
            f"engine-{number}",
            models=(
                wire.ModelStatus(name="demo", state=state, wants_boundaries=of_use),
                wire.ModelStatus(name="other", state="loaded", wants_boundaries=not wanted),
            ),
        )
        for number, (state, of_use) in enumerate(said)
    ]
    assert Heartbeats(lambda: beats).wants_boundaries("demo") == wanted
