"""Images in the chat: taken in, sent, shown to their person alone, gone with the last message."""

from __future__ import annotations

import datetime
import hashlib
import json
import uuid
from pathlib import Path
from typing import Any

import pytest
from django.test import Client
from django.utils import timezone

from accounts.models import User
from engine import wire
from hosting.actions.conversations import delete_conversation, get_conversation
from hosting.actions.files import delete_old_files
from hosting.actions.images import delete_unsent_images, store_image
from hosting.actions.my_data import delete_person
from hosting.models import Conversation, Generation, HostedModel, Image, Message, MessageImage
from tests.engine.transport.rig import Rig
from tests.hosting.test_chat_turns import answered, send, settle
from tests.pictures import HTML, JPEG, PNG, SVG, png

WORDS = {"type": "text", "text": "What is this?"}
BLUE = png(colour=(0, 0, 200))


@pytest.fixture(autouse=True)
def data_folder(tmp_path: Path, settings: Any, model: HostedModel) -> Path:
    settings.DATA_DIR, settings.MIN_FREE_DISK_BYTES = tmp_path, 0
    HostedModel.objects.filter(pk=model.pk).update(supports_images=True)
    return tmp_path


def give(page: Client, data: bytes = PNG, media_type: str = "image/png") -> Any:
    return page.post("/chat/images", data, content_type=media_type)


def given(page: Client, data: bytes = PNG) -> str:
    response = give(page, data)
    assert response.status_code == 201, response.content
    name: str = response.json()["image"]
    return name


def named(data: bytes) -> dict[str, str]:
    return {"type": "image", "digest": hashlib.sha256(data).hexdigest()}


def command_of(answer: dict[str, Any]) -> wire.Generate:
    command = wire.decode(Generation.objects.get(pk=answer["generation"]["id"]).request)
    assert isinstance(command, wire.Generate)
    return command


def stored(folder: Path) -> set[bytes]:
    return {path.read_bytes() for path in (folder / "files").iterdir()}


def test_an_image_is_read_before_the_words(page: Client, rig: Rig) -> None:
    first, second = given(page), given(page, BLUE)
    body = send(page, "What is this?", images=[second, first]).json()
    command = command_of(body["answer"])
    content = [named(BLUE), named(PNG), WORDS]
    assert command.messages == ({"role": "user", "content": content},)
    assert set(command.images.values()) == {PNG, BLUE}
    assert body["user_message"]["images"] == [second, first]
    again = page.get(f"/chat/conversations/{body['conversation']['id']}").json()
    assert again["messages"][0]["images"] == [second, first]


def test_an_image_needs_no_words(page: Client, rig: Rig) -> None:
    body = send(page, "", images=[given(page)]).json()
    assert command_of(body["answer"]).messages == ({"role": "user", "content": [named(PNG)]},)
    assert send(page, "").status_code == 400


def test_later_turns_and_other_versions_keep_the_images(page: Client, rig: Rig) -> None:
    image = given(page)
    body = answered(page, rig, content="What is this?", images=[image])
    answer, conversation = body["answer"]["id"], body["conversation"]["id"]
    made = page.post(
        f"/chat/messages/{answer}/regenerate", {}, content_type="application/json"
    ).json()
    assert command_of(made["answer"]).images == {named(PNG)["digest"]: PNG}
    settle(rig, made["answer"]["generation"]["id"])
    later = send(page, "And now?", conversation=conversation, parent=answer).json()
    assert command_of(later["answer"]).messages[0]["content"] == [named(PNG), WORDS]
    edited = send(page, "Who is this?", conversation=conversation, images=[image]).json()
    assert edited["user_message"]["images"] == [image]
    assert Image.objects.count() == 1


def test_a_message_that_is_sent_again_has_its_images_once(page: Client, rig: Rig) -> None:
    fields = {"id": str(uuid.uuid4()), "images": [given(page)]}
    first, again = (send(page, "Look", **fields) for _ in range(2))
    assert first.json() == again.json()
    assert MessageImage.objects.count() == 1
    other = send(page, "Look", **(fields | {"images": []}))
    assert (other.status_code, other.json()["error"]["code"]) == (409, "id_taken")


def test_the_same_bytes_are_stored_once(page: Client, data_folder: Path) -> None:
    assert given(page) == given(page)
    assert stored(data_folder) == {PNG}
    (path,) = (data_folder / "files").iterdir()
    assert path.stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize("data", [SVG, HTML, b"", b"MZ\x90"])
@pytest.mark.parametrize("media_type", ["image/png", "image/svg+xml", "text/html"])
def test_what_is_no_image_is_refused(page: Client, data: bytes, media_type: str) -> None:
    response = give(page, data, media_type)
    assert (response.status_code, response.json()["error"]["code"]) == (400, "invalid_image")
    assert not Image.objects.exists()


def test_limits_are_told(page: Client, settings: Any) -> None:
    image = given(page)
    settings.MAX_FILE_BYTES_PER_PERSON = len(PNG)
    full = give(page, BLUE).json()["error"]
    assert full["code"] == "storage_limit_exceeded"
    assert given(page) == image  # what is there takes no more room
    settings.MAX_IMAGE_BYTES = len(PNG) - 1
    assert give(page).json()["error"]["code"] == "image_too_large"
    many = send(page, "Look", images=[image] * 9).json()["error"]
    assert (many["code"], many["field"]) == ("too_many_images", "images")


