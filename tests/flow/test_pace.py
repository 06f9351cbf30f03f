"""A model's pace, chosen while the engine runs, holds from its next turn on."""

from __future__ import annotations

import http.client
import json
import uuid
from collections.abc import Iterator

import pytest
from openai import OpenAI

from tests.flow.asking import RunningAnswer, request, sure_answer
from tests.stack import Stack

pytestmark = pytest.mark.stack
LONG = 6000
PROMPT_WORDS = 1500  # three tokens each or more
SHORT_STALL = {"pace": "custom", "stall_ms": 1, "decode_share": 0.5}


def set_pace(stack: Stack, model: str, **fields: object) -> None:
    """As the administration does it."""
    stack.manage(
        "shell",
        "-c",
        "from hosting.actions.hosted_models import publish_models; "
        "from hosting.models import HostedModel; "
        f"HostedModel.objects.filter(name={model!r}).update(**{fields!r}); publish_models()",
    )


@pytest.fixture
def paced(stack: Stack, endless: str) -> Iterator[str]:
    yield endless
    set_pace(stack, endless, pace="balanced")


def num_prompt_pieces(stack: Stack, api_key: str, model: str) -> int:
    """In how many pieces a long prompt is read, as the comments of its stream tell."""
    prompt = f"{uuid.uuid4()} " + " ".join(f"word{number}" for number in range(PROMPT_WORDS))
    connection = http.client.HTTPConnection("127.0.0.1", stack.port, timeout=60)
    try:
        connection.request(
            "POST",
            "/v1/chat/completions",
            json.dumps(request(model, prompt, max_tokens=1, stream=True)),
            {"Authorization": f"Bearer {api_key}", "Content-Type": "application/json"},
        )
        answer = connection.getresponse()
        assert answer.status == 200, answer.read()
        return sum(line.startswith(b": prefill ") for line in answer.read().splitlines())
    finally:
        connection.close()


def num_pieces_beside_a_stream(
    stack: Stack, client: OpenAI, api_key: str, model: str, known: tuple[str, str]
) -> int:
    """On a busy machine a stream may end before the prompt is read: then once more."""
    prompt, answer = known
    while True:
        running = RunningAnswer(client, model, prompt, max_tokens=LONG)
        running.wait_for_chunks(5)
        num_pieces = num_prompt_pieces(stack, api_key, model)
        if running.is_running:
            running.leave()
            said = "".join(running.chunks)
            assert said[: len(answer)] == answer[: len(said)]
            return num_pieces


def test_a_new_pace_holds_for_a_running_engine(
    stack: Stack, client: OpenAI, api_key: str, paced: str
) -> None:
    known = sure_answer(client, paced, max_tokens=LONG // 10)
    engine = stack.pid_of("engine")
    set_pace(stack, paced, pace="throughput")
    few = num_pieces_beside_a_stream(stack, client, api_key, paced, known)
    set_pace(stack, paced, **SHORT_STALL)
    many = num_pieces_beside_a_stream(stack, client, api_key, paced, known)
    assert many > 2 * few
    assert stack.pid_of("engine") == engine
