"""Files of requests: uploaded, listed, read and deleted, each by its person alone."""

from __future__ import annotations

import errno
import os
import stat
import uuid
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from django.core.files.uploadedfile import SimpleUploadedFile
from django.db import OperationalError
from django.utils import timezone

from accounts.keys import create_api_key
from accounts.models import User
from hosting.actions import file_bytes, files
from hosting.actions.database_threads import in_database_thread
from hosting.actions.files import delete_old_files
from hosting.actions.my_data import delete_person
from hosting.models import StoredFile
from tests.hosting.conftest import KeyedClient

LINES = b'{"custom_id":"a"}\n{"custom_id":"b"}\n'


@pytest.fixture(autouse=True)
def data_folder(tmp_path: Path, settings: Any) -> Iterator[Path]:
    settings.DATA_DIR = tmp_path
    settings.MIN_FREE_DISK_BYTES = 0
    yield tmp_path


async def upload(api: KeyedClient, content: bytes = LINES, **fields: Any) -> Any:
    file = SimpleUploadedFile("lines.jsonl", content)
    return await api.post("/v1/files", {"file": file, "purpose": "batch"} | fields)


def lying(folder: Path) -> list[str]:
    return sorted(path.name for path in (folder / "files").iterdir())


async def test_a_file_is_what_was_uploaded_until_it_is_deleted(
    api: KeyedClient, data_folder: Path
) -> None:
    file = (await upload(api)).json()
    assert (file["bytes"], file["filename"], file["purpose"]) == (36, "lines.jsonl", "batch")
    assert (await api.get(f"/v1/files/{file['id']}")).json() == file
    content: Any = await api.get(f"/v1/files/{file['id']}/content")
    assert b"".join([piece async for piece in content.streaming_content]) == LINES
    assert content["Content-Length"] == "36"
    (name,) = lying(data_folder)
    assert stat.S_IMODE(os.stat(data_folder / "files" / name).st_mode) == 0o600
    gone = (await api.delete(f"/v1/files/{file['id']}")).json()
    assert gone == {"id": file["id"], "object": "file", "deleted": True}
    assert (await api.get(f"/v1/files/{file['id']}")).status_code == 404
    assert lying(data_folder) == []


@pytest.mark.parametrize("rest", ["", "/content"])
async def test_another_persons_file_is_not_found(
    api: KeyedClient, stranger: User, rest: str
) -> None:
    file_id = (await upload(api)).json()["id"]
    _, secret = await in_database_thread(create_api_key)(user=stranger, name="other")
    other = KeyedClient(secret)
    assert (await other.get(f"/v1/files/{file_id}{rest}")).status_code == 404
    assert (await other.delete(f"/v1/files/{file_id}")).status_code == 404
    assert (await other.get("/v1/files")).json()["data"] == []
    assert (await other.get("/v1/files", {"after": file_id})).status_code == 404


async def test_files_are_listed_page_by_page(api: KeyedClient) -> None:
    ids = [(await upload(api)).json()["id"] for _ in range(3)]
    first = (await api.get("/v1/files", {"limit": 2, "order": "asc"})).json()
    assert [one["id"] for one in first["data"]] == ids[:2]
    assert (first["has_more"], first["last_id"]) == (True, ids[1])
    rest = (await api.get("/v1/files", {"after": ids[1], "order": "asc"})).json()
    assert [one["id"] for one in rest["data"]] == ids[2:] and not rest["has_more"]
    newest_first = (await api.get("/v1/files", {"purpose": "batch"})).json()["data"]
    assert [one["id"] for one in newest_first] == ids[::-1]
    assert (await api.get("/v1/files", {"purpose": "batch_output"})).json()["data"] == []


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({"purpose": "fine-tune"}, "purpose"),
        ({"purpose": ""}, "purpose"),
        ({"file": "text"}, "file"),
        ({"expires_after[anchor]": "later"}, "expires_after[anchor]"),
        (
            {"expires_after[anchor]": "created_at", "expires_after[seconds]": "5"},
            "expires_after[seconds]",
        ),
    ],
)
async def test_what_is_wrong_is_named(api: KeyedClient, fields: Any, param: str) -> None:
    response = await upload(api, **fields)
    assert response.status_code == 400
    assert response.json()["error"]["param"] == param
    assert not await StoredFile.objects.aexists()


@pytest.mark.parametrize(
    "query", [{"limit": 0}, {"limit": "x"}, {"limit": "000000001" + "9" * 20}, {"order": "up"}]
)
async def test_a_wrong_page_is_refused(api: KeyedClient, query: dict[str, Any]) -> None:
    response = await api.get("/v1/files", query)
    assert response.status_code == 400
    assert response.json()["error"]["param"] == next(iter(query))


async def test_json_is_no_file(api: KeyedClient) -> None:
    response: Any = await api.post("/v1/files", {}, content_type="application/json")
    assert response.status_code == 400


async def test_sizes_have_limits(api: KeyedClient, data_folder: Path, settings: Any) -> None:
    settings.MAX_FILE_BYTES_PER_PERSON = 40
    assert (await upload(api)).status_code == 200
    full = await upload(api)
    assert full.status_code == 413
    assert full.json()["error"]["code"] == "storage_limit_exceeded"
    settings.MAX_FILE_BYTES = 10
    assert (await upload(api)).json()["error"]["code"] == "file_too_large"
    assert len(lying(data_folder)) == 1


async def test_a_full_disk_is_told_and_leaves_nothing(
    api: KeyedClient, data_folder: Path, settings: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings.MIN_FREE_DISK_BYTES = 2**60
    assert (await upload(api)).status_code == 507
    settings.MIN_FREE_DISK_BYTES = 0

    def full(_: int) -> None:
        raise OSError(errno.ENOSPC, "full")

    monkeypatch.setattr(file_bytes.os, "fsync", full)
    response = await upload(api)
    assert response.status_code == 507
    assert response.json()["error"]["code"] == "storage_full"
    assert lying(data_folder) == []
    assert not await StoredFile.objects.aexists()


async def test_a_person_who_goes_takes_the_files_along(
    api: KeyedClient, person: User, data_folder: Path, admin_user: User
) -> None:
    await upload(api)
    await in_database_thread(delete_person)(person, actor=admin_user, address="")
    assert lying(data_folder) == []
    assert not await StoredFile.objects.aexists()


async def test_old_files_and_what_no_row_names_are_deleted(
    api: KeyedClient, data_folder: Path
) -> None:
    old, kept = [(await upload(api)).json()["id"] for _ in range(2)]
    over = timezone.now() - timedelta(seconds=1)
    await StoredFile.objects.filter(pk=old.removeprefix("file-")).aupdate(expires_at=over)
    assert (await api.get(f"/v1/files/{old}")).status_code == 404
    orphan, young = (data_folder / "files" / f"{uuid.uuid4().hex}.part" for _ in range(2))
    orphan.touch()
    os.utime(orphan, (0, 0))
    young.touch()
    assert await in_database_thread(delete_old_files)() == 1
    assert set(lying(data_folder)) == {kept.removeprefix("file-"), young.name}


def test_a_row_that_cannot_be_made_leaves_no_bytes(
    person: User, data_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: Any, **__: Any) -> None:
        raise OperationalError("disk full")

    monkeypatch.setattr(files, "add_row", fail)
    with pytest.raises(OperationalError):
        files.store_file(person, [LINES], filename="a", num_bytes=len(LINES))
    assert lying(data_folder) == []