def test_an_image_is_shown_safely_whatever_it_hides(page: Client) -> None:
    polyglot = PNG + HTML
    response = page.get(f"/chat/images/{given(page, polyglot)}")
    assert response.content == polyglot
    assert response["Content-Type"] == "image/png"
    assert response["X-Content-Type-Options"] == "nosniff"
    assert "sandbox" in response["Content-Security-Policy"]
    assert "default-src 'none'" in response["Content-Security-Policy"]
    assert response["Content-Disposition"].startswith('inline; filename="image-')
    assert response["Cache-Control"] == "no-store"
    assert page.get(f"/chat/images/{given(page, JPEG)}")["Content-Type"] == "image/jpeg"


def test_another_persons_image_is_not_found(page: Client, strangers_page: Client, rig: Rig) -> None:
    image = given(page)
    assert strangers_page.get(f"/chat/images/{image}").status_code == 404
    response = send(strangers_page, "Look", images=[image])
    assert (response.status_code, response.json()["error"]["code"]) == (400, "image_gone")
    assert not Message.objects.exists()
    assert given(strangers_page) != image  # though they are the same bytes


def test_who_is_signed_out_gives_and_gets_none(page: Client) -> None:
    image = given(page)
    nobody = Client()
    assert give(nobody).status_code == nobody.get(f"/chat/images/{image}").status_code == 401
    careless = Client(enforce_csrf_checks=True)
    careless.force_login(User.objects.get())
    assert give(careless).status_code == 403


def test_a_model_that_reads_text_only_is_told_nothing(page: Client, rig: Rig) -> None:
    HostedModel.objects.update(supports_images=False)
    response = send(page, "Look", images=[given(page)])
    error = response.json()["error"]
    assert (response.status_code, error["code"]) == (400, "unsupported_image")
    assert error["field"] == "images"
    assert not Conversation.objects.exists()


def test_images_of_all_turns_count(page: Client, rig: Rig, settings: Any) -> None:
    body = answered(page, rig, content="Look", images=[given(page)])
    settings.MAX_IMAGES = 1
    fields = {"conversation": body["conversation"]["id"], "parent": body["answer"]["id"]}
    error = send(page, "And this?", images=[given(page, BLUE)], **fields).json()["error"]
    assert error["code"] == "too_many_images"
    large = given(page, PNG + bytes(2000))
    settings.MAX_IMAGES, settings.DATA_UPLOAD_MAX_MEMORY_SIZE = 2, 2400  # 1800 of images
    error = send(page, "And this?", images=[large], **fields).json()["error"]
    assert error["code"] == "images_too_large"


def test_deleted_conversations_take_their_images_with_them(
    page: Client, rig: Rig, person: User, data_folder: Path
) -> None:
    both, one = given(page), given(page, BLUE)
    unsent = given(page, JPEG)
    first = send(page, "Look", images=[both, one]).json()["conversation"]["id"]
    second = send(page, "Look", images=[both]).json()["conversation"]["id"]
    delete_conversation(get_conversation(person, uuid.UUID(first)))
    assert stored(data_folder) == {PNG, JPEG}
    delete_conversation(get_conversation(person, uuid.UUID(second)))
    assert stored(data_folder) == {JPEG}
    assert page.get(f"/chat/images/{unsent}").status_code == 200


def test_an_image_that_is_never_sent_is_deleted_after_a_day(
    page: Client, rig: Rig, data_folder: Path
) -> None:
    sent, _ = given(page), given(page, BLUE)
    send(page, "Look", images=[sent])
    assert delete_unsent_images() == 0
    Image.objects.update(given_at=timezone.now() - datetime.timedelta(hours=25))
    given(page, BLUE)  # once more: it is young again
    assert delete_unsent_images() == 0
    Image.objects.update(given_at=timezone.now() - datetime.timedelta(hours=25))
    assert delete_unsent_images() == 1
    assert stored(data_folder) == {PNG}


def test_images_are_no_orphans(
    page: Client, data_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    image = given(page)
    monkeypatch.setattr("hosting.actions.files._ORPHAN_SECONDS", -1.0)
    delete_old_files()
    assert page.get(f"/chat/images/{image}").status_code == 200


def test_nothing_is_left_of_a_person(
    page: Client, rig: Rig, person: User, data_folder: Path
) -> None:
    send(page, "Look", images=[given(page)])
    given(page, BLUE)
    User.objects.create_superuser("root@example.org")
    delete_person(person, actor=person, address="")
    assert not Image.objects.exists() and not MessageImage.objects.exists()
    assert stored(data_folder) == set()


def test_a_file_that_somebody_took_away_is_told(page: Client, rig: Rig, data_folder: Path) -> None:
    image = given(page)
    for path in (data_folder / "files").iterdir():
        path.unlink()
    assert page.get(f"/chat/images/{image}").status_code == 404
    assert send(page, "Look", images=[image]).json()["error"]["code"] == "image_gone"


def test_the_exports_say_where_the_images_are(page: Client, rig: Rig) -> None:
    image = given(page)
    conversation = send(page, "Look", images=[image]).json()["conversation"]["id"]
    exported = page.get(f"/chat/conversations/{conversation}/export").json()
    mine = json.loads(page.get("/accounts/data/export").content)
    for told in (exported, mine["conversations"][0]):
        (shown,) = told["messages"][0]["images"]
        assert page.get(shown["address"]).content == PNG
        assert shown["sha256"] == named(PNG)["digest"]
    markdown = page.get(f"/chat/conversations/{conversation}/export?format=markdown").content
    assert f"![Image](http://testserver/chat/images/{image})" in markdown.decode()


def test_bytes_that_lost_the_race_are_not_left(person: User, data_folder: Path) -> None:
    for _ in range(2):
        store_image(person, PNG)
    assert len(list((data_folder / "files").iterdir())) == 1
