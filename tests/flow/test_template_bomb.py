"""A chat template that never ends: refused in time, told to the administrator, felt by nobody."""

from __future__ import annotations

import shutil
import time
from collections.abc import Iterator

import pytest
from openai import BadRequestError, OpenAI

from tests.flow.asking import RunningAnswer, fresh_prompt, request
from tests.flow.chat_page import ChatPage
from tests.stack import Stack
from tests.tiny_models import tiny_model_path

pytestmark = pytest.mark.stack
NUM_STREAMS = 8
BOMB = "{% for a in range(99999) %}{% for b in range(99999) %}x{% endfor %}{% endfor %}"


@pytest.fixture(scope="module")
def bomb(stack: Stack, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    folder = tmp_path_factory.mktemp("models") / "bomb"
    shutil.copytree(tiny_model_path("tiny-qwen3"), folder)
    (folder / "chat_template.jinja").write_text(BOMB)
    stack.manage("add_model", str(folder), "--name", "bomb")
    yield "bomb"
    stack.manage(
        "shell",
        "-c",
        "from hosting.actions.hosted_models import remove_model; "
        "from hosting.models import HostedModel; "
        "remove_model(HostedModel.objects.get(name='bomb'))",
    )


def test_a_template_that_never_ends_hurts_its_own_requests_only(
    stack: Stack, client: OpenAI, endless: str, bomb: str
) -> None:
    running = [
        RunningAnswer(client, endless, fresh_prompt(), max_tokens=2000) for _ in range(NUM_STREAMS)
    ]
    for one in running:
        one.wait_for_chunks(2)
    before = [len(one.chunks) for one in running]
    started = time.monotonic()
    with pytest.raises(BadRequestError) as caught:
        client.chat.completions.create(**request(bomb, "Hi"))

    assert time.monotonic() - started < 2.5
    assert caught.value.param == "messages"
    assert "took too much time" in caught.value.message
    assert all(len(one.chunks) > was for one, was in zip(running, before, strict=True))
    assert all(one.text() for one in running)


def test_the_administrator_reads_why_nobody_can_chat_with_a_model(
    stack: Stack, bomb: str, endless: str
) -> None:
    with ChatPage(stack) as page:
        ((pk,),) = stack.rows("SELECT id FROM hosting_hostedmodel WHERE name = 'bomb'")
        ((whole,),) = stack.rows(f"SELECT id FROM hosting_hostedmodel WHERE name = '{endless}'")
        told = page.read(f"/admin/hosting/hostedmodel/{pk}/change/")
        untold = page.read(f"/admin/hosting/hostedmodel/{whole}/change/")

    assert "Nobody can chat with bomb. The model&#x27;s chat template took too much time" in told
    assert "Nobody can chat" not in untold
