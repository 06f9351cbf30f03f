"""Batches through the openai package: each line is answered once, and paid once, whoever dies."""

from __future__ import annotations

import io
import json
import uuid
from typing import Any

import openai
import pytest
from openai import OpenAI
from openai.types import Batch

from tests.stack import END_SECONDS, Stack
from tests.tiny_encoders import make_encoder

pytestmark = pytest.mark.stack
ENDPOINTS = {
    "/v1/chat/completions": {"messages": [{"role": "user", "content": "What is 12 + 30?"}]},
    "/v1/completions": {"prompt": "Hearth is"},
    "/v1/responses": {"input": "What is 12 + 30?"},
}
LENGTHS = {"/v1/responses": "max_output_tokens"}
PATIENCE_SECONDS = 240.0


def lines(num: int, model: str, url: str, **body: Any) -> bytes:
    """Prompts are new ones, that no cache makes them short."""
    body = ENDPOINTS[url] | {"model": model, LENGTHS.get(url, "max_tokens"): 20} | body
    many = (
        {"custom_id": f"line-{number}", "method": "POST", "url": url, "body": body}
        for number in range(num)
    )
    return "".join(f"{json.dumps(one)}\n" for one in many).encode()


def begin(client: OpenAI, content: bytes, url: str) -> Batch:
    file = client.files.create(file=("in.jsonl", io.BytesIO(content)), purpose="batch")
    return client.batches.create(
        input_file_id=file.id,
        endpoint=url,  # type: ignore[arg-type]
        completion_window="24h",
        metadata={"test": uuid.uuid4().hex},
    )


def over(stack: Stack, client: OpenAI, batch: Batch) -> Batch:
    def look() -> Batch | None:
        try:
            found = client.batches.retrieve(batch.id)
        except (openai.APIConnectionError, openai.InternalServerError):  # the web process is away
            return None
        is_over = found.status in ("completed", "failed", "expired", "cancelled")
        return found if is_over else None

    stack.wait_until(lambda: look() is not None, "the batch is over", seconds=PATIENCE_SECONDS)
    return client.batches.retrieve(batch.id)


def read(client: OpenAI, file_id: str | None) -> list[dict[str, Any]]:
    assert file_id is not None
    return [json.loads(one) for one in client.files.content(file_id).text.splitlines()]


@pytest.mark.parametrize("url", ENDPOINTS)
def test_every_line_is_answered_in_its_dialect(
    stack: Stack, client: OpenAI, demo: str, url: str
) -> None:
    batch = over(stack, client, begin(client, lines(5, demo, url), url))
    assert batch.status == "completed" and batch.model == demo
    assert batch.request_counts is not None and batch.request_counts.completed == 5
    output = read(client, batch.output_file_id)
    assert {one["custom_id"] for one in output} == {f"line-{number}" for number in range(5)}
    assert {one["response"]["status_code"] for one in output} == {200}
    assert output[0]["response"]["body"]["usage"]["total_tokens"] > 0
    assert batch.id in [one.id for one in client.batches.list(limit=2)]
    assert batch.output_file_id in [one.id for one in client.files.list(purpose="batch_output")]


def test_embeddings_are_the_same_as_one_by_one(stack: Stack, client: OpenAI) -> None:
    url, name, text = "/v1/embeddings", "encoder-of-batches", "The cat sat."
    make_encoder(stack.data_dir / name, "xlm-roberta")
    stack.manage("add_model", str(stack.data_dir / name), "--name", name)
    body = {"model": name, "input": [text, "A warm fire."], "encoding_format": "float"}
    line = {"custom_id": "a", "method": "POST", "url": url, "body": body}
    batch = over(stack, client, begin(client, json.dumps(line).encode(), url))
    (answer,) = read(client, batch.output_file_id)
    alone = client.embeddings.create(model=name, input=text, encoding_format="float")
    vectors = [one["embedding"] for one in answer["response"]["body"]["data"]]
    assert len(vectors) == 2
    assert vectors[0] == pytest.approx(alone.data[0].embedding, abs=1e-4)


def test_wrong_lines_fail_it_and_are_named(stack: Stack, client: OpenAI, demo: str) -> None:
    url = "/v1/chat/completions"
    batch = over(stack, client, begin(client, lines(1, demo, url) + b"no json\n", url))
    assert batch.status == "failed" and batch.errors is not None and batch.errors.data is not None
    assert (batch.errors.data[0].line, batch.errors.data[0].code) == (2, "invalid_json_line")


def test_a_batch_is_cancelled_and_its_file_deleted(
    stack: Stack, client: OpenAI, endless: str
) -> None:
    url = "/v1/completions"
    batch = begin(client, lines(200, endless, url, max_tokens=400), url)
    with pytest.raises(openai.BadRequestError, match="under way"):
        client.files.delete(batch.input_file_id)
    assert client.batches.cancel(batch.id).status in ("cancelling", "cancelled")
    assert over(stack, client, batch).status == "cancelled"
    assert client.files.delete(batch.input_file_id).deleted
    stack.wait_settled()


def under_way(stack: Stack, client: OpenAI, batch: Batch) -> None:
    def has_some() -> bool:
        counts = client.batches.retrieve(batch.id).request_counts
        return counts is not None and counts.completed > 2

    stack.wait_until(has_some, "some lines are done", seconds=PATIENCE_SECONDS)


def check_all_once(stack: Stack, client: OpenAI, batch: Batch, *, num_lines: int) -> None:
    assert batch.status == "completed" and batch.error_file_id is None
    ids = [one["custom_id"] for one in read(client, batch.output_file_id)]
    assert sorted(ids) == sorted(f"line-{number}" for number in range(num_lines))
    stack.wait_settled()
    assert stack.num_rows("hosting_batchanswer") == stack.num_rows("hosting_batchline") == 0


@pytest.mark.parametrize("victim", ["celery", "engine", "ledger", "redis", "web", "intake"])
def test_whoever_is_killed_each_line_is_answered_and_paid_once(
    stack: Stack, client: OpenAI, endless: str, victim: str
) -> None:
    url = "/v1/completions"
    stack.wait_settled()
    before = stack.num_usage_records
    batch = begin(client, lines(40, endless, url, max_tokens=60), url)

    under_way(stack, client, batch)
    stack.wait_restarted(victim, stack.kill(victim))
    check_all_once(stack, client, over(stack, client, batch), num_lines=40)
    assert stack.num_usage_records == before + 40


def test_a_service_that_is_stopped_stops_soon_and_goes_on_later(
    stack: Stack, client: OpenAI, endless: str
) -> None:
    url = "/v1/completions"
    stack.wait_settled()
    before = stack.num_usage_records
    batch = begin(client, lines(40, endless, url, max_tokens=60), url)
    under_way(stack, client, batch)
    assert stack.stop() < END_SECONDS
    stack.start()
    check_all_once(stack, client, over(stack, client, batch), num_lines=40)
    assert stack.num_usage_records == before + 40
