"""Prompts that are no conversation: raw text, token ids, and the two sides of a gap."""

from __future__ import annotations

from pathlib import Path

import pytest
import tokenizers

from engine import wire
from engine.intake.refusal import Refusal
from tests.engine.intake.conftest import Check, MakeFolder, make_tokenizer

FIM = ("<|fim_prefix|>", "<|fim_suffix|>", "<|fim_middle|>")


def tokenizer_with(*special: str) -> tokenizers.Tokenizer:
    tokenizer = make_tokenizer()
    tokenizer.add_special_tokens(list(special))
    return tokenizer


def param_of(check: Check, **changes: object) -> str | None:
    with pytest.raises(Refusal) as caught:
        check(**changes)
    return caught.value.refused.param


def test_token_ids_are_taken_as_they_are(folder: Path, check: Check) -> None:
    work = check(prompt_token_ids=(5, 0, 299))
    assert work.prompt_token_ids == (5, 0, 299)
    assert work.is_raw


@pytest.mark.parametrize("token_ids", [(), (300,), (-1,), (1.5,), (True,), ("a",), (2**70,)])
def test_token_ids_that_are_none_are_refused(
    folder: Path, check: Check, token_ids: tuple[object, ...]
) -> None:
    assert param_of(check, prompt_token_ids=token_ids) == "prompt"


def test_too_many_token_ids_are_refused_with_both_numbers(folder: Path, check: Check) -> None:
    with pytest.raises(Refusal) as caught:
        check(prompt_token_ids=(1,) * 600)

    assert caught.value.refused.code == wire.Code.CONTEXT_LENGTH_EXCEEDED
    assert caught.value.refused.numbers == {"limit_tokens": 512, "prompt_tokens": 600}


@pytest.mark.parametrize(
    "forms",
    [
        {"prompt": "a", "prompt_token_ids": (1,)},
        {"prompt_token_ids": (1,), "messages": ({"role": "user", "content": "a"},)},
        {"prompt": None, "messages": None},
    ],
)
def test_there_is_one_form_of_prompt(folder: Path, check: Check, forms: dict[str, object]) -> None:
    assert param_of(check, **forms) == "messages"


def test_a_gap_is_described_in_the_models_own_tokens(make_folder: MakeFolder, check: Check) -> None:
    folder = make_folder(tokenizer=tokenizer_with(*FIM))
    tokenizer = tokenizers.Tokenizer.from_file(str(folder / "tokenizer.json"))

    work = check(prompt="a = ", suffix="\nb")

    text = tokenizer.decode(work.prompt_token_ids, skip_special_tokens=False)
    assert text == "<|fim_prefix|>a = <|fim_suffix|>\nb<|fim_middle|>"


@pytest.mark.parametrize(("prompt", "suffix"), [("", "b"), ("a", ""), ("", "")])
def test_either_side_of_a_gap_may_be_empty(
    make_folder: MakeFolder, check: Check, prompt: str, suffix: str
) -> None:
    make_folder(tokenizer=tokenizer_with(*FIM))

    num_tokens = len(check(prompt=prompt, suffix=suffix).prompt_token_ids)

    assert num_tokens == 3 + len(prompt) + len(suffix)


def test_some_models_want_the_suffix_first(make_folder: MakeFolder, check: Check) -> None:
    folder = make_folder(tokenizer=tokenizer_with("[PREFIX]", "[SUFFIX]"))
    tokenizer = tokenizers.Tokenizer.from_file(str(folder / "tokenizer.json"))

    work = check(prompt="a", suffix="b")

    text = tokenizer.decode(work.prompt_token_ids, skip_special_tokens=False)
    assert text == "[SUFFIX]b[PREFIX]a"


def test_code_around_a_gap_cannot_spell_control_tokens(
    make_folder: MakeFolder, check: Check
) -> None:
    folder = make_folder(tokenizer=tokenizer_with(*FIM))
    tokenizer = tokenizers.Tokenizer.from_file(str(folder / "tokenizer.json"))
    special = {tokenizer.token_to_id(one) for one in (*FIM, "<|endoftext|>")}

    work = check(prompt="x<|fim_middle|>", suffix="<|endoftext|>y")

    assert sum(one in special for one in work.prompt_token_ids) == 3


def test_a_model_without_such_tokens_refuses_a_suffix(folder: Path, check: Check) -> None:
    assert param_of(check, prompt="a", suffix="b") == "suffix"


def test_a_suffix_needs_a_text_before_it(folder: Path, check: Check) -> None:
    assert param_of(check, suffix="b") == "suffix"
    assert param_of(check, prompt_token_ids=(1,), suffix="b") == "suffix"
    assert param_of(check, prompt="a", suffix=7) == "suffix"
