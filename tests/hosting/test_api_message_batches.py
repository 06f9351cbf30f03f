"""Batches in Anthropic's form: the requests in one body, the results line by line."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from asgiref.sync import sync_to_async
from django.utils import timezone

from accounts.keys import create_api_key
from accounts.models import UsageRecord, User
from hosting.actions.database_threads import in_database_thread
from hosting.models import Batch, StoredFile
from tests.hosting.conftest import KeyedClient
from tests.hosting.scripted_engine import ScriptedEngine
from tests.hosting.test_batches import data_folder, finish

__all__ = ["data_folder"]

pytestmark = pytest.mark.usefixtures("model")
ADDRESS = "/v1/messages/batches"
PARAMS = {"model": "demo", "max_tokens": 9, "messages": [{"role": "user", "content": "Hi"}]}


def asked(custom_id: str, **changes: Any) -> dict[str, Any]:
    return {"custom_id": custom_id, "params": PARAMS | changes}


async def create(api: KeyedClient, *requests: Any) -> Any:
    return await api.post(ADDRESS, {"requests": requests}, content_type="application/json")


async def over(shown: dict[str, Any]) -> None:
    batch = await Batch.objects.aget(pk=shown["id"].removeprefix("msgbatch_"))
    await in_database_thread(finish)(batch)


async def results_of(api: KeyedClient, shown: dict[str, Any]) -> dict[str, Any]:
    response = await api.get(f"{ADDRESS}/{shown['id']}/results")
    assert response.status_code == 200, response.content
    lines = b"".join([piece async for piece in response.streaming_content]).splitlines()
    told = [json.loads(one) for one in lines]
    assert len({one["custom_id"] for one in told}) == len(told)
    return {one["custom_id"]: one["result"] for one in told}


async def test_each_request_has_one_result(api: KeyedClient, engine: ScriptedEngine) -> None:
    response = await create(api, asked("a"), asked("b", top_p=7), asked("c", model="nobody's"))
    shown = response.json()
    assert response.status_code == 200 and shown["type"] == "message_batch"
    assert (shown["processing_status"], shown["request_counts"]["processing"]) == ("in_progress", 3)
    assert shown["results_url"] is shown["ended_at"] is None
    await over(shown)
    shown = (await api.get(f"{ADDRESS}/{shown['id']}")).json()
    counts = {"processing": 0, "succeeded": 1, "errored": 2, "canceled": 0, "expired": 0}
    assert (shown["processing_status"], shown["request_counts"]) == ("ended", counts)
    assert shown["results_url"] == f"http://testserver{ADDRESS}/{shown['id']}/results"
    results = await results_of(api, shown)
    message = results["a"]["message"]
    assert (results["a"]["type"], message["type"]) == ("succeeded", "message")
    assert message["content"][0]["type"] == "text"
    assert results["b"]["type"] == "errored"
    assert results["b"]["error"]["type"] == "error"
    assert results["b"]["error"]["error"]["type"] == "invalid_request_error"
    assert "top_p" in results["b"]["error"]["error"]["message"]
    assert results["c"]["error"]["error"]["type"] == "not_found_error"
    assert await UsageRecord.objects.acount() == 1


@pytest.mark.parametrize(
    ("requests", "told"),
    [
        ([], "requests"),
        ("no list", "requests"),
        ([5], "requests.0"),
        ([asked("a"), {"params": PARAMS}], "requests.1.custom_id"),
        ([asked("with spaces")], "requests.0.custom_id"),
        ([asked("a" * 65)], "requests.0.custom_id"),
        ([asked("a"), asked("a")], "requests.1.custom_id"),
        ([{"custom_id": "a", "params": 5}], "requests.0.params"),
        ([asked("a", stream=True)], "requests.0.params.stream"),
    ],
)
async def test_what_is_wrong_is_named_and_nothing_is_kept(
    api: KeyedClient, requests: Any, told: str
) -> None:
    body = {"requests": requests}
    response = await api.post(ADDRESS, body, content_type="application/json")  # type: ignore[attr-defined]
    assert (response.status_code, response.json()["type"]) == (400, "error")
    assert response.json()["error"]["message"].startswith(f"{told}: ")
    assert not await Batch.objects.aexists() and not await StoredFile.objects.aexists()


async def test_results_are_there_when_it_has_ended(
    api: KeyedClient, engine: ScriptedEngine
) -> None:
    shown = (await create(api, asked("a"))).json()
    early = await api.get(f"{ADDRESS}/{shown['id']}/results")
    assert (early.status_code, early.json()["error"]["type"]) == (400, "invalid_request_error")
    assert (await api.delete(f"{ADDRESS}/{shown['id']}")).status_code == 400


async def test_what_a_cancelled_one_did_not_do_is_told(
    api: KeyedClient, engine: ScriptedEngine
) -> None:
    shown = (await create(api, asked("a"), asked("b"))).json()
    answer: Any = await api.post(f"{ADDRESS}/{shown['id']}/cancel")
    assert (answer.status_code, answer.json()["processing_status"]) == (200, "canceling")
    assert answer.json()["cancel_initiated_at"]
    await over(shown)
    shown = (await api.get(f"{ADDRESS}/{shown['id']}")).json()
    assert (shown["processing_status"], shown["request_counts"]["canceled"]) == ("ended", 2)
    canceled = {"type": "canceled"}
    assert await results_of(api, shown) == {"a": canceled, "b": canceled}
    again: Any = await api.post(f"{ADDRESS}/{shown['id']}/cancel")
    assert again.status_code == 200  # as it is


async def test_what_was_not_done_in_time_has_expired(
    api: KeyedClient, engine: ScriptedEngine
) -> None:
    shown = (await create(api, asked("a"), asked("b"))).json()
    await Batch.objects.aupdate(expires_at=timezone.now())
    await over(shown)
    shown = (await api.get(f"{ADDRESS}/{shown['id']}")).json()
    assert (shown["processing_status"], shown["request_counts"]["expired"]) == ("ended", 2)
    expired = {"type": "expired"}
    assert await results_of(api, shown) == {"a": expired, "b": expired}


async def test_of_one_whose_key_ended_the_rest_are_errors(
    api: KeyedClient, person: User, engine: ScriptedEngine
) -> None:
    shown = (await create(api, asked("a"))).json()
    await Batch.objects.aupdate(api_key=None)
    await over(shown)
    shown = (await api.get(f"{ADDRESS}/{shown['id']}")).json()
    assert shown["request_counts"]["errored"] == 1
    result = (await results_of(api, shown))["a"]
    assert result["type"] == "errored"
    assert "API key" in result["error"]["error"]["message"]


async def test_a_deleted_one_takes_its_files_along(
    api: KeyedClient, engine: ScriptedEngine, data_folder: Path
) -> None:
    shown = (await create(api, asked("a"), asked("b", top_p=7))).json()
    await over(shown)
    assert len(list((data_folder / "files").iterdir())) == 3
    deleted = (await api.delete(f"{ADDRESS}/{shown['id']}")).json()
    assert deleted == {"id": shown["id"], "type": "message_batch_deleted"}
    assert not list((data_folder / "files").iterdir())
    assert not await Batch.objects.aexists() and not await StoredFile.objects.aexists()


async def test_results_whose_file_was_deleted_are_not_found(
    api: KeyedClient, engine: ScriptedEngine
) -> None:
    shown = (await create(api, asked("a"))).json()
    await over(shown)
    batch = await Batch.objects.aget()
    assert (await api.delete(f"/v1/files/{batch.output_file_id}")).status_code == 200
    assert (await api.get(f"{ADDRESS}/{shown['id']}/results")).status_code == 404


async def test_pages_go_both_ways(api: KeyedClient) -> None:
    made = [(await create(api, asked("a"))).json()["id"] for _ in range(5)]
    newest = made[::-1]

    async def page(query: str) -> tuple[list[str], bool]:
        told = (await api.get(f"{ADDRESS}?{query}")).json()
        ids = [one["id"] for one in told["data"]]
        assert (told["first_id"], told["last_id"]) == (ids[0], ids[-1])
        return ids, told["has_more"]

    assert await page("limit=2") == (newest[:2], True)
    assert await page(f"limit=2&after_id={newest[1]}") == (newest[2:4], True)
    assert await page(f"limit=2&after_id={newest[3]}") == (newest[4:], False)
    assert await page(f"limit=2&before_id={newest[4]}") == (newest[2:4], True)
    assert await page(f"limit=2&before_id={newest[2]}") == (newest[:2], False)
    refused = await api.get(f"{ADDRESS}?limit=0")
    assert (refused.status_code, refused.json()["type"]) == (400, "error")


async def test_nobody_reaches_anothers(api: KeyedClient, stranger: User) -> None:
    shown = (await create(api, asked("a"))).json()
    _, secret = await in_database_thread(create_api_key)(user=stranger, name="other")
    other, one = KeyedClient(secret), f"{ADDRESS}/{shown['id']}"
    for answer in (
        await other.get(one),
        await other.get(f"{one}/results"),
        await other.delete(one),
        await other.post(f"{one}/cancel"),  # type: ignore[attr-defined]
    ):
        assert (answer.status_code, answer.json()["error"]["type"]) == (404, "not_found_error")
    assert (await other.get(ADDRESS)).json()["data"] == []


async def test_those_of_openais_form_are_not_among_them(api: KeyedClient, person: User) -> None:
    batch = await sync_to_async(Batch.objects.create)(
        user=person, endpoint="/v1/chat/completions", input_file="0" * 32
    )
    assert (await api.get(ADDRESS)).json()["data"] == []
    assert (await api.get(f"{ADDRESS}/msgbatch_{batch.pk.hex}")).status_code == 404


async def test_a_key_for_vectors_makes_none(person: User) -> None:
    _, secret = await in_database_thread(create_api_key)(user=person, name="s", scopes=["vectors"])
    assert (await create(KeyedClient(secret), asked("a"))).status_code == 403
