"""The shared installation, its clients, and a model whose answers never end by themselves."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from openai import OpenAI

from tests.flow.asking import DEMO_MODEL, ENDLESS_MODEL
from tests.stack import Stack, api_key, stack
from tests.tiny_models import tiny_model_path

__all__ = ["api_key", "stack"]


@pytest.fixture(scope="session")
def client(stack: Stack, api_key: str) -> Iterator[OpenAI]:
    with OpenAI(base_url=f"{stack.base_url}/v1", api_key=api_key, max_retries=0) as made:
        yield made


@pytest.fixture(scope="session")
def endless(stack: Stack, client: OpenAI) -> str:
    """A random model of a million parameters, loaded and warm; it stops at max_tokens only."""
    stack.manage("add_model", str(tiny_model_path("tiny-qwen3")), "--name", ENDLESS_MODEL)
    warm_up(client, ENDLESS_MODEL)
    return ENDLESS_MODEL


@pytest.fixture(scope="session")
def demo(client: OpenAI) -> str:
    warm_up(client, DEMO_MODEL)
    return DEMO_MODEL


def warm_up(client: OpenAI, model: str) -> None:
    client.chat.completions.create(
        model=model, messages=[{"role": "user", "content": "Hello"}], max_tokens=2
    )
