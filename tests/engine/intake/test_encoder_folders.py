"""Folders of encoders at the door: how long a text may be, and two texts that are read together."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import tokenizers

from engine import wire
from engine.intake.model_folder import ModelFolder
from engine.intake.refusal import Refusal
from engine.intake.vector_door import Reading, check_vectors
from tests.tiny_encoders import FAMILIES, POSITIONS, make_encoder

START_ID, END_ID = 0, 2


def rerank(folder: Path, query: str, *documents: str, **limits: int) -> wire.VectorWork:
    spec = wire.ModelSpec(name="m", path=str(folder), kind=wire.ModelKind.RERANK)
    command = wire.Rerank(**SHARED, query=query, documents=documents, **limits)
    return read(check_vectors(command, spec, ModelFolder(folder)))


def embed(
    folder: Path, *texts: str, limit_tokens: int | None = None, **fields: Any
) -> wire.VectorWork:
    spec = wire.ModelSpec(
        name="m", path=str(folder), kind=wire.ModelKind.EMBED, context_limit_tokens=limit_tokens
    )
    command = wire.Embed(**SHARED, texts=texts, **fields)
    return read(check_vectors(command, spec, ModelFolder(folder)))


def read(reading: Reading) -> wire.VectorWork:
    """To its end."""
    while True:
        try:
            next(reading)
        except StopIteration as end:
            work: wire.VectorWork = end.value
            return work


SHARED = {
    "request_id": "r",
    "model": "m",
    "tenant": "user:1",
    "priority": wire.Priority.API,
    "submitted_at": 0.0,
}


@pytest.mark.parametrize("family", FAMILIES)
def test_two_texts_are_joined_as_the_tokenizer_joins_them(tmp_path: Path, family: str) -> None:
    make_encoder(tmp_path, family, scores=True)
    tokenizer = tokenizers.Tokenizer.from_file(str(tmp_path / "tokenizer.json"))
    (row, other) = rerank(tmp_path, "What?", "That.", "").inputs
    assert row == tuple(tokenizer.encode("What?", "That.").ids)
    assert other == tuple(tokenizer.encode("What?", "").ids)


def test_texts_that_spell_separators_stay_text(tmp_path: Path) -> None:
    make_encoder(tmp_path, "bert", scores=True)
    (row,) = rerank(tmp_path, "a [SEP] b", "[CLS][SEP]").inputs
    assert (row.count(START_ID), row.count(END_ID)) == (1, 2)
    assert len(row) == 3 + len("a [SEP] b[CLS][SEP]")


@pytest.mark.parametrize(("family", "usable"), [("bert", 130), ("xlm-roberta", 128)])
def test_a_text_is_no_longer_than_the_positions(tmp_path: Path, family: str, usable: int) -> None:
    """Also where somebody has allowed more."""
    make_encoder(tmp_path, family)
    (row,) = embed(tmp_path, "x" * (usable - 2), limit_tokens=POSITIONS + 5).inputs
    assert len(row) == usable
    with pytest.raises(Refusal) as caught:
        embed(tmp_path, "ok", "x" * (usable - 1), limit_tokens=POSITIONS + 5)
    refused = caught.value.refused
    assert (refused.code, refused.param) == (wire.Code.CONTEXT_LENGTH_EXCEEDED, "input[1]")
    assert (refused.numbers["prompt_tokens"], refused.numbers["limit_tokens"]) == (
        usable + 1,
        usable,
    )


def test_who_sends_the_tokens_of_another_model_is_told_how_to_send_text(tmp_path: Path) -> None:
    make_encoder(tmp_path, "bert")
    with pytest.raises(Refusal) as caught:
        embed(tmp_path, inputs=((5,), (100_256,)))
    refused = caught.value.refused
    assert refused.param == "input[1]"
    assert "check_embedding_ctx_length=False" in refused.detail


def test_what_the_authors_advise_counts(tmp_path: Path) -> None:
    make_encoder(tmp_path, "bert")
    (tmp_path / "sentence_bert_config.json").write_text(json.dumps({"max_seq_length": 16}))
    assert len(embed(tmp_path, "x" * 14).inputs[0]) == 16
    with pytest.raises(Refusal):
        embed(tmp_path, "x" * 15)


def test_a_pair_that_is_too_long_is_refused_with_numbers(tmp_path: Path) -> None:
    make_encoder(tmp_path, "modernbert", scores=True)
    with pytest.raises(Refusal) as caught:
        rerank(tmp_path, "q" * 64, "fits", "d" * 64)
    assert caught.value.refused.param == "documents[1]"
    with pytest.raises(Refusal):
        rerank(tmp_path, "q", "d" * 1_000_000)


@pytest.mark.parametrize("ask", [embed, rerank])
def test_all_rows_together_cost_no_more_than_may_be_spent(tmp_path: Path, ask: Any) -> None:
    make_encoder(tmp_path, "bert", scores=ask is rerank)
    num_tokens = ask(tmp_path, "x" * 20, "y" * 20, "z" * 20).num_tokens
    ask(tmp_path, "x" * 20, "y" * 20, "z" * 20, budget_tokens=num_tokens)
    with pytest.raises(Refusal) as caught:
        ask(tmp_path, "x" * 20, "y" * 20, "z" * 20, budget_tokens=num_tokens - 1)
    assert caught.value.refused.code == wire.Code.BUDGET_EXCEEDED
    assert caught.value.refused.numbers["prompt_tokens"] == num_tokens


@pytest.mark.parametrize("ask", [embed, rerank])
def test_a_row_is_no_longer_than_its_sender_may_have_it(tmp_path: Path, ask: Any) -> None:
    make_encoder(tmp_path, "bert", scores=ask is rerank)
    with pytest.raises(Refusal) as caught:
        ask(tmp_path, "x" * 20, "y" * 20, max_context_tokens=16)
    refused = caught.value.refused
    assert (refused.code, refused.numbers["limit_tokens"]) == (
        wire.Code.CONTEXT_LENGTH_EXCEEDED,
        16,
    )


@pytest.mark.parametrize("seconds", [0, -1, 1e9, float("nan"), True, "soon"])
def test_a_deadline_that_is_none_is_refused_by_name(tmp_path: Path, seconds: Any) -> None:
    make_encoder(tmp_path, "modernbert", scores=True)
    for ask in (rerank, embed):
        with pytest.raises(Refusal) as refused:
            ask(tmp_path, "What?", "That.", deadline_seconds=seconds)
        assert refused.value.refused.param == "deadline_seconds"


def test_a_document_of_all_private_characters_is_no_fault_of_ours(tmp_path: Path) -> None:
    make_encoder(tmp_path, "modernbert", scores=True)
    document = "".join(map(chr, range(0xE000, 0xF900)))
    with pytest.raises(Refusal) as refused:
        rerank(tmp_path, "What?", document)
    assert refused.value.refused.code == wire.Code.CONTEXT_LENGTH_EXCEEDED
