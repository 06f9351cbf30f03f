"""What the shelf says of how a model is computed here."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from engine import wire
from engine.core.pacing import TimeLedger
from engine.estimates import Estimates
from engine.handle import ModelHandle
from engine.metrics import Vitals
from engine.model import direct_step, kernels, snapshots
from engine.model.memory import DeviceMemory
from engine.model.quantised_rows import QuantisedRows
from engine.model.runner import Runner
from engine.shelf import DeviceShelf, LoadFailed
from engine.sizing import families
from tests.engine.cache.toys import make_cache
from tests.engine.devices import needs_quantised_caches
from tests.tiny_encoders import make_encoder
from tests.tiny_models import tiny_model_path

SLICE, CONTEXT = 512, 4_000


def make_shelf(*, file: Path | None = None, casts_to_float32: bool = True) -> DeviceShelf:
    memory = DeviceMemory()
    return DeviceShelf(
        memory,
        ledger=TimeLedger(),
        vitals=Vitals(engine_name="e", memory=memory),
        prefixes=make_cache(contents=snapshots.CONTENTS),
        estimates=Estimates(file, device="cpu"),
        casts_to_float32=casts_to_float32,
    )


def slice_bytes(spec: wire.ModelSpec, *, casts_to_float32: bool) -> int:
    estimate = make_shelf(casts_to_float32=casts_to_float32).estimate(spec)
    assert estimate is not None
    return estimate.slice_bytes(SLICE, CONTEXT)


@pytest.mark.parametrize("casts_to_float32", [True, False])
def test_scores_count_unless_slices_are_computed_in_blocks(
    casts_to_float32: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On x86 processors, and in float32 only: numbers of 16 bits stay with MLX."""
    spec = wire.ModelSpec(name="m", path=str(tiny_model_path("tiny-qwen3")))
    monkeypatch.setattr(kernels, "is_x86_processor", lambda: False)
    composed = slice_bytes(spec, casts_to_float32=casts_to_float32)
    monkeypatch.setattr(kernels, "is_x86_processor", lambda: True)
    here = slice_bytes(spec, casts_to_float32=casts_to_float32)
    assert here < 0.5 * composed if casts_to_float32 else here == composed


@pytest.mark.parametrize(
    ("kv_bits", "is_direct"), [(None, True), pytest.param(8, False, marks=needs_quantised_caches)]
)
def test_rows_decode_past_the_models_modules(
    kv_bits: int | None, is_direct: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Those of quantised caches would not."""
    decoding = []

    def make_runner(model: Any, *, decode: Any, **named: Any) -> Runner:
        decoding.append(decode)
        return Runner(model, decode=decode, **named)

    monkeypatch.setattr("engine.shelf.Runner", make_runner)
    spec = wire.ModelSpec(name="m", path=str(tiny_model_path("tiny-qwen3")), kv_bits=kv_bits)
    *_, handle = make_shelf().load(spec)
    assert isinstance(handle, ModelHandle)
    past_modules = (direct_step.DirectStep, direct_step.FewRowsStep)
    assert [isinstance(one, past_modules) for one in decoding] == [is_direct]


@needs_quantised_caches
@pytest.mark.parametrize("is_right", [True, False])
def test_quantised_rows_are_batched_where_they_answer_as_alone(
    is_right: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not is_right:
        monkeypatch.setattr(QuantisedRows, "make_mask", lambda self, num_tokens, **options: None)
    spec = wire.ModelSpec(name="m", path=str(tiny_model_path("tiny-qwen3")), kv_bits=8)
    assert loaded(make_shelf(), spec).status.is_batchable == is_right


@pytest.mark.parametrize(
    ("recipe", "wanted"), [("tiny-qwen3", False), ("tiny-gemma3", True), ("tiny-mamba", True)]
)
def test_boundaries_are_wanted_by_models_that_cannot_be_cut_anywhere(
    recipe: str, wanted: bool
) -> None:
    spec = wire.ModelSpec(name="m", path=str(tiny_model_path(recipe)))
    assert loaded(make_shelf(), spec).status.wants_boundaries == wanted


@pytest.mark.parametrize(
    ("kv_bits", "is_known"), [(None, True), pytest.param(8, False, marks=needs_quantised_caches)]
)
def test_what_slices_take_is_known_where_they_are_computed_past_mlx(
    kv_bits: int | None, is_known: bool
) -> None:
    """Not those of quantised caches."""
    spec = wire.ModelSpec(name="m", path=str(tiny_model_path("tiny-qwen3")), kv_bits=kv_bits)
    shelf = make_shelf()
    usual = shelf.estimate(spec)
    assert usual is not None
    before = usual.slice_bytes(SLICE, CONTEXT)
    loaded(shelf, spec)
    after = usual.slice_bytes(SLICE, CONTEXT)
    assert after > 0 and (after != before) == (is_known and kernels.is_x86_processor())


def test_scores_of_encoders_always_count(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    make_encoder(tmp_path, "bert")
    spec = wire.ModelSpec(name="m", path=str(tmp_path), kind=wire.ModelKind.EMBED)
    monkeypatch.setattr(kernels, "is_x86_processor", lambda: False)
    composed = slice_bytes(spec, casts_to_float32=True)
    monkeypatch.setattr(kernels, "is_x86_processor", lambda: True)
    assert slice_bytes(spec, casts_to_float32=True) == composed


def test_what_slices_cost_outlives_the_model_and_the_process(tmp_path: Path) -> None:
    spec = wire.ModelSpec(name="m", path=str(tiny_model_path("tiny-qwen3")))
    shelf = make_shelf(file=tmp_path / "learned.json")
    cost = loaded(shelf, spec).scheduler.cost
    for tokens in (100, 200, 300, 400, 500):
        cost.learn(tokens=tokens, context=0, seconds=0.01 * tokens)
    assert loaded(shelf, spec).scheduler.cost is cost, "as when it is unloaded for another"
    shelf.keep_learned()
    again = loaded(make_shelf(file=tmp_path / "learned.json"), spec).scheduler.cost
    assert again.predict(1000) == pytest.approx(10, rel=0.05)


def loaded(shelf: DeviceShelf, spec: wire.ModelSpec) -> ModelHandle:
    *_, handle = shelf.load(spec)
    assert isinstance(handle, ModelHandle)
    return handle


def test_a_loaded_model_has_the_layers_that_it_has_whatever_its_config_says(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    spec = wire.ModelSpec(name="m", path=str(tiny_model_path("tiny-gemma3")))
    right = make_shelf().estimate(spec)
    monkeypatch.setattr(families, "cached_layers", lambda *_, **__: ())
    shelf = make_shelf()
    known_before = shelf.estimate(spec)
    assert right is not None and known_before is not None
    assert known_before.row_bytes(1_000) == 0
    *_, handle = shelf.load(spec)
    assert isinstance(handle, ModelHandle)
    assert known_before.row_bytes(1_000) == right.row_bytes(1_000) > 0
    assert known_before.needs() == right.needs()


def test_a_folder_that_is_not_there_is_told_without_its_path(tmp_path: Path) -> None:
    spec = wire.ModelSpec(name="demo", path=str(tmp_path / "nowhere"))
    for ask in (make_shelf().weight_bytes, make_shelf().estimate):
        with pytest.raises(LoadFailed, match="folder is not on the machine") as told:
            ask(spec)
        assert "nowhere" not in str(told.value)
