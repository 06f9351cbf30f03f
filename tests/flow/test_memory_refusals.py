"""What never fits into memory is refused with numbers, and what they advise is accepted."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

import pytest
from openai import InternalServerError, OpenAI

from tests.engine.devices import needs_exact_memory
from tests.flow.chat_page import MAX_TOKENS, ChatPage
from tests.flow.test_model_settings import change
from tests.stack import Stack

pytestmark = [pytest.mark.stack, needs_exact_memory]
CEILING_GB = 0.008
T = TypeVar("T")
LONG_TOKENS, ANSWER_TOKENS = 4_000, 10
REFUSAL = re.compile(
    r"needs ([\d.]+) MiB of memory and the limit is ([\d.]+) MiB\. What would help: "
    r"shorten the prompt by (\d+) tokens(?:, or ask for at most (\d+) output tokens)?\."
)


@pytest.fixture(scope="module")
def narrow(stack: Stack, client: OpenAI, endless: str) -> Iterator[str]:
    """A model that may take little memory, as soon as intake knows."""
    change(stack, endless, memory_ceiling_gb=CEILING_GB)
    stack.wait_until(lambda: refusal_of(client, endless, 3_000, 1) is not None, "the ceiling known")
    yield endless
    change(stack, endless, memory_ceiling_gb=None)


def refusal_of(client: OpenAI, model: str, prompt_tokens: int, max_tokens: int) -> str | None:
    try:
        client.completions.create(
            model=model, prompt=[[100] * prompt_tokens], max_tokens=max_tokens, temperature=0.0
        )
    except InternalServerError as error:
        assert error.code == "does_not_fit" and error.status_code == 503
        return error.message
    return None


def numbers_of(refusal: str | None) -> tuple[float, float, int, int]:
    """Needed and limit in MiB, shorter by so many tokens, at most so many output tokens."""
    assert refusal is not None
    told = REFUSAL.search(refusal)
    assert told is not None, refusal
    needed, limit, shorter, output = told.groups()
    return float(needed), float(limit), int(shorter), int(output or 0)


def with_steady_advice(advise: Callable[[], int], ask: Callable[[int], T]) -> T:
    """All that was answered while the advice stayed the same: the estimate learns from what was
    accepted before, and intake hears of it some seconds later."""
    advice = advise()
    for _ in range(10):
        answer = ask(advice)
        before, advice = advice, advise()
        if advice == before:
            return answer
    raise AssertionError("the advice does not come to rest")


def test_what_a_refusal_advises_is_accepted_and_one_token_more_is_not(
    client: OpenAI, narrow: str
) -> None:
    def fitting_tokens() -> int:
        told = numbers_of(refusal_of(client, narrow, LONG_TOKENS, ANSWER_TOKENS))
        needed, limit, shorter, _ = told
        assert needed > limit == pytest.approx(CEILING_GB * 1024, abs=0.1)
        return LONG_TOKENS - shorter

    def ask(fitting: int) -> tuple[list[tuple[int, str | None]], list[str | None]]:
        beyond = (fitting + 1, ANSWER_TOKENS), (fitting, ANSWER_TOKENS + 1)
        refused = [(one[1], refusal_of(client, narrow, *one)) for one in beyond]
        advised = (fitting, ANSWER_TOKENS), (fitting + 1, ANSWER_TOKENS - 1)
        with ThreadPoolExecutor(len(advised)) as threads:
            return refused, [*threads.map(lambda one: refusal_of(client, narrow, *one), advised)]

    refused, accepted = with_steady_advice(fitting_tokens, ask)
    for max_tokens, refusal in refused:
        told = numbers_of(refusal)
        assert told[0] > told[1] and told[2:] == (1, max_tokens - 1)
    assert accepted == [None, None]


def test_the_chat_page_is_told_the_same(stack: Stack, narrow: str) -> None:
    with ChatPage(stack) as page:

        def end_of(num_words: int) -> dict[str, object]:
            return page.end_of(page.send("word " * num_words, model=narrow, seed=1))

        def fitting_words() -> int:
            refused = end_of(LONG_TOKENS // 2)
            assert (refused["type"], refused["code"]) == ("Refused", "does_not_fit")
            numbers = refused["numbers"]
            assert isinstance(numbers, dict)
            assert numbers["needed_bytes"] > numbers["limit_bytes"]
            shorter_words = -(-int(numbers["shorter_by_tokens"]) // 2)  # of two tokens each
            return LONG_TOKENS // 2 - shorter_words

        beyond, finished = with_steady_advice(
            fitting_words, lambda words: (end_of(words + 1), end_of(words))
        )
        assert beyond["type"] == "Refused"
        assert finished["type"] == "Finished"
        assert isinstance(finished["usage"], dict)
        assert finished["usage"]["completion_tokens"] < MAX_TOKENS  # as many as there is room for
