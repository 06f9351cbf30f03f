"""Embeddings and reranking by the whole service, with tiny models of the tests."""

from __future__ import annotations

import base64
import json
import struct
from pathlib import Path
from typing import Any

import httpx2
import openai
import pytest

from tests.flow.asking import RunningAnswer, fresh_prompt
from tests.openapi.description import check
from tests.stack import Stack
from tests.tiny_encoders import make_encoder, write_sentence_files
from tests.tiny_models import tiny_model_path

EMBEDDER, RERANKER = "tiny-embedding", "tiny-reranker"
ENCODER, CROSS_ENCODER = "tiny-bert", "tiny-cross-encoder"
TEXTS = ["The cat sat.", "Ein ganz anderer Satz € ☕", "word " * 900]
LONG = 2000  # tokens: an answer that goes on while others are served


def teach_yes_and_no(path: Path) -> None:
    """The two words in place of the two tokens that were learned last."""
    tokenizer = json.loads(path.read_text("utf-8"))
    model = tokenizer["model"]
    model["merges"] = model["merges"][:-2]
    last = sorted(model["vocab"], key=model["vocab"].__getitem__)[-2:]
    flags = dict.fromkeys(("single_word", "lstrip", "rstrip", "normalized", "special"), False)
    for word, old in zip(("yes", "no"), last, strict=True):
        model["vocab"][word] = number = model["vocab"].pop(old)
        tokenizer["added_tokens"].append({"id": number, "content": word, **flags})
    path.write_text(json.dumps(tokenizer), "utf-8")


@pytest.fixture(scope="module", autouse=True)
def _models(stack: Stack) -> None:
    """The same weights as one that answers, under names that say what they are for."""
    for name in (EMBEDDER, RERANKER):
        link = stack.data_dir / name
        link.mkdir()
        for file in tiny_model_path("tiny-qwen3").iterdir():
            (link / file.name).write_bytes(file.read_bytes())
        teach_yes_and_no(link / "tokenizer.json")
        stack.manage("add_model", str(link), "--name", name)
    make_encoder(stack.data_dir / ENCODER, "xlm-roberta")
    write_sentence_files(stack.data_dir / ENCODER, "pooling_mode_cls_token")
    make_encoder(stack.data_dir / CROSS_ENCODER, "bert", scores=True)
    for name in (ENCODER, CROSS_ENCODER):
        stack.manage("add_model", str(stack.data_dir / name), "--name", name)


def vectors(client: openai.OpenAI, **fields: Any) -> list[list[float]]:
    return [one.embedding for one in client.embeddings.create(**fields).data]


def test_each_text_has_its_vector_of_length_one(client: openai.OpenAI) -> None:
    answer = client.embeddings.create(model=EMBEDDER, input=TEXTS)
    assert [one.index for one in answer.data] == [0, 1, 2]
    assert answer.usage.prompt_tokens == answer.usage.total_tokens > 900
    for one, text in zip(answer.data, TEXTS, strict=True):
        assert sum(x * x for x in one.embedding) == pytest.approx(1, abs=1e-4)
        (alone,) = vectors(client, model=EMBEDDER, input=text, encoding_format="float")
        assert alone == pytest.approx(one.embedding, abs=1e-3)


def test_an_encoder_gives_vectors_that_no_neighbour_changes(client: openai.OpenAI) -> None:
    texts = ["The cat sat.", "Köln ☕", "word " * 20]
    together = vectors(client, model=ENCODER, input=texts, encoding_format="float")
    for text, vector in zip(texts, together, strict=True):
        assert sum(x * x for x in vector) == pytest.approx(1, abs=1e-4)
        (alone,) = vectors(client, model=ENCODER, input=text, encoding_format="float")
        assert alone == pytest.approx(vector, abs=1e-4)
    with pytest.raises(openai.BadRequestError, match="128 tokens") as refused:
        client.embeddings.create(model=ENCODER, input=["fits", "x" * 500])
    assert refused.value.param == "input[1]"


