"""Chat templates of the kinds that models bring, and those that mean harm."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from engine import wire
from engine.intake.limits import TooSlow
from engine.intake.refusal import Refusal
from engine.intake.template import Template, TemplateRefused
from tests.engine.intake.conftest import Check, MakeFolder

USER = {"role": "user", "content": "q"}
BOMBS = [
    "{% for a in range(99999) %}{% for b in range(99999) %}x{% endfor %}{% endfor %}",
    "{% set ns = namespace(x='aaaaaaaa') %}{% for i in range(99) %}"
    "{% set ns.x = ns.x + ns.x %}{% endfor %}{{ ns.x }}",
    "{{ 'a' * 10**9 }}",
    "{{ [0] * 99999999 }}",
    "{{ 9 ** (9 ** 9) }}",
    "{% set ns = namespace(x=9) %}{% for i in range(99) %}{% set ns.x = ns.x * ns.x %}{% endfor %}",
    "{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}",
    "{{ ''.__class__.__mro__ }}",
    "{{ messages.append(1) }}",
    "{{ raise_exception('System message must be at the beginning.') }}",
    "{{ messages[7].content }}",
    "{{ 1 / 0 }}",
    "{{ missing.attribute }}",
    "{{ ('x' | center(99999999)) | length }}{% for a in range(99999) %}"
    "{{ 'x' | center(99999) }}{% endfor %}",
]


def render(source: str, *messages: dict[str, Any], **options: Any) -> str:
    template = Template(source, special_tokens={"bos_token": "<s>", "eos_token": "</s>"})
    return template.render(template.prepare(list(messages)), [], options)


@pytest.mark.parametrize("bomb", BOMBS, ids=lambda bomb: bomb[:40])
def test_a_hostile_template_is_refused_within_its_caps(
    make_folder: MakeFolder, check: Check, bomb: str
) -> None:
    make_folder(template=bomb)
    began = time.process_time()
    with pytest.raises(Refusal) as caught:
        check()

    assert time.process_time() - began < 6.0
    assert caught.value.refused.code == wire.Code.INVALID_VALUE
    assert caught.value.refused.param == "messages"


def test_a_template_that_took_too_long_once_is_not_tried_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Whoever waits for its first prompt would wait for every other probe, too."""
    tried = []

    def render(self: Template, *_: Any, **__: Any) -> str:
        tried.append(self)
        raise TooSlow

    monkeypatch.setattr(Template, "render", render)
    Template("{{ messages }}", special_tokens={})
    assert len(tried) == 1


def test_a_template_s_own_objection_is_passed_on(make_folder: MakeFolder, check: Check) -> None:
    make_folder(template="{{ raise_exception('Roles must alternate') }}")
    with pytest.raises(Refusal, match="Roles must alternate"):
        check()


def test_a_template_that_does_not_compile_makes_the_model_unusable(
    make_folder: MakeFolder, check: Check
) -> None:
    make_folder(template="{% if %}")
    with pytest.raises(Refusal) as caught:
        check()

    assert caught.value.refused.code == wire.Code.MODEL_LOAD_FAILED


def test_templates_see_what_transformers_gives_them() -> None:
    source = (
        "{{ bos_token }}{{ eos_token }}{{ documents is none }}{{ tools is none }}"
        "{{ strftime_now('%Y') | length }}{{ {'a': '<é>'} | tojson }}"
        "{% for m in messages %}{% if loop.first %}{% continue %}{% endif %}{% endfor %}"
        "{% generation %}x{% endgeneration %}{{ add_generation_prompt }}"
    )

    assert render(source, USER) == '<s></s>TrueTrue4{"a": "<é>"}xTrue'


def test_blocks_are_trimmed_as_templates_expect() -> None:
    assert render("{% for m in messages %}\n    {{- m.content }}\n{% endfor %}", USER) == "q\n"


def test_options_reach_the_template_but_replace_nothing(check: Check, folder: Path) -> None:
    assert check(template_options={"enable_thinking": True}).starts_in_reasoning
    assert not check(template_options={"enable_thinking": False}).starts_in_reasoning


