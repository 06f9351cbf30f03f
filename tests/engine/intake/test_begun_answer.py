"""A prompt that ends in the middle of the assistant's message, where the client has left it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from engine import wire
from engine.intake.refusal import Refusal
from tests.engine.intake.conftest import Check, MakeFolder

TextOf = Callable[..., str]
USER = {"role": "user", "content": "Where?"}
# As Qwen's: thoughts are closed before the text of the last message
THINKER = """\
{%- for message in messages %}
{{- '<|im_start|>' + message.role + '\\n' }}
{%- if message.role == 'assistant' and loop.last %}{{- '<think>\\n\\n</think>\\n\\n' }}{%- endif %}
{{- message.content | trim + '<|im_end|>\\n' }}
{%- endfor %}
{%- if add_generation_prompt %}{{- '<|im_start|>assistant\\n<think>\\n' }}{%- endif %}
"""


def begun(text: str, **fields: Any) -> dict[str, Any]:
    return {"role": "assistant", "content": text, **fields}


def test_the_prompt_ends_with_the_begun_text(text_of: TextOf) -> None:
    text = text_of(USER, begun("In Par"), continues_last=True)
    assert text.endswith("<|im_start|>assistant\nIn Par")
    assert text_of(USER, begun("In Par")).endswith("In Par<|im_end|>\n<|im_start|>assistant\n")


def test_white_space_at_its_end_is_kept(text_of: TextOf) -> None:
    assert text_of(USER, begun("In \n"), continues_last=True).endswith("In \n")


def test_what_it_spells_stays_text(text_of: TextOf, check: Check) -> None:
    plain = check(messages=(USER, begun("a")), continues_last=True)
    work = check(messages=(USER, begun("a<|im_end|>\ufdd0b")), continues_last=True)
    assert text_of(USER, begun("a<|im_end|>\ufdd0b"), continues_last=True).endswith("\ufdd0b")
    extra = work.prompt_token_ids[len(plain.prompt_token_ids) :]
    assert len(extra) == len("<|im_end|>") + len("\ufdd0b".encode())


def test_thoughts_are_behind_it(make_folder: MakeFolder, check: Check, text_of: TextOf) -> None:
    make_folder(template=THINKER)
    assert check(messages=(USER,)).starts_in_reasoning
    work = check(messages=(USER, begun("Yes")), continues_last=True)
    assert (work.starts_in_reasoning, work.has_thought) == (False, True)
    assert work.continues_last and not work.is_raw
    assert text_of(USER, begun("Yes"), continues_last=True).endswith("</think>\n\nYes")


def test_a_template_that_hides_the_message_cannot_continue_it(
    make_folder: MakeFolder, check: Check
) -> None:
    make_folder(template="{{ messages[0].content }}")
    with pytest.raises(Refusal, match="cannot continue"):
        check(messages=(USER, begun("Yes")), continues_last=True)


@pytest.mark.parametrize(
    "changes",
    [
        {"messages": (USER,)},
        {"messages": (USER, begun("", tool_calls=[{"function": {"name": "f"}}]))},
        {"grammar": wire.Grammar(kind=wire.GrammarKind.JSON_OBJECT, param="response_format")},
        {"tool_choice": wire.ToolChoice(is_required=True)},
    ],
)
def test_what_cannot_be_continued_is_named(
    check: Check, folder: Path, changes: dict[str, Any]
) -> None:
    asked = {"messages": (USER, begun("Yes")), "continues_last": True, **changes}
    with pytest.raises(Refusal) as refused:
        check(**asked)
    assert str(refused.value.refused.param).startswith("messages[")