def test_a_vector_can_be_shortened_and_comes_as_base64(
    client: openai.OpenAI, stack: Stack, api_key: str
) -> None:
    (short,) = vectors(client, model=EMBEDDER, input=TEXTS[0], dimensions=8)
    assert len(short) == 8
    body = {"model": EMBEDDER, "input": TEXTS[0], "dimensions": 8}
    url, headers = f"{stack.base_url}/v1/embeddings", {"x-api-key": api_key}
    plain = httpx2.post(url, json=body, headers=headers).json()
    check("CreateEmbeddingResponse", plain)
    coded = httpx2.post(url, json=body | {"encoding_format": "base64"}, headers=headers).json()
    read = struct.unpack("<8f", base64.b64decode(coded["data"][0]["embedding"]))
    assert list(read) == pytest.approx(plain["data"][0]["embedding"])


def test_token_ids_are_taken_and_checked(client: openai.OpenAI) -> None:
    assert len(vectors(client, model=EMBEDDER, input=[[11, 12], [13]])) == 2
    with pytest.raises(openai.BadRequestError) as refused:
        client.embeddings.create(model=EMBEDDER, input=[[11, 12], [10**6]])
    assert refused.value.param == "input[1]"


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({"input": ""}, "input"),
        ({"input": []}, "input"),
        ({"input": ["a", ""]}, "input[1]"),
        ({"input": ["a", 7]}, "input[0]"),
        ({"input": "a " * 40_000}, "input"),
        ({"input": "a", "dimensions": 4096}, "dimensions"),
        ({"input": "a", "dimensions": 0}, "dimensions"),
        ({"input": "a", "encoding_format": "hex"}, "encoding_format"),
        ({"input": "a", "model": "hearth-demo"}, "model"),
    ],
)
def test_a_bad_field_is_named(
    stack: Stack, api_key: str, fields: dict[str, Any], param: str
) -> None:
    response = httpx2.post(
        f"{stack.base_url}/v1/embeddings",
        json={"model": EMBEDDER, **fields},
        headers={"Authorization": f"Bearer {api_key}"},
    )
    assert response.status_code == 400, response.text
    error = response.json()["error"]
    assert error["param"] == param, error


def test_a_model_for_vectors_refuses_to_chat(client: openai.OpenAI) -> None:
    with pytest.raises(openai.BadRequestError) as refused:
        client.chat.completions.create(model=EMBEDDER, messages=[{"role": "user", "content": "Hi"}])
    assert refused.value.param == "model"


def test_models_say_what_they_are_for(client: openai.OpenAI) -> None:
    kinds = {one.id: one.model_extra["kind"] for one in client.models.list() if one.model_extra}
    assert kinds[EMBEDDER] == "embed"
    assert kinds[RERANKER] == "rerank"
    assert kinds["hearth-demo"] == "generate"


@pytest.mark.parametrize(
    ("path", "model"),
    [("/v1/rerank", RERANKER), ("/v2/rerank", CROSS_ENCODER), ("/rerank", RERANKER)],
)
def test_documents_are_ordered_by_their_scores(
    stack: Stack, api_key: str, path: str, model: str
) -> None:
    body = {
        "model": model,
        "query": "Which one?",
        "documents": ["first", {"text": "second <|im_end|>"}, "third"],
        "top_n": 2,
        "return_documents": True,
    }
    response = httpx2.post(
        stack.base_url + path, json=body, headers={"Authorization": f"Bearer {api_key}"}
    )
    assert response.status_code == 200, response.text
    results = response.json()["results"]
    assert len(results) == 2
    assert results[0]["relevance_score"] >= results[1]["relevance_score"]
    assert all(0 <= one["relevance_score"] <= 1 for one in results)
    assert results[0]["document"]["text"] in json.dumps(body["documents"])


def test_embeddings_beside_an_answer_change_nothing_in_it(
    client: openai.OpenAI, endless: str, stack: Stack
) -> None:
    prompt = fresh_prompt()
    alone = RunningAnswer(client, endless, prompt, max_tokens=LONG).text()
    running = RunningAnswer(client, endless, prompt, max_tokens=LONG)
    running.wait_for_chunks(2)
    assert len(vectors(client, model=EMBEDDER, input=TEXTS * 20)) == 60
    assert running.text() == alone
    stack.wait_settled()
    (row,) = stack.rows(
        "SELECT prompt_tokens, completion_tokens FROM accounts_usagerecord "
        f"WHERE model_name = '{EMBEDDER}' ORDER BY prompt_tokens DESC LIMIT 1"
    )
    assert row[0] > 18_000 and row[1] == 0
