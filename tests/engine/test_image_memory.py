"""Memory for images is foreseen: by intake, when a row is given, before a slice looks at one."""

from __future__ import annotations

import mlx.core as mx
import pytest

from engine import wire
from engine.core.limits import Limits
from engine.core.sequence import Sequence
from engine.core.step import Slice, Step
from engine.intake.memory_check import MemoryCheck
from engine.intake.refusal import Refusal
from engine.model.vision.siglip import Siglip, SiglipConfig
from engine.row_memory import Admission, fitting, step_bytes
from engine.sizing.estimate import CPU_CORRECTION, Estimate, Numbers
from engine.sizing.images import tower_shape
from engine.sizing.shape import shape_of
from tests.engine.image_prompts import picture, prompt_of
from tests.fakes import FakeClock, FakeRunner, make_work
from tests.makers import make_status

GIB = 1024**3
GEMMA_3_4B = {
    "model_type": "gemma3",
    "mm_tokens_per_image": 256,
    "text_config": {
        "model_type": "gemma3_text",
        "hidden_size": 2560,
        "intermediate_size": 10240,
        "num_hidden_layers": 34,
        "sliding_window": 1024,
    },
    "vision_config": {
        "model_type": "siglip_vision_model",
        "hidden_size": 1152,
        "image_size": 896,
        "intermediate_size": 4304,
        "num_attention_heads": 16,
        "num_hidden_layers": 27,
        "patch_size": 14,
    },
}
ESTIMATE = Estimate(shape_of(GEMMA_3_4B), Numbers(compute_bytes=2, may_fuse=True))
WITH_IMAGE = prompt_of(20, picture(1), 20)


def sequence(name: str, **fields: object) -> Sequence:
    return Sequence(make_work(name, **fields), delivered_token_ids=(), arrived_at=0.0)


def test_looking_takes_no_more_than_is_foreseen() -> None:
    """Of a narrower tower, on this device."""
    config = {"image_size": 448, "patch_size": 14, "hidden_size": 384, "num_attention_heads": 8}
    config |= {"intermediate_size": 1500, "num_hidden_layers": 4}
    shape = tower_shape({"model_type": "gemma3", "vision_config": config})
    assert shape is not None
    tower = Siglip(SiglipConfig.of(config))
    pixels = mx.zeros((1, 448, 448, 3))
    mx.eval(tower.parameters(), pixels)
    mx.clear_cache()
    mx.reset_peak_memory()
    before_bytes = mx.get_active_memory()
    x = tower.embeddings(pixels)
    for layer in tower.encoder.layers:
        x = layer(x)
        mx.eval(x)
    taken_bytes = mx.get_peak_memory() - before_bytes
    foreseen = shape.bytes_for(4, has_scores=False) * CPU_CORRECTION.slices[0]
    assert 0.2 * foreseen < taken_bytes < foreseen


def test_only_what_reads_images_has_a_tower() -> None:
    assert shape_of(GEMMA_3_4B).tower is not None
    assert ESTIMATE.needs().image_bytes >= ESTIMATE.image_bytes > 100 * 1024**2
    blind = {name: one for name, one in GEMMA_3_4B.items() if name != "vision_config"}
    assert shape_of(blind).tower is None
    assert Estimate(shape_of(blind), ESTIMATE.numbers).needs().image_bytes == 0


def test_a_row_with_an_image_needs_room_to_look_at_it() -> None:
    words = sequence("a", prompt=range(56))
    shown = sequence("b", **WITH_IMAGE.fields)
    free_bytes = 256 * 1024**2
    assert free_bytes < ESTIMATE.image_bytes
    admission = Admission(ESTIMATE, Limits(free_bytes=free_bytes), rows=[words], row_bytes=0)
    assert admission.may_admit(sequence("c", prompt=range(56)))
    assert not admission.may_admit(shown)
    plenty = Admission(ESTIMATE, Limits(free_bytes=8 * GIB), rows=[words], row_bytes=0)
    assert plenty.may_admit(shown)


def test_a_slice_waits_for_the_room_to_look() -> None:
    shown, words = sequence("b", **WITH_IMAGE.fields), sequence("a", prompt=range(56))
    shown.computed_tokens = shown.images[0].start
    limits = Limits(free_bytes=256 * 1024**2)
    found = fitting(ESTIMATE, limits, rows=[shown, words], held=0)
    assert found.no_room_for == {"b"}


def test_a_step_that_looks_makes_room_for_it() -> None:
    images = sequence("b", **WITH_IMAGE.fields).images
    tokens = (tuple(range(40)),)
    looking = Slice(row_ids=(1,), start_tokens=0, token_ids=tokens, images=images)
    runner = FakeRunner(FakeClock())
    needed = step_bytes(ESTIMATE, Step(slices=(looking,)), rows=[], runner=runner)
    assert needed >= ESTIMATE.image_bytes


@pytest.mark.parametrize(("room_mib", "fits"), [(400, False), (1500, True)])
def test_intake_refuses_an_image_that_never_fits(room_mib: int, fits: bool) -> None:
    mib = 1024**2
    needs = wire.RowNeeds(fixed_bytes=10 * mib, token_bytes=mib // 10, image_bytes=500 * mib)
    model = wire.ModelMemory(
        name="fake", weight_bytes=(2000 - room_mib) * mib, room_bytes=room_mib * mib, needs=needs
    )
    memory = wire.MemoryStatus(limit_bytes=2000 * mib, models=(model,))
    check = MemoryCheck(lambda: [make_status("engine-1", memory=memory)])
    words = make_work("a", prompt=range(56), max_tokens=300)
    assert check.check(words, param="messages") == words
    shown = make_work("b", max_tokens=300, **WITH_IMAGE.fields)
    if fits:
        assert check.check(shown, param="messages") == shown
        return
    with pytest.raises(Refusal) as caught:
        check.check(shown, param="messages")
    assert caught.value.refused.code is wire.Code.DOES_NOT_FIT
    assert caught.value.refused.numbers["needed_bytes"] > 2000 * mib
