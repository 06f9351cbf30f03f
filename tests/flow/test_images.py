"""Images over the whole service, in each dialect: seen, counted, kept apart, and refused."""

from __future__ import annotations

from typing import Any

import httpx2
import pytest
from openai import OpenAI

from tests.flow.conftest import warm_up
from tests.hosting.test_api_images import (
    CHAT,
    COUNTS,
    DIALECTS,
    FIELDS,
    RESPONSES,
    body_of,
    said,
)
from tests.pictures import JPEG, png
from tests.stack import Stack
from tests.tiny_models import SEEING, tiny_model_path
from tests.tiny_sights import NUM_TOKENS

pytestmark = pytest.mark.stack
RED, BLUE = png(64, 48, (220, 20, 20)), png(64, 48, (20, 40, 220))
AROUND = 2  # tokens that begin and end an image


@pytest.fixture(scope="module")
def model(stack: Stack, client: OpenAI) -> str:
    stack.manage("add_model", str(tiny_model_path(SEEING)), "--name", SEEING)
    warm_up(client, SEEING)
    return SEEING


class Asker:
    def __init__(self, stack: Stack, api_key: str, model: str) -> None:
        self._url, self._model = stack.base_url, model
        self._headers = {"x-api-key": api_key}

    def post(self, route: str, *images: bytes, **fields: Any) -> httpx2.Response:
        body = body_of(route, *images) | {"model": self._model, **fields}
        return httpx2.post(f"{self._url}{route}", json=body, headers=self._headers, timeout=90)

    def answer(self, *images: bytes) -> tuple[str, int]:
        """Its greedy words, and the length of its prompt."""
        response = self.post(CHAT, *images, temperature=0, max_tokens=24)
        assert response.status_code == 200, response.text
        body = response.json()
        text: str = body["choices"][0]["message"]["content"]
        return text, body["usage"]["prompt_tokens"]


@pytest.fixture
def asker(stack: Stack, api_key: str, model: str) -> Asker:
    return Asker(stack, api_key, model)


@pytest.mark.parametrize("route", DIALECTS)
def test_each_dialect_answers_what_has_an_image(asker: Asker, route: str) -> None:
    limit = "max_output_tokens" if route == RESPONSES else "max_tokens"
    response = asker.post(route, RED, temperature=0, **{limit: 20})
    assert response.status_code == 200, response.text


def test_what_is_shown_changes_the_answer_and_is_the_same_again(asker: Asker) -> None:
    red, again, blue = (asker.answer(one)[0] for one in (RED, RED, BLUE))
    assert red == again != blue


def test_an_image_costs_its_tokens(asker: Asker) -> None:
    (_, none), (_, one), (_, two) = (asker.answer(*([RED] * count)) for count in range(3))
    assert two - one == one - none >= NUM_TOKENS + AROUND


@pytest.mark.parametrize("route", COUNTS)
def test_a_prompt_with_an_image_has_the_length_that_is_charged(asker: Asker, route: str) -> None:
    counted = asker.post(route, RED).json()["input_tokens"]
    assert counted == asker.answer(RED)[1]


@pytest.mark.parametrize("route", [*DIALECTS, *COUNTS])
def test_a_broken_image_is_refused_by_its_field(asker: Asker, route: str) -> None:
    response = asker.post(route, JPEG)
    assert response.status_code == 400
    field = next(field for dialect, field in FIELDS.items() if route.startswith(dialect))
    assert field in said(response)


@pytest.mark.parametrize("route", DIALECTS)
def test_a_model_that_reads_text_only_says_so(
    stack: Stack, api_key: str, demo: str, route: str
) -> None:
    response = Asker(stack, api_key, demo).post(route, RED)
    assert response.status_code == 400
    assert f"{demo!r} reads text only" in said(response)


def test_the_list_of_models_tells_which_see(asker: Asker, stack: Stack, api_key: str) -> None:
    url, headers = f"{stack.base_url}/v1/models", {"x-api-key": api_key}
    models = httpx2.get(url, headers=headers).json()["data"]
    told = {model["id"]: model["input_modalities"] for model in models}
    assert told[SEEING] == ["text", "image"]
    assert told["hearth-demo"] == ["text"]
