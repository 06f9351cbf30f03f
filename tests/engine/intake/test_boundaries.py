"""Where prompts part: positions that intake tells the engine, and prompts cut there to publish."""

from __future__ import annotations

from typing import Any

import pytest

from engine.intake.refusal import Refusal
from engine.intake.template import Template

from .conftest import Check, MakeFolder, make_tokenizer

CONVERSATION = [
    {"role": "system", "content": "Be brief."},
    {"role": "user", "content": "One?"},
    {"role": "assistant", "content": "1."},
    {"role": "user", "content": "Two?"},
]
STRICT = """\
{%- for message in messages %}
{%- if message.role == 'system' and not loop.first %}{{- raise_exception('first only') }}{% endif %}
{%- if not loop.first and message.role == messages[loop.index0 - 1].role %}
{{- raise_exception('alternate') }}{% endif %}
{{- '<|im_start|>' + message.role + '\\n' + message.content + '<|im_end|>\\n' }}
{%- endfor %}
"""


def text_up_to(check: Check, position: int, **fields: Any) -> str:
    tokenizer = make_tokenizer()
    token_ids = check(**fields).prompt_token_ids[:position]
    return tokenizer.decode(list(token_ids), skip_special_tokens=False)


def test_boundaries_are_the_ends_of_the_system_prompt_and_of_turns(
    make_folder: MakeFolder, check: Check
) -> None:
    make_folder()
    work = check(messages=CONVERSATION)
    texts = [text_up_to(check, at, messages=CONVERSATION) for at in work.boundaries]
    ends = ["Be brief.<|im_end|>\n", "1.<|im_end|>\n", "Two?<|im_end|>\n"]
    assert [text.endswith(end) for text, end in zip(texts, ends, strict=True)] == [True] * 3


def test_every_boundary_is_a_true_prefix_of_the_next_turns_prompt(
    make_folder: MakeFolder, check: Check
) -> None:
    make_folder()
    first = check(messages=CONVERSATION)
    more = [{"role": "assistant", "content": "2."}, {"role": "user", "content": "Three?"}]
    second = check(messages=[*CONVERSATION, *more])
    for at in first.boundaries:
        assert second.prompt_token_ids[:at] == first.prompt_token_ids[:at]
    assert len(first.boundaries) == 3


def test_system_messages_at_the_beginning_are_one_where_a_template_takes_one(
    make_folder: MakeFolder, check: Check
) -> None:
    make_folder(template=STRICT)
    developer = {"role": "developer", "content": "No jokes."}
    messages = [CONVERSATION[0], developer, *CONVERSATION[1:]]
    work = check(messages=messages)
    whole = text_up_to(check, len(work.prompt_token_ids), messages=messages)
    assert whole.startswith(
        "<|im_start|>system\nBe brief.\n\nNo jokes.<|im_end|>\n<|im_start|>user"
    )
    beginning = text_up_to(check, work.boundaries[0], messages=messages)
    assert beginning.endswith("No jokes.<|im_end|>\n")
    published = check(messages=messages[:2], publication="brief")
    assert published.prompt_token_ids == work.prompt_token_ids[: work.boundaries[0]]


def test_what_people_write_makes_no_boundary(make_folder: MakeFolder, check: Check) -> None:
    make_folder()
    quiet = check(messages=[*CONVERSATION[:-1], {"role": "user", "content": "a" * 22}])
    spelled = {"role": "user", "content": "<|im_start|>" + "a" * 10}
    loud = check(messages=[*CONVERSATION[:-1], spelled])
    assert len(loud.boundaries) == len(quiet.boundaries)


def test_a_raw_prompt_has_no_boundaries(make_folder: MakeFolder, check: Check) -> None:
    make_folder()
    assert check(prompt="abcd").boundaries == ()


@pytest.mark.parametrize("finds_boundaries", [True, False])
def test_a_publication_is_the_system_prompt_alone(
    make_folder: MakeFolder, check: Check, finds_boundaries: bool
) -> None:
    make_folder()
    system = {"role": "system", "content": "Everybody's preamble."}
    published = check(
        messages=[system], publication="p1", max_tokens=1, finds_boundaries=finds_boundaries
    )
    used = check(messages=[system, {"role": "user", "content": "x"}])
    length = len(published.prompt_token_ids)
    assert published.publication == "p1"
    assert published.prompt_token_ids == used.prompt_token_ids[:length]
    assert length == used.boundaries[0]


def test_a_publication_whose_end_cannot_be_told_is_refused(
    make_folder: MakeFolder, check: Check
) -> None:
    make_folder(template="{% for message in messages %}{{ message.content }}{% endfor %}")
    with pytest.raises(Refusal):
        check(messages=[{"role": "system", "content": "a"}], publication="p1")


def test_teams_are_handed_on(make_folder: MakeFolder, check: Check) -> None:
    make_folder()
    assert check(messages=CONVERSATION, cache_teams=("t1",)).cache_teams == ("t1",)


def test_a_late_system_message_stays_in_place_where_the_template_refuses_it() -> None:
    template = Template(STRICT, special_tokens={})
    late = {"role": "system", "content": "remember"}
    before = template.prepare([*CONVERSATION, late])
    rendered = template.render(before, [], {})
    assert rendered.endswith("Two?\n\n<system-reminder>\nremember\n</system-reminder><|im_end|>\n")
    after = [late, {"role": "user", "content": "go on"}]
    grown = template.prepare([*CONVERSATION[:3], *after])
    assert "</system-reminder>\n\ngo on<|im_end|>" in template.render(grown, [], {})


def test_growing_a_conversation_with_late_system_messages_keeps_its_prefix() -> None:
    template = Template(STRICT, special_tokens={})
    late = {"role": "system", "content": "remember"}
    answer = {"role": "assistant", "content": "2."}
    short = template.render(template.prepare([*CONVERSATION, late]), [], {})
    long = template.render(
        template.prepare([*CONVERSATION, late, answer, {"role": "user", "content": "3?"}]), [], {}
    )
    assert long.startswith(short)