@pytest.mark.parametrize(
    ("closing", "has_thought"), [("<think>\n\n</think>\n\n", True), ("", False)]
)
def test_a_prompt_may_have_the_thinking_behind_it(
    make_folder: MakeFolder, check: Check, closing: str, has_thought: bool
) -> None:
    make_folder(template="{{ messages[0].content }}" + closing)

    assert check().has_thought is has_thought
    assert render("{{ bos_token }}", USER, bos_token="mine") == "<s>"


def of_each_call(source: str) -> str:
    """A template that writes this of each tool call `c` of the history."""
    opening = "{% for m in messages %}{% for c in m.tool_calls or [] %}"
    return opening + source + "{% endfor %}{% endfor %}"


def calling(arguments: str) -> dict[str, Any]:
    call = {"function": {"name": "f", "arguments": arguments}}
    return {"role": "assistant", "content": "", "tool_calls": [call]}


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("{{ c.function.arguments }}", '{"b":  1, "a": [2]}'),
        ("{{ c.function.arguments | tojson }}", '{"b":  1, "a": [2]}'),
        (
            "{% for k, v in c.function.arguments | items %}{{ k }}={{ v }};{% endfor %}",
            "b=1;a=[2];",
        ),
        ("{% for k, v in c.function.arguments.items() %}{{ k }};{% endfor %}", "b;a;"),
        (
            "{% if c.function.arguments is string %}{{ c.function.arguments }}"
            "{% else %}{{ c.function.arguments | tojson }}{% endif %}",
            '{"b":  1, "a": [2]}',
        ),
        (
            "{{ c.function | tojson }}",
            '{"name": "f", "arguments": {"b": 1, "a": [2]}}',
        ),
    ],
)
def test_arguments_come_as_the_template_takes_them(source: str, expected: str) -> None:
    assert render(of_each_call(source), calling('{"b":  1, "a": [2]}')) == expected


DEEP = [f'{{"a": {"[" * depth}{"]" * depth}}}' for depth in (150, 250, 500, 979, 5000)]


ONE_CALL = "[{{ m.tool_calls[0].function.name }}]"
REFUSED = "{% if m.tool_calls | length > 1 %}{{ raise_exception('single tool-calls') }}{% endif %}"
ALL_CALLS = "{% for c in m.tool_calls %}[{{ c.function.name }}]{% endfor %}"


@pytest.mark.parametrize(
    ("calls", "expected"),
    [
        (REFUSED + ONE_CALL, "q[look](here)[ask](yes)q"),
        (ONE_CALL, "q[look](here)[ask](yes)q"),
        (ALL_CALLS, "q[look][ask](here)(yes)q"),
        ("", "q(here)(yes)q"),
    ],
    ids=["refuses-several", "shows-the-first", "shows-all", "shows-none"],
)
def test_a_template_that_takes_one_call_a_message_gets_one(calls: str, expected: str) -> None:
    source = (
        "{% for m in messages %}{% if m.tool_calls %}" + calls + "{% elif m.role == 'tool' %}"
        "({{ m.content }}){% else %}{{ m.content }}{% endif %}{% endfor %}"
    )
    named = [("call-1", "look"), ("call-2", "ask")]
    called = [
        {"id": key, "type": "function", "function": {"name": name, "arguments": "{}"}}
        for key, name in named
    ]
    results = [
        {"role": "tool", "content": content, "tool_call_id": key}
        for (key, _), content in zip(named, ("here", "yes"), strict=True)
    ]
    turn = {"role": "assistant", "content": "", "tool_calls": called}
    assert render(source, USER, turn, *results, USER) == expected


