"""Batches over HTTP: made, seen and cancelled, each by its person alone."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from django.core.files.uploadedfile import SimpleUploadedFile
from django.utils import timezone
from openai.types import Batch as PublishedBatch

from accounts.keys import create_api_key
from accounts.models import User
from hosting.actions.batches import delete_old_batches
from hosting.actions.database_threads import in_database_thread
from hosting.actions.files import delete_old_files
from hosting.actions.my_data import delete_person, export_of
from hosting.models import Batch, StoredFile
from tests.hosting.conftest import KeyedClient

CHAT = "/v1/chat/completions"


@pytest.fixture(autouse=True)
def data_folder(tmp_path: Path, settings: Any) -> Iterator[Path]:
    settings.DATA_DIR = tmp_path
    settings.MIN_FREE_DISK_BYTES = 0
    yield tmp_path


async def upload(api: KeyedClient) -> str:
    form = {"file": SimpleUploadedFile("in.jsonl", b"{}\n"), "purpose": "batch"}
    file_id: str = (await api.post("/v1/files", form)).json()["id"]  # type: ignore[attr-defined]
    return file_id


async def create(api: KeyedClient, **changes: Any) -> Any:
    body = {"endpoint": CHAT, "completion_window": "24h"}
    if "input_file_id" not in changes:
        body["input_file_id"] = await upload(api)
    return await api.post("/v1/batches", body | changes, content_type="application/json")


async def test_a_new_batch_has_the_published_form(api: KeyedClient) -> None:
    response = await create(api, metadata={"night": "1"})
    assert response.status_code == 200
    batch = response.json()
    PublishedBatch.model_validate(batch, strict=True)
    assert (batch["status"], batch["metadata"]) == ("validating", {"night": "1"})
    assert batch["expires_at"] - batch["created_at"] in (86_399, 86_400, 86_401)
    assert batch["output_file_id"] is batch["completed_at"] is batch["errors"] is None
    assert (await api.get(f"/v1/batches/{batch['id']}")).json() == batch
    listed = (await api.get("/v1/batches")).json()
    assert listed["data"] == [batch] and not listed["has_more"]


@pytest.mark.parametrize(
    ("changes", "param", "status"),
    [
        ({"endpoint": "/v1/moderations"}, "endpoint", 400),
        ({"completion_window": "1h"}, "completion_window", 400),
        ({"input_file_id": "file-0"}, "input_file_id", 404),
        ({"input_file_id": 5}, "input_file_id", 400),
        ({"metadata": {"a": 1}}, "metadata.a", 400),
        ({"metadata": {"a" * 65: "b"}}, f"metadata.{'a' * 65}", 400),
        ({"metadata": {str(one): "" for one in range(17)}}, "metadata", 400),
        (
            {"output_expires_after": {"anchor": "created_at", "seconds": 1}},
            "output_expires_after.seconds",
            400,
        ),
    ],
)
async def test_what_is_wrong_is_named(
    api: KeyedClient, changes: dict[str, Any], param: str, status: int
) -> None:
    response = await create(api, **changes)
    assert (response.status_code, response.json()["error"]["param"]) == (status, param)
    assert not await Batch.objects.aexists()


async def test_another_persons_batch_is_not_found(api: KeyedClient, stranger: User) -> None:
    batch = (await create(api)).json()
    _, secret = await in_database_thread(create_api_key)(user=stranger, name="other")
    other = KeyedClient(secret)
    one = f"/v1/batches/{batch['id']}"
    assert (await other.get(one)).status_code == 404
    assert (await other.post(f"{one}/cancel")).status_code == 404  # type: ignore[attr-defined]
    assert (await other.get("/v1/batches")).json()["data"] == []
    assert (await create(other, input_file_id=batch["input_file_id"])).status_code == 404
    assert (await Batch.objects.aget()).status == "validating"


@pytest.mark.parametrize(("scopes", "status"), [(["answers"], 200), (["vectors"], 403)])
async def test_a_key_makes_no_batch_of_what_it_may_not_call(
    person: User, scopes: list[str], status: int
) -> None:
    _, secret = await in_database_thread(create_api_key)(user=person, name="s", scopes=scopes)
    assert (await create(KeyedClient(secret))).status_code == status


async def test_a_batch_is_cancelled_once_and_its_file_stays_until_then(api: KeyedClient) -> None:
    batch = (await create(api)).json()
    file = f"/v1/files/{batch['input_file_id']}"
    assert (await api.delete(file)).json()["error"]["code"] == "file_in_use"
    one = f"/v1/batches/{batch['id']}/cancel"
    for _ in range(2):
        answer: Any = await api.post(one)
        assert (answer.status_code, answer.json()["status"]) == (200, "cancelling")
    await Batch.objects.aupdate(status="completed", ended_at=timezone.now())
    answer = await api.post(one)
    assert answer.json()["error"]["code"] == "batch_not_cancellable"
    assert (await api.delete(file)).json()["deleted"]


async def test_a_person_who_goes_takes_the_batches_along(
    api: KeyedClient, person: User, admin_user: User, data_folder: Path
) -> None:
    await create(api)
    batch = await Batch.objects.aget()
    part = data_folder / "files" / f"{batch.output_file.hex}.part"
    part.touch()
    (told,) = (await in_database_thread(export_of)(person, site="/"))["batches"]
    assert told["id"] == batch.public_id
    await in_database_thread(delete_person)(person, actor=admin_user, address="")
    assert not await Batch.objects.aexists() and not list((data_folder / "files").iterdir())


async def test_old_batches_go_and_what_an_open_one_needs_stays(
    api: KeyedClient, data_folder: Path
) -> None:
    await create(api)
    batch = await Batch.objects.aget()
    await StoredFile.objects.aupdate(expires_at=batch.created_at)
    assert await in_database_thread(delete_old_files)() == 0
    assert await in_database_thread(delete_old_batches)() == 0
    long_ago = batch.created_at.replace(year=2020)
    await Batch.objects.aupdate(status="completed", ended_at=long_ago)
    assert await in_database_thread(delete_old_batches)() == 1
    assert await in_database_thread(delete_old_files)() == 1
