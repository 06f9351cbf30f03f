"""Images in the three dialects: how they reach the wire, and how each of them says no."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import pytest
from django.http import HttpResponse
from django.test import AsyncClient

from accounts.models import Quota, User
from engine import wire
from hosting.actions.generations import start_generation
from hosting.actions.image_data import ImageData
from hosting.actions.orders import Order
from hosting.actions.reconcile import reconcile
from hosting.models import Generation, HostedModel
from tests.engine.transport.rig import Rig
from tests.hosting.scripted_engine import ScriptedEngine
from tests.hosting.test_batches import finish, given, line, written
from tests.hosting.test_reconcile import make_old
from tests.pictures import HTML, JPEG, PNG, SVG, data_url, in_base64

pytestmark = pytest.mark.usefixtures("model")
CHAT, MESSAGES, RESPONSES = "/v1/chat/completions", "/v1/messages", "/v1/responses"
DIALECTS = (CHAT, MESSAGES, RESPONSES)
COUNTS = (f"{MESSAGES}/count_tokens", f"{RESPONSES}/input_tokens")
DIGEST = hashlib.sha256(PNG).hexdigest()
NAMED = {"type": "image", "digest": DIGEST}
WORDS = {"type": "text", "text": "What is this?"}
FIELDS = {
    CHAT: "messages[0].content[1].image_url.url",
    MESSAGES: "messages.0.content.1.source.data",
    RESPONSES: "input[0].content[1].image_url",
}


@pytest.fixture(autouse=True)
def seeing(model: HostedModel) -> None:
    HostedModel.objects.filter(pk=model.pk).update(supports_images=True)


def chat_image(data: bytes = PNG) -> dict[str, Any]:
    return {"type": "image_url", "image_url": {"url": data_url(data), "detail": "low"}}


def block(data: bytes = PNG) -> dict[str, Any]:
    source = {"type": "base64", "media_type": "image/png", "data": in_base64(data)}
    return {"type": "image", "source": source}


def item_image(data: bytes = PNG) -> dict[str, Any]:
    return {"type": "input_image", "detail": "auto", "image_url": data_url(data)}


def body_of(route: str, *images: bytes) -> dict[str, Any]:
    """A question with images after its words."""
    if route.startswith(RESPONSES):
        words = {"type": "input_text", "text": WORDS["text"]}
        content = [words, *map(item_image, images)]
        return {"model": "demo", "input": [{"role": "user", "content": content}]}
    make = chat_image if route == CHAT else block
    content = [WORDS, *map(make, images)]
    body = {"model": "demo", "messages": [{"role": "user", "content": content}]}
    return body | ({} if route == CHAT else {"max_tokens": 20})


async def post(api: AsyncClient, route: str, body: Any, **headers: str) -> HttpResponse:
    return await api.post(route, body, content_type="application/json", headers=headers)


def said(response: HttpResponse) -> str:
    """The field at fault and the reason; Anthropic has one sentence for both."""
    error = json.loads(response.content)["error"]
    return f"{error['param']}: {error['message']}" if "param" in error else str(error["message"])


@pytest.mark.parametrize("route", DIALECTS)
async def test_an_image_reaches_the_wire_by_its_digest(
    api: AsyncClient, engine: ScriptedEngine, route: str
) -> None:
    response = await post(api, route, body_of(route, PNG))
    assert response.status_code == 200, response.content
    (generate,) = engine.generates
    assert generate.messages == ({"role": "user", "content": [WORDS, NAMED]},)
    assert generate.images == {DIGEST: PNG}


@pytest.mark.parametrize("route", COUNTS)
async def test_a_prompt_with_an_image_is_counted(
    api: AsyncClient, engine: ScriptedEngine, route: str
) -> None:
    assert (await post(api, route, body_of(route, PNG))).status_code == 200
    assert engine.counted[0].images == {DIGEST: PNG}


@pytest.mark.parametrize("route", DIALECTS)
async def test_text_in_parts_stays_one_text(
    api: AsyncClient, engine: ScriptedEngine, route: str
) -> None:
    await post(api, route, body_of(route))
    assert engine.generates[0].messages == ({"role": "user", "content": WORDS["text"]},)
    assert engine.generates[0].images == {}


async def test_texts_around_an_image_keep_their_places(
    api: AsyncClient, engine: ScriptedEngine
) -> None:
    content = [WORDS, WORDS, chat_image(), chat_image(JPEG), WORDS]
    await post(api, CHAT, {"model": "demo", "messages": [{"role": "user", "content": content}]})
    (message,) = engine.generates[0].messages
    two = {"type": "text", "text": "What is this?\nWhat is this?"}
    other = {"type": "image", "digest": hashlib.sha256(JPEG).hexdigest()}
    assert message["content"] == [two, NAMED, other, WORDS]


async def test_neighbours_with_images_are_one_message(
    api: AsyncClient, engine: ScriptedEngine
) -> None:
    messages = [{"role": "user", "content": [block()]}, {"role": "user", "content": "And?"}]
    await post(api, MESSAGES, {"model": "demo", "max_tokens": 5, "messages": messages})
    (message,) = engine.generates[0].messages
    assert message["content"] == [NAMED, {"type": "text", "text": "And?"}]


async def test_images_of_results_follow_them_before_what_the_user_says(
    api: AsyncClient, engine: ScriptedEngine
) -> None:
    results = [
        {"type": "tool_result", "tool_use_id": "c1", "content": [WORDS, block()]},
        {"type": "tool_result", "tool_use_id": "c2", "content": "Nothing to see."},
        {"type": "text", "text": "Well?"},
    ]
    messages = [{"role": "user", "content": results}]
    await post(api, MESSAGES, {"model": "demo", "max_tokens": 5, "messages": messages})
    assert engine.generates[0].messages == (
        {"role": "tool", "tool_call_id": "c1", "content": WORDS["text"]},
        {"role": "tool", "tool_call_id": "c2", "content": "Nothing to see."},
        {"role": "user", "content": [NAMED, {"type": "text", "text": "Well?"}]},
    )
    assert engine.generates[0].images == {DIGEST: PNG}


async def test_a_result_that_is_only_an_image_says_so(
    api: AsyncClient, engine: ScriptedEngine
) -> None:
    output = {"type": "function_call_output", "call_id": "c1", "output": [item_image()]}
    await post(api, RESPONSES, {"model": "demo", "input": [output]})
    assert engine.generates[0].messages == (
        {"role": "tool", "tool_call_id": "c1", "content": "The image follows."},
        {"role": "user", "content": [NAMED]},
    )


@pytest.mark.parametrize("route", [*DIALECTS, *COUNTS])
async def test_a_model_that_reads_text_only_refuses_before_anything_is_kept(
    api: AsyncClient, person: User, route: str
) -> None:
    await HostedModel.objects.aupdate(supports_images=False)
    response = await post(api, route, body_of(route, PNG))
    assert response.status_code == 400
    assert "'demo' reads text only" in said(response)
    assert not await Generation.objects.aexists()


@pytest.mark.parametrize("route", DIALECTS)
@pytest.mark.parametrize("data", [SVG, HTML, b"", b"GIF88a", b"RIFF0000WAVE"])
async def test_what_is_no_image_is_refused_by_its_field(
    api: AsyncClient, route: str, data: bytes
) -> None:
    response = await post(api, route, body_of(route, data))
    assert response.status_code == 400
    assert said(response) == f"{FIELDS[route]}: This is no PNG, JPEG, WebP or GIF."


@pytest.mark.parametrize("route", DIALECTS)
async def test_too_large_an_image_is_refused(api: AsyncClient, settings: Any, route: str) -> None:
    settings.MAX_IMAGE_BYTES = len(PNG) - 1
    response = await post(api, route, body_of(route, PNG))
    assert response.status_code == 400
    assert said(response).startswith(f"{FIELDS[route]}: An image may have")


@pytest.mark.parametrize("route", DIALECTS)
async def test_too_many_images_are_refused(api: AsyncClient, settings: Any, route: str) -> None:
    settings.MAX_IMAGES = 2
    response = await post(api, route, body_of(route, PNG, PNG, PNG))
    assert response.status_code == 400
    assert "A request may have 2 images, this one has 3." in said(response)


URLS = [
    ("https://example.org/a.png", "Images are not fetched"),
    ("http://127.0.0.1:8000/metrics", "Images are not fetched"),
    ("file:///etc/passwd", "Images are not fetched"),
    ("data:image/png,plain", "must say base64"),
    ("data:image/png;base64,#!", "This is not base64."),
    ("data:image/png;base64,iVBORw0KGgo\n=", "This is not base64."),
    ("data:image/png;base64,iVBORw0KGgó=", "This is not base64."),
    (None, "This must be a data: URL."),
]


@pytest.mark.parametrize(("url", "reason"), URLS)
async def test_no_address_is_ever_asked(api: AsyncClient, url: Any, reason: str) -> None:
    for route in (CHAT, RESPONSES):
        body = body_of(route, PNG)
        if route == CHAT:
            body["messages"][0]["content"][1]["image_url"]["url"] = url
        else:
            body["input"][0]["content"][1]["image_url"] = url
        response = await post(api, route, body)
        assert response.status_code == 400
        field, message = said(response).split(": ", 1)
        assert field == FIELDS[route]
        assert reason in message


@pytest.mark.parametrize("source", [{"type": "url", "url": "http://a/b"}, {"type": "file"}, {}, 5])
async def test_other_sources_of_an_image_are_refused(api: AsyncClient, source: Any) -> None:
    body = body_of(MESSAGES, PNG)
    body["messages"][0]["content"][1]["source"] = source
    response = await post(api, MESSAGES, body)
    assert response.status_code == 400
    assert said(response).startswith("messages.0.content.1.source")


REFUSED_PLACES = [
    (CHAT, {"messages": [{"role": "system", "content": [chat_image()]}]}),
    (CHAT, {"messages": [{"role": "assistant", "content": [chat_image()]}]}),
    (CHAT, {"messages": [{"role": "user", "content": [NAMED]}]}),
    (MESSAGES, {"system": [block()], "messages": [WORDS], "max_tokens": 5}),
    (MESSAGES, {"messages": [{"role": "assistant", "content": [block()]}], "max_tokens": 5}),
    (RESPONSES, {"input": [{"role": "developer", "content": [item_image()]}]}),
    (
        RESPONSES,
        {"input": [{"role": "user", "content": [{"type": "input_image", "file_id": "f"}]}]},
    ),
]


@pytest.mark.parametrize(("route", "body"), REFUSED_PLACES)
async def test_an_image_elsewhere_is_refused(
    api: AsyncClient, route: str, body: dict[str, Any]
) -> None:
    assert (await post(api, route, {"model": "demo", **body})).status_code == 400


async def test_a_limit_leaves_room_for_an_image(
    api: AsyncClient, engine: ScriptedEngine, person: User
) -> None:
    await Quota.objects.acreate(user=person, tokens_per_day=100_000)
    await post(api, CHAT, body_of(CHAT, PNG) | {"max_tokens": 10})
    (generate,) = engine.generates
    assert generate.budget_tokens == 4096  # all of the context


@pytest.mark.parametrize("route", DIALECTS)
async def test_what_intake_cannot_read_is_told_by_its_field(
    api: AsyncClient, engine: ScriptedEngine, route: str
) -> None:
    engine.refusal = wire.Refused(
        code=wire.Code.INVALID_VALUE,
        detail="messages[0].content[1] cannot be read.",
        param="messages[0].content[1]",
    )
    response = await post(api, route, body_of(route, PNG))
    assert response.status_code == 400
    assert f"{FIELDS[route]} cannot be read." in said(response)
    if route != MESSAGES:
        assert response.json()["error"]["param"] == FIELDS[route]


async def test_a_repeat_with_the_same_image_follows_the_first(
    api: AsyncClient, engine: ScriptedEngine
) -> None:
    key = {"Idempotency-Key": "k1"}
    body = body_of(CHAT, PNG)
    first = await post(api, CHAT, body, **key)
    again = await post(api, CHAT, body, **key)
    assert first.json()["id"] == again.json()["id"]
    other = await post(api, CHAT, body_of(CHAT, JPEG), **key)
    assert other.status_code in (409, 422)
    assert len(engine.generates) == 1


def test_an_image_is_submitted_again_when_redis_forgot_it(
    rig: Rig, person: User, model: HostedModel
) -> None:
    image = ImageData(data=PNG, where="image")
    messages = ({"role": "user", "content": [image]},)
    order = Order(user=person, kind=Generation.Kind.API, model=model, messages=messages)
    make_old(start_generation(order))
    rig.redis.flushdb()
    reconcile()
    (entry,) = rig.intake.entries()
    assert wire.decode(entry.message).images == {DIGEST: PNG}


def test_lines_of_a_batch_may_have_images(
    person: User, api_key: str, engine: ScriptedEngine, settings: Any, tmp_path: Path
) -> None:
    settings.DATA_DIR, settings.MIN_FREE_DISK_BYTES = tmp_path, 0
    lines = [line("1", body=body_of(CHAT, PNG)), line("2", body=body_of(CHAT, SVG))]
    batch = finish(given(person, api_key, lines))
    assert (batch.num_completed, batch.num_failed) == (1, 1)
    assert [one.images for one in engine.generates] == [{DIGEST: PNG}]
    (failed,) = written(tmp_path, batch.error_file)
    assert failed["response"]["body"]["error"]["param"] == FIELDS[CHAT]