@pytest.mark.parametrize("arguments", ["", "not json", "[1]", "7", *DEEP])
def test_arguments_that_are_no_object_do_not_end_the_conversation(
    make_folder: MakeFolder, check: Check, arguments: str
) -> None:
    names = "{% for k, v in c.function.arguments | items %}{{ k }}{% endfor %}"
    make_folder(template=of_each_call(names) + "ok")

    assert check(messages=(calling(arguments),))


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ('{"a": "warm \\ud83d"}', "a=warm ?"),
        ('{"a": ["\\uDE00", 1]}', "a=['?', 1]"),
        ('{"\\ud83d": "b"}', "?=b"),
        ('{"a": "\\ud83d\\ude00"}', "a=😀"),
    ],
)
def test_half_an_emoji_in_arguments_does_not_end_the_conversation(
    make_folder: MakeFolder, text_of: Callable[..., str], arguments: str, said: str
) -> None:
    values = "{% for k, v in c.function.arguments.items() %}{{ k }}={{ v }}{% endfor %}"
    make_folder(template=of_each_call(values))

    assert text_of(calling(arguments)) == said


def test_the_tool_template_is_used_when_there_are_tools(
    make_folder: MakeFolder, check: Check
) -> None:
    make_folder(
        template=[
            {"name": "default", "template": "four"},
            {"name": "tool_use", "template": "sixsix"},
        ]
    )
    tool = {"type": "function", "function": {"name": "f"}}

    assert len(check().prompt_token_ids) == 4
    assert len(check(tools=(tool,)).prompt_token_ids) == 6
    assert len(check(tools=({"type": "web_search"},)).prompt_token_ids) == 4


def test_a_template_file_wins_and_is_read_again_when_it_changes(folder: Path, check: Check) -> None:
    (folder / "chat_template.jinja").write_text("abc")
    assert len(check().prompt_token_ids) == 3
    (folder / "chat_template.jinja").write_text("abcde")
    assert len(check().prompt_token_ids) == 5


def test_a_model_without_a_template_takes_prompts_only(folder: Path, check: Check) -> None:
    (folder / "tokenizer_config.json").write_text("{}")
    assert check(prompt="abc").prompt_token_ids
    with pytest.raises(Refusal, match="no chat template"):
        check()


def test_a_template_that_says_nothing_is_refused(make_folder: MakeFolder, check: Check) -> None:
    make_folder(template="{# nothing #}")
    with pytest.raises(Refusal, match="no tokens"):
        check()


@pytest.mark.parametrize(
    ("config", "limit"),
    [
        ({"max_position_embeddings": 64}, 64),
        ({"text_config": {"max_position_embeddings": 48}, "max_position_embeddings": 64}, 48),
        ({"n_positions": 32}, 32),
        ({}, 131_072),
    ],
)
def test_the_limit_comes_from_the_model_s_own_config(
    make_folder: MakeFolder, check: Check, config: dict[str, Any], limit: int
) -> None:
    make_folder(config=config | {"model_type": "any"})

    assert check(prompt="abcd").max_tokens == limit - 4


def test_roles_of_other_dialects_are_understood(text_of: Callable[..., str]) -> None:
    text = text_of(
        {"role": "developer", "content": "d"},
        {"role": "function", "content": "f", "name": "tool"},
        {"role": "user", "content": [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]},
        {"role": "assistant", "content": None, "reasoning_content": "hm"},
    )

    assert "system\nd<|im_end|>" in text
    assert "tool\n<tool_response>f<|im_end|>" in text
    assert "user\nab<|im_end|>" in text
    assert "assistant\n<|im_end|>" in text


def test_special_tokens_may_be_given_as_objects(make_folder: MakeFolder, check: Check) -> None:
    folder = make_folder(
        template="{{ bos_token }}",
        settings={"bos_token": {"content": "<|im_start|>", "special": True}},
    )
    assert len(check().prompt_token_ids) == 1
    assert json.loads((folder / "tokenizer_config.json").read_text())["bos_token"]


def test_a_refused_template_names_no_python_internals() -> None:
    with pytest.raises(TemplateRefused) as caught:
        render("{{ ''.__class__ }}{{ messages.x.y }}", USER)

    assert "Traceback" not in str(caught.value)
