"""Asks the running service as a script does, and reads streamed answers beside the test."""

from __future__ import annotations

import threading
import uuid
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from openai import OpenAI, Stream
from openai.types.chat import ChatCompletionChunk
from openai.types.chat.chat_completion_token_logprob import ChatCompletionTokenLogprob

DEMO_MODEL = "hearth-demo"
ENDLESS_MODEL = "endless"
PATIENCE_SECONDS = 90.0
MAX_TOKENS = 64
ROUNDING = 1e-4  # several times what the shape of a batch changes in a logit


def request(model: str, content: str, **options: Any) -> dict[str, Any]:
    """Greedy unless told otherwise."""
    messages = [{"role": "user", "content": content}]
    return {
        "model": model,
        "messages": messages,
        "temperature": 0.0,
        "max_tokens": MAX_TOKENS,
        **options,
    }


def ask(client: OpenAI, model: str, content: str, **options: Any) -> str:
    answer = client.chat.completions.create(**request(model, content, **options))
    text = answer.choices[0].message.content
    assert isinstance(text, str)
    return text


def fresh_prompt() -> str:
    """A prompt that nobody has sent before."""
    return f"Tell me everything about {uuid.uuid4()}."


def sure_answers(
    client: OpenAI, model: str, count: int, *, max_tokens: int, words: int = 0
) -> tuple[list[str], list[str]]:
    """Fresh prompts with so many words more, and their greedy answers, without those where two
    tokens were nearly equal.

    There, rounding decides, and rounding differs with the shape of a batch and the cut of a prompt.
    """
    found: dict[str, str] = {}
    while len(found) < count:
        prompts = [fresh_prompt() + " word" * words for _ in range(count - len(found))]
        found |= _sure(client, model, prompts, max_tokens=max_tokens)
    return list(found), list(found.values())


def sure_answer(client: OpenAI, model: str, *, max_tokens: int) -> tuple[str, str]:
    """A fresh prompt and its answer."""
    (prompt,), (answer,) = sure_answers(client, model, 1, max_tokens=max_tokens)
    return prompt, answer


class RunningAnswer:
    """A streamed answer that a thread reads. `wait_for_chunks` lets the test act in its middle."""

    def __init__(self, client: OpenAI, model: str, content: str, **options: Any) -> None:
        self.chunks: list[str] = []
        self.finish_reason: str | None = None
        self.id: str | None = None
        self._error: Exception | None = None
        self._changed = threading.Condition()
        self._has_ended = False
        self._stream: Stream[ChatCompletionChunk] = client.chat.completions.create(
            **request(model, content, **options), stream=True
        )
        self._thread = threading.Thread(target=self._read, daemon=True)
        self._thread.start()

    def wait_for_chunks(self, count: int) -> None:
        with self._changed:
            arrived = self._changed.wait_for(
                lambda: len(self.chunks) >= count or self._has_ended, PATIENCE_SECONDS
            )
        assert arrived, f"only {len(self.chunks)} chunks in {PATIENCE_SECONDS} s"
        assert not self._has_ended, f"the answer ended after {len(self.chunks)} chunks"

    @property
    def is_running(self) -> bool:
        return not self._has_ended

    def text(self) -> str:
        """The whole answer, when it has ended. Raises what the stream raised."""
        self._thread.join(PATIENCE_SECONDS)
        assert self._has_ended, f"no end; {len(self.chunks)} chunks"
        if self._error is not None:
            raise self._error
        return "".join(self.chunks)

    def leave(self) -> None:
        """Close the connection in the middle, as a client that goes away does."""
        self._stream.close()

    def _read(self) -> None:
        try:
            for chunk in self._stream:
                self._note(chunk)
        except Exception as error:  # the thread ends; text() raises it
            self._error = error
        with self._changed:
            self._has_ended = True
            self._changed.notify_all()

    def _note(self, chunk: ChatCompletionChunk) -> None:
        with self._changed:
            self.id = chunk.id
            for choice in chunk.choices:
                self.finish_reason = choice.finish_reason or self.finish_reason
                if choice.delta.content:
                    self.chunks.append(choice.delta.content)
            self._changed.notify_all()


def start_all(
    client: OpenAI, model: str, prompts: list[str], **options: Any
) -> list[RunningAnswer]:
    return [RunningAnswer(client, model, prompt, **options) for prompt in prompts]


def _sure(client: OpenAI, model: str, prompts: list[str], *, max_tokens: int) -> dict[str, str]:
    def ask_for_margins(prompt: str) -> tuple[str, str, float]:
        answer = client.chat.completions.create(
            **request(model, prompt, max_tokens=max_tokens, logprobs=True, top_logprobs=2)
        )
        (choice,) = answer.choices
        assert choice.logprobs is not None and choice.logprobs.content
        return prompt, choice.message.content or "", min(_margins(choice.logprobs.content))

    with ThreadPoolExecutor(len(prompts)) as threads:
        asked = threads.map(ask_for_margins, prompts)
        return {prompt: text for prompt, text, margin in asked if margin > ROUNDING}


def _margins(positions: list[ChatCompletionTokenLogprob]) -> Iterator[float]:
    """How much likelier than the next one each token was."""
    for position in positions:
        first, second = position.top_logprobs
        yield first.logprob - second.logprob
