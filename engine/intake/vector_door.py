"""From an Embed or a Rerank to the VectorWork that an engine can do, or a Refusal.

It does not know where requests come from.
"""

from __future__ import annotations

import time
from collections.abc import Generator, Iterator

from engine import wire
from engine.intake import refusal
from engine.intake.encode import Conversation, TooManyTokens
from engine.intake.messages import check_text
from engine.intake.model_folder import ModelFolder
from engine.intake.refusal import check_budget, invalid
from engine.intake.sampling_check import check_deadline

_FOREIGN_TOKENS = (
    "These are no tokens of this model: send the text. LangChain's OpenAIEmbeddings does so with "
    "check_embedding_ctx_length=False."
)
# How rerankers that answer yes or no were trained to be asked (Qwen3-Reranker's model card)
_INSTRUCTION = "Given a web search query, retrieve relevant passages that answer the query"
_BEFORE = (
    "<|im_start|>system\nJudge whether the Document meets the requirements based on the Query and "
    'the Instruct provided. Note that the answer can only be "yes" or "no".<|im_end|>\n'
    "<|im_start|>user\n"
)
_AFTER = "<|im_end|>\n<|im_start|>assistant\n<think>\n\n</think>\n\n"
_SLICE_TOKENS = 8192  # some hundredths of a second

# Reads some of the texts at each step and returns the work
Reading = Generator[None, None, wire.VectorWork]


def check_vectors(
    command: wire.Embed | wire.Rerank, spec: wire.ModelSpec, folder: ModelFolder
) -> Reading:
    """Raises Refusal."""
    limits = (spec.context_limit_tokens, command.max_context_tokens, folder.limit_tokens)
    limit_tokens = min(limit for limit in limits if limit is not None)
    seconds = command.deadline_seconds
    check_deadline(seconds)
    if isinstance(command, wire.Embed):
        _check_dimensions(command.dimensions, folder.hidden_size)
        texts, dimensions = _embedded(command, folder, limit_tokens), command.dimensions
    else:
        texts, dimensions = _judged(command, folder, limit_tokens), None
    inputs = yield from _in_slices(texts)
    work = wire.VectorWork(
        request_id=command.request_id,
        model=command.model,
        tenant=command.tenant,
        priority=command.priority,
        submitted_at=command.submitted_at,
        accepted_at=time.time(),
        inputs=inputs,
        dimensions=dimensions,
        deadline_at=None if seconds is None else command.submitted_at + seconds,
    )
    if command.budget_tokens is not None:
        check_budget(command.budget_tokens, work.num_tokens, least_answer_tokens=0)
    return work


def _in_slices(
    texts: Iterator[tuple[int, ...]],
) -> Generator[None, None, tuple[tuple[int, ...], ...]]:
    inputs, num_tokens = [], 0
    for token_ids in texts:
        inputs.append(token_ids)
        num_tokens += len(token_ids)
        if num_tokens >= _SLICE_TOKENS:
            num_tokens = 0
            yield
    return tuple(inputs)


def _check_dimensions(wanted: int | None, hidden_size: int | None) -> None:
    if wanted is not None and hidden_size is not None and wanted > hidden_size:
        raise invalid("dimensions", f"This model's vectors have {hidden_size} dimensions.")


def _embedded(
    command: wire.Embed, folder: ModelFolder, limit_tokens: int
) -> Iterator[tuple[int, ...]]:
    for place, ids in enumerate(command.inputs):
        yield _checked_ids(ids, f"input[{place}]", folder, limit_tokens)
    for place, text in enumerate(command.texts):
        where = f"input[{place}]" if len(command.texts) > 1 else "input"
        if not check_text(where, text):
            raise invalid(where, "This must not be empty.")
        try:
            yield folder.encoder.encode_prompt(text, max_tokens=limit_tokens)
        except TooManyTokens as error:
            raise _too_long(where, limit_tokens, error) from error


def _judged(
    command: wire.Rerank, folder: ModelFolder, limit_tokens: int
) -> Iterator[tuple[int, ...]]:
    """Query and documents are text, whatever they spell."""
    check_text("query", command.query)
    encode = _encode_pair if folder.is_cross_encoder else _encode_question
    for place, document in enumerate(command.documents):
        where = f"documents[{place}]"
        check_text(where, document)
        try:
            yield encode(folder, command.query, document, limit_tokens)
        except TooManyTokens as error:
            raise _too_long(where, limit_tokens, error) from error


def _encode_pair(
    folder: ModelFolder, query: str, document: str, max_tokens: int
) -> tuple[int, ...]:
    return folder.encoder.encode_pair(query, document, max_tokens=max_tokens)


def _encode_question(
    folder: ModelFolder, query: str, document: str, max_tokens: int
) -> tuple[int, ...]:
    asked = f"<Instruct>: {_INSTRUCTION}\n<Query>: {query}\n<Document>: {document}"
    said = folder.encoder.break_spellings(
        Conversation(messages=[{"role": "user", "content": asked}], tools=[], options={})
    )
    rendered = f"{_BEFORE}{said.messages[0]['content']}{_AFTER}"
    return folder.encoder.encode_broken(rendered, marker=said.marker, max_tokens=max_tokens)


def _checked_ids(
    ids: tuple[int, ...], where: str, folder: ModelFolder, limit_tokens: int
) -> tuple[int, ...]:
    if not ids or not all(0 <= one < folder.vocabulary_size for one in ids):
        raise invalid(where, _FOREIGN_TOKENS)
    if len(ids) > limit_tokens:
        raise _too_long(where, limit_tokens, TooManyTokens(len(ids)))
    return ids


def _too_long(where: str, limit_tokens: int, error: TooManyTokens) -> refusal.Refusal:
    return refusal.prompt_too_long(
        where,
        limit_tokens=limit_tokens,
        prompt_tokens=error.num_tokens,
        is_estimate=error.is_estimate,
    )
