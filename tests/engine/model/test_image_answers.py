"""What a model that sees answers: as its family's reference does, alone, in any batch and slices,
and resumed."""

from __future__ import annotations

import functools

import numpy as np
import pytest

from engine import wire
from engine.core.images import Image
from engine.core.pixels import pack
from tests.engine.image_prompts import Prompt, picture, prompt_of
from tests.engine.model.gemma3_reference import Gemma3Reference, Seen
from tests.engine.model.rig import Run, loaded, make_handle
from tests.fakes import make_work
from tests.tiny_models import SEEING, tiny_model_path

MAX_TOKENS = 12
# Before windows are full, across them, at the beginning, and several
PROMPTS = {
    "short": prompt_of(5, picture(1), 7),
    "first": prompt_of(picture(2), 9),
    "behind the window": prompt_of(90, picture(3), 30),
    "two": prompt_of(20, picture(1), 3, picture(4), 80, picture(5), 6),
    "side by side": prompt_of(3, picture(6), picture(7), 2),
    "long": prompt_of(70, picture(1), 130, picture(2), 100),
    "blind": prompt_of(60),
}


@functools.cache
def reference() -> Gemma3Reference:
    return Gemma3Reference(tiny_model_path(SEEING))


@functools.cache
def expected(name: str) -> list[int]:
    prompt = PROMPTS[name]
    seen = [Seen(start, pixels) for start, pixels in prompt.seen]
    return reference().answer(prompt.token_ids, seen, max_tokens=MAX_TOKENS)


def work_of(name: str, prompt: Prompt | None = None, **changes: object) -> wire.Work:
    fields = (prompt or PROMPTS[name]).fields
    return make_work(name, max_tokens=MAX_TOKENS, **{**fields, **changes})


def answer_of(work: wire.Work, **settings: object) -> list[int]:
    run = Run(make_handle(SEEING, **settings))  # type: ignore[arg-type]
    run.add(work)
    run.finish()
    assert isinstance(run.ends[work.request_id], wire.Finished)
    return run.tokens(work.request_id)


@pytest.mark.parametrize("name", PROMPTS)
def test_an_answer_is_the_references(name: str) -> None:
    assert answer_of(work_of(name)) == expected(name)


def test_what_is_seen_decides_the_answer() -> None:
    """Of images that differ in a single pixel, too."""
    shown = picture(1)
    changed = shown.copy()
    changed[3, 4] = 255 - changed[3, 4]
    answers = [answer_of(work_of("x", prompt_of(5, one, 7))) for one in (shown, changed)]
    assert answers[0] == expected("short")
    assert answers[1] != answers[0]


@pytest.mark.parametrize("runs_ahead", [False, True])
def test_answers_in_one_batch_are_those_alone(runs_ahead: bool) -> None:
    """On a device that the host waits for, too."""
    run = Run(make_handle(SEEING, runs_ahead=runs_ahead))
    for name in PROMPTS:
        run.add(work_of(name))
    run.finish()
    assert {name: run.tokens(name) for name in PROMPTS} == {
        name: expected(name) for name in PROMPTS
    }


@pytest.mark.parametrize("most", [1, 7, 16, 33])
@pytest.mark.parametrize("name", ["two", "side by side", "behind the window"])
def test_slices_of_any_length_give_the_same(name: str, most: int) -> None:
    """None cuts an image in two."""
    assert answer_of(work_of(name), most_slice_tokens=most) == expected(name)


@pytest.mark.parametrize("name", ["two", "long"])
@pytest.mark.parametrize("known", [1, 5])
def test_an_answer_goes_on_after_a_crash(name: str, known: int) -> None:
    run = Run(make_handle(SEEING))
    run.add(work_of(name), delivered=expected(name)[:known])
    run.finish()
    assert run.tokens(name) == expected(name)[known:]


def test_a_row_that_was_taken_away_sees_its_images_again() -> None:
    run = Run(make_handle(SEEING))
    run.add(work_of("two"))
    while "two" not in run.events or len(run.tokens("two")) < 3:
        run.turn()
    live = run.handle.get_live("two")
    assert live is not None
    run.take(run.handle.preempt(live))
    run.finish()
    assert run.tokens("two") == expected("two")


def test_a_failed_image_ends_its_own_request() -> None:
    run = Run(make_handle(SEEING))
    broken = work_of("broken", prompt_of(5, picture(1), 7))
    pixels = {digest: pack(picture(1))[:40] for digest in broken.pixels}
    run.add(wire.replace(broken, pixels=pixels))
    run.add(work_of("two"))
    run.finish()
    assert isinstance(run.ends["broken"], wire.Failed)
    assert run.tokens("two") == expected("two")


def test_a_cancel_between_two_images_leaves_others_alone() -> None:
    run = Run(make_handle(SEEING, most_slice_tokens=16))
    run.add(work_of("two", prompt_of(5, picture(1), 700, picture(2), 700)))
    run.add(work_of("short"))
    while "two" not in run.events:
        run.turn()
    run.cancel("two")
    run.finish()
    assert run.tokens("two") == []
    assert run.tokens("short") == expected("short")


def test_a_cancel_while_an_image_is_looked_at_leaves_nothing() -> None:
    run = Run(make_handle(SEEING))
    run.add(work_of("first"))
    run.turn()  # one layer of two: how long they take is not known yet
    runner = run.handle._runner
    assert len(runner._looks) == 1  # type: ignore[attr-defined]
    run.cancel("first")
    run.add(work_of("short"))
    run.finish()
    assert not runner._looks  # type: ignore[attr-defined]
    assert run.tokens("short") == expected("short")


def test_what_sees_counts_in_the_models_size() -> None:
    folder = tiny_model_path(SEEING)
    stored = sum(file.stat().st_size for file in folder.glob("model*.safetensors"))
    assert 0 <= stored - loaded(SEEING).weight_bytes < 20_000  # headers


def test_states_of_an_image_are_the_references() -> None:
    shown = picture(9)
    sight = loaded(SEEING).sight
    states = np.array(sight.look(Image(start=0, num_tokens=16, pixels=pack(shown))).states())
    np.testing.assert_allclose(states, reference().states_of(shown), rtol=1e-3, atol=1e-4)
