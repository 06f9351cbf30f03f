"""What was learned of models, across restarts and damaged files."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from engine.estimates import Estimates
from engine.peaks import ModelPeaks
from engine.sizing.estimate import Numbers
from tests.engine.sizing.configs import QWEN3_8B
from tests.fakes import FakeClock

FACTORS = '{"factors": [1, 1, 1], "seen": [1, 1, 1]}'
COST = """{"moments": [[1, 1, 1], [1, 2, 1], [1, 1, 2]], "targets": [1, 1, 1],
           "variance": 0.5, "trusted_tokens": 64}"""
GOOD = (
    ('{"version": 2, "models": {"KEY": {"slices": FACTORS, "steps": FACTORS, "cost": COST}}}')
    .replace("FACTORS", FACTORS)
    .replace("COST", COST)
)
NUMBERS = Numbers(compute_bytes=4, may_fuse=False)


class Rig:
    def __init__(self, folder: Path) -> None:
        self.clock = FakeClock()
        self.file = folder / "estimates" / "engine-1.json"
        self.model = folder / "model"
        self.model.mkdir(exist_ok=True)
        (self.model / "config.json").write_text(json.dumps(QWEN3_8B))
        self.num_lost = 0

    def start(self) -> tuple[Estimates, ModelPeaks]:
        estimates = Estimates(self.file, device="cpu", note_lost=self._lose, clock=self.clock)
        return estimates, estimates.get(self.model, NUMBERS)

    def _lose(self) -> None:
        self.num_lost += 1


@pytest.fixture
def rig(tmp_path: Path) -> Rig:
    return Rig(tmp_path)


def teach(peaks: ModelPeaks, factor: float) -> int:
    parts = peaks.estimate.slice_parts(2048, 4096)
    for _ in range(20):
        peaks.slices.learn(parts, measured_bytes=int(factor * sum(parts)))
    peaks.follow()
    return peaks.estimate.slice_bytes(2048, 4096)


def test_what_was_learned_is_there_after_a_restart(rig: Rig) -> None:
    estimates, peaks = rig.start()
    before = peaks.estimate.slice_bytes(2048, 4096)
    learned = teach(peaks, 3.0)
    rig.clock.now += 60
    estimates.note_learned()
    _, again = rig.start()
    assert again.estimate.slice_bytes(2048, 4096) == pytest.approx(learned, rel=0.05)
    assert learned > 1.5 * before and rig.num_lost == 0


def test_what_slices_cost_is_known_after_a_restart(rig: Rig) -> None:
    """Or a prefix would be read from disk that is computed sooner."""
    estimates, peaks = rig.start()
    for tokens in (100, 500, 1000, 300, 2000):
        peaks.cost.learn(tokens=tokens, context=tokens / 2, seconds=0.001 + 2e-6 * tokens)
    estimates.save()
    _, again = rig.start()
    assert again.cost.predict(1800) == pytest.approx(0.0046, rel=0.02)
    assert again.cost.trusted_tokens == peaks.cost.trusted_tokens > 2000
    again.cost.learn(tokens=100, context=0, seconds=3.0)
    assert again.cost.predict(1800) < 0.01, "a kernel was compiled: no news of the speed"


def test_a_good_file_is_taken(rig: Rig) -> None:
    estimates, _ = rig.start()
    estimates.save()
    (key,) = json.loads(rig.file.read_text())["models"]
    rig.file.write_text(GOOD.replace("KEY", key))
    _, peaks = rig.start()
    assert rig.num_lost == 0 and peaks.cost.trusted_tokens == 64


def test_one_model_has_one_estimate_and_a_changed_config_another(rig: Rig) -> None:
    estimates, peaks = rig.start()
    assert estimates.get(rig.model, NUMBERS) is peaks
    assert estimates.get(rig.model, NUMBERS, makes_vectors=True) is not peaks
    (rig.model / "config.json").write_text(json.dumps(QWEN3_8B | {"num_hidden_layers": 2}))
    assert estimates.get(rig.model, NUMBERS) is not peaks


def test_it_is_written_now_and_then_only(rig: Rig) -> None:
    estimates, peaks = rig.start()
    teach(peaks, 3.0)
    estimates.note_learned()
    assert not rig.file.exists()


@pytest.mark.parametrize(
    "content",
    [
        "",
        "{",
        "[]",
        '{"version": 2}',
        '{"version": 2, "models": 7}',
        '{"version": 2, "models": {"KEY": {"slices": 1}}}',
        # everything but one number is as it should be
        GOOD.replace("0.5", "-0.5"),
        GOOD.replace("0.5", "NaN"),
        GOOD.replace("[[1, 1, 1]", "[[0, 0, 0]"),
        GOOD.replace('"targets"', '"target"'),
        GOOD.replace('"cost"', '"costs"'),
        '{"version": 2, "models": {"KEY": {"slices": {"factors": [-1, 1, 1], "seen": [1, 1, 1]}, '
        '"steps": {"factors": [1, 1, 1], "seen": [1, 1, 1]}}}}',
        '{"version": 2, "models": {"KEY": {"slices": {"factors": [1, 1], "seen": [1, 1, 1]}}}}',
        '{"version": 2, "models": {"KEY": {"slices": {"factors": [NaN, 1, 1], "seen": [1]}}}}',
    ],
)
def test_a_damaged_file_is_counted_and_the_formula_counts(rig: Rig, content: str) -> None:
    estimates, peaks = rig.start()
    fresh = peaks.estimate.correction
    estimates.save()
    (key,) = json.loads(rig.file.read_text())["models"]
    rig.file.write_text(content.replace("KEY", key))
    estimates, peaks = rig.start()
    assert rig.num_lost == 1 and peaks.estimate.correction == fresh
    teach(peaks, 3.0)
    estimates.save()
    rig.start()
    assert rig.num_lost == 1


def test_a_folder_that_cannot_be_written_stops_nothing(rig: Rig) -> None:
    rig.file.parent.parent.joinpath("estimates").write_text("in the way")
    estimates, peaks = rig.start()
    teach(peaks, 2.0)
    estimates.save()
