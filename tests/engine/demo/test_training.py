"""The corpus and the training script, on the CPU and as small as they go."""

from __future__ import annotations

import re
from pathlib import Path
from random import Random

from engine.demo import held_out
from engine.demo.answering import DemoModel, Prompt
from engine.demo.corpus.mixture import draw, product, small_talk
from engine.demo.rendering import render, split
from engine.demo.train import Plan, train


def bare(text: str) -> str:
    return re.sub(r"[^\w ]", "", text.lower()).strip()


def test_two_steps_of_training_give_a_model_that_loads(tmp_path: Path) -> None:
    lines: list[str] = []
    plan = Plan(
        out=tmp_path,
        steps=2,
        tokens_per_step=192,
        learning_rate=1e-3,
        workers=1,
        seed=1,
        tokenizer=None,
        tokenizer_lessons=200,
    )
    train(plan, lines.append)
    assert any(line.startswith("step 2/2 loss") for line in lines)
    prompt = Prompt(messages=({"role": "user", "content": "Hello"},), max_tokens=2)
    assert len(DemoModel(tmp_path).answer([prompt])) == 1


def test_lessons_are_the_same_for_the_same_seed() -> None:
    first, second = Random("a seed"), Random("a seed")
    assert [draw(first) for _ in range(50)] == [draw(second) for _ in range(50)]


def test_every_lesson_is_fully_filled_in() -> None:
    rng = Random("filled")
    texts = [render(draw(rng)) for _ in range(500)]
    assert not [text for text in texts if re.search(r"\$[a-zA-Z]|\{[^{}\n\"]*\|[^{}\n\"]*\}", text)]


def test_what_the_template_writes_is_never_learned() -> None:
    rng = Random("learned")
    for text in (render(draw(rng)) for _ in range(200)):
        learned = [piece for piece, is_learned in split(text) if is_learned]
        assert learned
        assert all(piece.endswith("<|im_end|>") for piece in learned)
        assert not [piece for piece in learned if piece.startswith("<think>")]


def test_the_exam_asks_nothing_that_was_practised() -> None:
    rng = Random("practised")
    practised = {
        bare(draw_one(rng).question) for draw_one in (product, small_talk) for _ in range(5000)
    }
    asked = {bare(text) for text, _ in held_out.PRODUCT}
    assert not asked & practised
