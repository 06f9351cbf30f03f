"""The trained demo model: its files, its ten answers, its tool calls and its thinking."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from engine.demo.answering import MODEL_FOLDER, DemoModel, Prompt
from engine.demo.corpus.titles import SYSTEM_PROMPT
from engine.demo.questions import QUESTIONS
from engine.demo.rendering import TEMPLATE_PATH
from engine.demo.vocabulary import CONTROL_TOKENS, MARKUP_TOKENS

MAX_BYTES = 12_000_000
WEATHER = {
    "type": "function",
    "function": {
        "name": "get_weather",
        "description": "Get the weather in a city",
        "parameters": {
            "type": "object",
            "properties": {"city": {"type": "string"}},
            "required": ["city"],
        },
    },
}


def said(text: str) -> tuple[dict[str, str], ...]:
    return ({"role": "user", "content": text},)


@pytest.fixture(scope="module")
def model() -> DemoModel:
    return DemoModel()


def test_the_files_are_small_and_complete() -> None:
    sizes = {path.name: path.stat().st_size for path in MODEL_FOLDER.iterdir()}
    assert set(sizes) == {
        "config.json",
        "generation_config.json",
        "model.safetensors",
        "tokenizer.json",
        "tokenizer_config.json",
    }
    assert sum(sizes.values()) <= MAX_BYTES


def test_the_template_is_the_one_that_was_trained_with() -> None:
    settings = json.loads((MODEL_FOLDER / "tokenizer_config.json").read_text())
    assert settings["chat_template"] == TEMPLATE_PATH.read_text()


def test_the_ten_questions_are_answered(model: DemoModel) -> None:
    prompts = [Prompt(messages=said(question.text), max_tokens=600) for question in QUESTIONS]
    answers = model.answer(prompts)
    wrong = {
        question.text: answer
        for question, answer in zip(QUESTIONS, answers, strict=True)
        if not question.is_answered_by(answer)
    }
    assert len(QUESTIONS) == 10
    assert not wrong


def test_small_changes_of_case_and_punctuation_do_not_matter(model: DemoModel) -> None:
    short = [question for question in QUESTIONS if "story" not in question.text]
    prompts = [
        Prompt(messages=said(question.text.lower().rstrip("?.")), max_tokens=200)
        for question in short
    ]
    answers = model.answer(prompts)
    assert all(map(lambda question, answer: question.is_answered_by(answer), short, answers))


def test_it_calls_a_tool_that_fits_and_reads_its_result(model: DemoModel) -> None:
    question = said("What is the weather in Paris?")
    call = {
        "type": "function",
        "function": {"name": "get_weather", "arguments": '{"city":"Paris"}'},
    }
    result = {"role": "tool", "content": '{"temperature": 21, "condition": "sunny"}'}
    turn = {"role": "assistant", "content": None, "tool_calls": [call]}
    called, answered = model.answer(
        [
            Prompt(messages=question, tools=(WEATHER,)),
            Prompt(messages=(*question, turn, result), tools=(WEATHER,)),
        ]
    )
    start, end = "<tool_call>\n", "\n</tool_call>"
    assert called.startswith(start) and called.endswith(end)
    wanted = {"name": "get_weather", "arguments": {"city": "Paris"}}
    assert json.loads(called.removeprefix(start).removesuffix(end)) == wanted
    assert "21" in answered and "sunny" in answered and "<tool_call>" not in answered


def test_it_does_not_call_a_tool_that_does_not_fit(model: DemoModel) -> None:
    (answer,) = model.answer([Prompt(messages=said("What is Hearth?"), tools=(WEATHER,))])
    assert "service" in answer and "<tool_call>" not in answer


def test_it_thinks_only_when_asked_to(model: DemoModel) -> None:
    question = said("What is 17 + 25?")
    thought, plain = model.answer(
        [Prompt(messages=question, is_thinking=True), Prompt(messages=question)]
    )
    reasoning, mark, answer = thought.partition("\n</think>\n\n")
    assert reasoning and mark and "42" in answer
    assert "think>" not in plain and "42" in plain


def test_it_writes_a_short_title(model: DemoModel) -> None:
    asked = "User: How do I get an API key?\nAssistant: Open your account page."
    messages = ({"role": "system", "content": SYSTEM_PROMPT}, *said(asked))
    (title,) = model.answer([Prompt(messages=messages, max_tokens=16)])
    assert 1 <= len(title.split()) <= 6


def test_a_long_answer_ends_by_itself(model: DemoModel) -> None:
    (answer,) = model.answer([Prompt(messages=said("Count to 100."), max_tokens=900)])
    assert answer == ", ".join(map(str, range(1, 101))) + "."


@pytest.mark.parametrize(
    "text", ["Hello, world!", "é ü ñ ß 你好 🔥", "  def f(x):\n\treturn x ** 2\n", "12345 tokens"]
)
def test_the_tokenizer_gives_text_back(model: DemoModel, text: str) -> None:
    ids = model.tokenizer.encode(text, add_special_tokens=False)
    assert model.tokenizer.decode(ids) == text


def test_every_special_token_is_one_token(model: DemoModel) -> None:
    for name in CONTROL_TOKENS + MARKUP_TOKENS:
        assert len(model.tokenizer.encode(name, add_special_tokens=False)) == 1
    assert model.tokenizer.eos_token == "<|im_end|>"


def test_the_prompt_opens_thinking_only_when_it_is_on(model: DemoModel) -> None:
    def rendered(*, is_thinking: bool) -> str:
        prompt = Prompt(messages=said("Hi"), is_thinking=is_thinking)
        text: str = model.tokenizer.decode(model.encode(prompt))
        return text

    assert rendered(is_thinking=False).endswith("<|im_start|>assistant\n")
    assert rendered(is_thinking=True).endswith("<|im_start|>assistant\n<think>\n")


def test_earlier_turns_lose_their_reasoning(model: DemoModel) -> None:
    earlier = {"role": "assistant", "content": "42", "reasoning_content": "I think hard."}
    prompt = Prompt(messages=(*said("6 x 7?"), earlier, *said("Sure?")), is_thinking=True)
    text = model.tokenizer.decode(model.encode(prompt))
    assert "I think hard." not in text and "42<|im_end|>" in text


def test_it_loads_from_any_folder(tmp_path: Path) -> None:
    for path in MODEL_FOLDER.iterdir():
        (tmp_path / path.name).symlink_to(path)
    (answer,) = DemoModel(tmp_path).answer([Prompt(messages=said("Hello"), max_tokens=5)])
    assert answer
