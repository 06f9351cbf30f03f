"""The guard's verdicts at readings given to it."""

from __future__ import annotations

from engine.guard import MemoryGuard, Verdict
from engine.wire import Level

MIB = 1024**2


def guard_of(limit_bytes: int = 100 * MIB) -> MemoryGuard:
    return MemoryGuard(ceiling_bytes=limit_bytes, wall_clock=lambda: 5.0)


def test_the_level_rises_at_once_and_falls_later() -> None:
    guard = guard_of()
    readings = [0, 84, 85, 81, 80, 79, 96, 91, 89, 100, 10]
    levels = [guard.observe(one * MIB) for one in readings]
    calm, tight, critical = Level.CALM, Level.TIGHT, Level.CRITICAL
    assert levels[:6] == [calm, calm, tight, tight, tight, calm]
    assert levels[6:] == [critical, critical, tight, critical, calm]


def test_a_reading_that_wavers_on_a_line_does_not_move_the_level() -> None:
    guard = guard_of()
    levels = {guard.observe((85 + number % 2) * MIB - 1) for number in range(1, 40)}
    assert levels == {Level.TIGHT}


def test_beside_heavy_weights_half_of_the_rest_is_calm() -> None:
    guard = guard_of()
    guard.weight_bytes = 88 * MIB
    readings = [88, 93, 94, 92, 90, 96, 91, 90]
    levels = [guard.observe(one * MIB) for one in readings]
    calm, tight, critical = Level.CALM, Level.TIGHT, Level.CRITICAL
    assert levels == [calm, calm, tight, tight, calm, critical, tight, calm]


def test_whatever_the_weights_a_level_that_has_risen_falls_when_they_are_alone() -> None:
    for weight in range(0, 91):
        guard = guard_of()
        guard.weight_bytes = weight * MIB
        assert guard.observe(97 * MIB) is Level.CRITICAL
        assert guard.observe(guard.weight_bytes) is Level.CALM


def test_a_limit_set_while_running_counts_at_once_and_can_be_taken_back() -> None:
    guard = guard_of()
    assert guard.observe(60 * MIB) is Level.CALM
    assert guard.set_limit(61 * MIB)
    assert guard.observe(60 * MIB) is Level.CRITICAL and guard.is_limit_explicit
    assert not guard.set_limit(61 * MIB)
    assert guard.set_limit(None) and guard.limit_bytes == 100 * MIB
    assert [mark.num_bytes for mark in guard.marks] == [61 * MIB, 100 * MIB]


def test_weights_fit_wait_or_never_fit() -> None:
    guard = guard_of()
    verdicts = [
        guard.assess_load(needed_bytes=needed * MIB, active_bytes=50 * MIB).verdict
        for needed in (40, 41, 90, 91)
    ]
    assert verdicts == [Verdict.FITS, Verdict.NOT_NOW, Verdict.NOT_NOW, Verdict.NEVER]


def test_weights_that_only_pinned_models_keep_out_never_fit_and_it_is_said_why() -> None:
    guard = guard_of(100 * 1024 * MIB)
    assessment = guard.assess_load(
        needed_bytes=50 * 1024 * MIB, active_bytes=60 * 1024 * MIB, pinned_bytes=45 * 1024 * MIB
    )
    assert assessment.verdict is Verdict.NEVER
    assert all(word in assessment.detail for word in ("50.0 GiB", "90.0 GiB", "45.0 GiB", "unpin"))


def test_what_happened_is_counted_and_the_last_of_it_marked() -> None:
    guard = guard_of()
    for number in range(60):
        guard.note("load", model=f"m{number}", num_bytes=number)
    assert guard.counts["load"] == 60 and len(guard.marks) == 50
    assert (guard.marks[-1].model, guard.marks[-1].at) == ("m59", 5.0)
