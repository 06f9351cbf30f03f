"""Prompts: as long as asked for, the same for the same label, new for another."""

from __future__ import annotations

import pytest
from tokenizers import Tokenizer

from tests.bench.prompts import PromptMaker
from tests.tiny_models import tiny_model_path


@pytest.mark.parametrize("tokens", [10, 88, 6_000])
def test_a_prompt_has_about_the_tokens_asked_for(tokens: int) -> None:
    path = tiny_model_path("tiny-qwen3")
    prompt = PromptMaker(path).prompt("a", tokens=tokens)
    counted = len(Tokenizer.from_file(str(path / "tokenizer.json")).encode(prompt).ids)
    assert counted == pytest.approx(tokens, rel=0.02, abs=2)


def test_the_same_label_is_the_same_prompt_and_another_shares_no_beginning() -> None:
    maker = PromptMaker(tiny_model_path("tiny-qwen3"))
    assert maker.prompt("round 1", tokens=50) == maker.prompt("round 1", tokens=50)
    assert maker.prompt("round 1", tokens=50)[:12] != maker.prompt("round 2", tokens=50)[:12]
