"""What a person and an administrator see of batches, and that both can stop them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from django.test import AsyncClient, Client

from accounts.keys import create_api_key
from accounts.models import AuditRecord, User
from hosting.actions.database_threads import in_database_thread
from hosting.actions.files import store_file
from hosting.models import Batch, StoredFile


@pytest.fixture(autouse=True)
def data_folder(tmp_path: Path, settings: Any) -> Iterator[Path]:
    settings.DATA_DIR = tmp_path
    settings.MIN_FREE_DISK_BYTES = 0
    yield tmp_path


@pytest.fixture
def batch(person: User, data_folder: Path) -> Batch:
    file = store_file(person, [b"{}\n"], filename="in.jsonl", num_bytes=3)
    return Batch.objects.create(
        user=person, api_key=create_api_key(user=person, name="script")[0], input_file=file.pk,
        endpoint="/v1/responses", status="in_progress", num_lines=5, num_completed=2,
        metadata={"secret": "a-secret"},
    )  # fmt: skip


def test_a_person_sees_progress_and_cancels(page: Client, batch: Batch) -> None:
    html = page.get("/batches/").content.decode()
    assert batch.public_id in html and "2 of 5 requests" in html
    assert page.post(f"/batches/{batch.public_id}/cancel/").status_code == 302
    batch.refresh_from_db()
    assert batch.status == "cancelling"
    assert "cancel/" not in page.get("/batches/").content.decode()


def test_another_person_sees_and_cancels_nothing(strangers_page: Client, batch: Batch) -> None:
    assert batch.public_id not in strangers_page.get("/batches/").content.decode()
    assert strangers_page.post(f"/batches/{batch.public_id}/cancel/").status_code == 404
    file = StoredFile.objects.get()
    assert strangers_page.get(f"/batches/files/{file.public_id}").status_code == 404
    assert Batch.objects.get().status == "in_progress"


async def test_what_was_written_is_downloaded(person: User, batch: Batch) -> None:
    browser = AsyncClient()
    await in_database_thread(browser.force_login)(person)
    file = await StoredFile.objects.aget()
    response: Any = await browser.get(f"/batches/files/{file.public_id}")
    assert b"".join([piece async for piece in response.streaming_content]) == b"{}\n"


def test_what_has_failed_is_told(page: Client, batch: Batch) -> None:
    error = {"code": "x", "line": 3, "message": "<b>wrong</b>", "param": None}
    Batch.objects.update(status="failed", errors=[error], ended_at=batch.created_at)
    html = page.get("/batches/").content.decode()
    assert "Line 3:" in html and "&lt;b&gt;wrong" in html


def test_an_administrator_cancels_and_it_is_recorded(batch: Batch, admin_client: Client) -> None:
    address = "/admin/hosting/batch/"
    listed = admin_client.get(address).content.decode()
    assert "Ada" in listed and "2 of 5" in listed and "a-secret" not in listed
    one = admin_client.get(f"{address}{batch.pk}/change/").content.decode()
    assert "a-secret" not in one and "in.jsonl" not in one
    form = {"action": "cancel", "_selected_action": [batch.pk]}
    assert "Cancel these batches?" in admin_client.post(address, form).content.decode()
    admin_client.post(address, form | {"confirmed": "1"})
    batch.refresh_from_db()
    assert batch.status == "cancelling"
    assert AuditRecord.objects.filter(action="batch.cancel").count() == 1
    wanted = admin_client.get(address, {"metadata__secret": "a-secret"})
    assert wanted.status_code in (302, 400)
