"""A script with an API key gets answers of a model that MLX really runs."""

from __future__ import annotations

import json

import pytest
from openai import APIError, InternalServerError, OpenAI

from tests.flow.asking import (
    MAX_TOKENS,
    RunningAnswer,
    ask,
    fresh_prompt,
    request,
    sure_answer,
    sure_answers,
)
from tests.stack import Stack

pytestmark = pytest.mark.stack


def test_the_demo_model_answers_a_greeting(client: OpenAI, demo: str) -> None:
    assert len(ask(client, demo, "Hello!").split()) >= 2


def test_the_demo_model_is_there_and_first(client: OpenAI, demo: str) -> None:
    assert demo in [model.id for model in client.models.list()]


def test_a_stream_joins_to_the_text_of_a_plain_answer(client: OpenAI, endless: str) -> None:
    prompt, whole = sure_answer(client, endless, max_tokens=MAX_TOKENS)
    streamed = RunningAnswer(client, endless, prompt)
    assert streamed.text() == whole
    assert streamed.finish_reason == "length"


def test_a_stream_brings_words_while_the_answer_is_made(client: OpenAI, endless: str) -> None:
    streamed = RunningAnswer(client, endless, fresh_prompt(), max_tokens=5000)
    streamed.wait_for_chunks(3)  # of an answer that has not ended
    streamed.leave()


def test_the_same_seed_gives_the_same_answer_and_another_does_not(
    client: OpenAI, endless: str
) -> None:
    prompt = fresh_prompt()
    first, again, other = (
        ask(client, endless, prompt, temperature=0.9, seed=seed) for seed in (7, 7, 8)
    )
    assert first == again != other


def test_an_answer_tells_its_tokens(client: OpenAI, endless: str) -> None:
    answer = client.chat.completions.create(**request(endless, fresh_prompt(), max_tokens=12))
    assert answer.usage is not None
    assert answer.usage.completion_tokens == 12
    assert answer.usage.prompt_tokens > 5
    assert answer.usage.total_tokens == answer.usage.prompt_tokens + 12


def test_a_stop_string_ends_the_answer_before_it(client: OpenAI, endless: str) -> None:
    prompt, whole = sure_answer(client, endless, max_tokens=MAX_TOKENS)
    stop = whole[len(whole) // 2 :][:4]
    assert ask(client, endless, prompt, stop=[stop]) == whole.split(stop)[0]


def test_a_deadline_ends_an_answer_in_its_middle(client: OpenAI, endless: str) -> None:
    streamed = RunningAnswer(
        client, endless, fresh_prompt(), max_tokens=100_000, extra_body={"deadline_seconds": 1}
    )
    with pytest.raises(APIError) as failed:
        streamed.text()
    assert failed.value.code == "deadline_exceeded"
    with pytest.raises(InternalServerError) as refused:
        ask(client, endless, fresh_prompt(), extra_body={"deadline_seconds": 0.001})
    assert (refused.value.status_code, refused.value.code) == (503, "deadline_exceeded")


def test_rows_that_join_and_leave_do_not_change_one_another(client: OpenAI, endless: str) -> None:
    prompts, _ = sure_answers(client, endless, 6, max_tokens=100)
    lengths = [10, 25, 40, 60, 80, 100]
    alone = [
        ask(client, endless, prompt, max_tokens=length)
        for prompt, length in zip(prompts, lengths, strict=True)
    ]
    running = [
        RunningAnswer(client, endless, prompt, max_tokens=length)
        for prompt, length in zip(prompts, lengths, strict=True)
    ]
    assert [one.text() for one in running] == alone


def test_a_key_may_come_as_x_api_key(stack: Stack, api_key: str) -> None:
    status, body = stack.get("/v1/models", **{"x-api-key": api_key})
    assert status == 200
    assert json.loads(body)["object"] == "list"


def test_each_request_has_one_usage_record(stack: Stack, client: OpenAI, endless: str) -> None:
    stack.wait_settled()  # what others have asked
    before = stack.num_usage_records
    for _ in range(3):
        ask(client, endless, fresh_prompt(), max_tokens=5)
    gone = RunningAnswer(client, endless, fresh_prompt(), max_tokens=5000)
    gone.wait_for_chunks(3)
    gone.leave()
    stack.wait_settled()
    assert stack.num_usage_records == before + 4
    newest = 'SELECT "end", completion_tokens FROM accounts_usagerecord ORDER BY id DESC LIMIT 1'
    ((end, completion_tokens),) = stack.rows(newest)
    assert end == "cancelled"
    assert 3 <= completion_tokens < 5000
