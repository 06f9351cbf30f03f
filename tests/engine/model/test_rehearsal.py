"""What a GPU compiles at its first use has been used when a model is loaded."""

from __future__ import annotations

import msgspec
import pytest

from engine import wire
from engine.model import sampling
from engine.model.memory import DeviceMemory
from engine.model.rehearsal import WAYS, rehearse
from engine.model.vectors import VectorRunner
from tests.engine.model.rig import loaded
from tests.engine.test_shelf import make_shelf
from tests.tiny_models import tiny_model_path

MODEL = "tiny-qwen3"


@pytest.fixture
def on_a_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(DeviceMemory, "is_cpu", property(lambda self: False))


def test_each_way_to_draw_is_tried_for_all_rows_and_for_some(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    drawn = []
    draw = sampling.BatchSampler.draw

    def noting(self: sampling.BatchSampler, logits: object) -> sampling.DrawnRows:
        rows = self.rows
        drawn.append((rows[0].sampling, rows[0].constraint is not None, len(rows)))
        return draw(self, logits)  # type: ignore[arg-type]

    monkeypatch.setattr(sampling.BatchSampler, "draw", noting)
    list(rehearse(loaded(MODEL).model))
    expected = {(way, False, rows) for way in WAYS for rows in (1, 2)}
    assert {*drawn} == expected | {(WAYS[0], True, 1), (WAYS[0], True, 2)}


def test_every_parameter_is_among_the_ways() -> None:
    usual = wire.Sampling(seed=0)
    changed = {
        name
        for way in WAYS
        for name, value in msgspec.structs.asdict(way).items()
        if value != getattr(usual, name)
    }
    assert changed == {*wire.Sampling.__struct_fields__} - {"seed"}


@pytest.mark.usefixtures("on_a_gpu")
def test_a_model_is_ready_when_its_draws_have_been_rehearsed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    steps = []
    monkeypatch.setattr("engine.shelf.rehearse", lambda model: steps.append("rehearsed") or [None])
    for one in make_shelf().load(wire.ModelSpec(name="m", path=str(tiny_model_path(MODEL)))):
        if not isinstance(one, float):
            steps.append("ready")
    assert steps == ["rehearsed", "ready"]


@pytest.mark.usefixtures("on_a_gpu")
def test_so_is_one_that_gives_vectors(monkeypatch: pytest.MonkeyPatch) -> None:
    steps = []
    for name in ("run", "begin", "go_on"):
        usual = getattr(VectorRunner, name)

        def noting(*given: object, name: str = name, usual: object = usual) -> object:
            steps.append(name)
            return usual(*given)  # type: ignore[operator]

        monkeypatch.setattr(VectorRunner, name, noting)
    spec = wire.ModelSpec(name="m", path=str(tiny_model_path(MODEL)), kind=wire.ModelKind.EMBED)
    list(make_shelf().load(spec))
    assert steps == ["run", "begin", "go_on", "go_on"]


@pytest.mark.skipif(not DeviceMemory().is_cpu, reason="a GPU does")
def test_a_processor_compiles_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("engine.shelf.rehearse", None)
    list(make_shelf().load(wire.ModelSpec(name="m", path=str(tiny_model_path(MODEL)))))
