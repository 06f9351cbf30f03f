"""Administrators read conversations only where a policy lets them, and never unseen."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from django.test import Client

from accounts.models import AuditRecord, Policy, User
from hosting.actions.images import put_into, store_image
from hosting.models import Conversation, Message
from tests.pictures import PNG

POLICY = "/admin/accounts/policy/1/change/"


@pytest.fixture
def conversation(person: User) -> Conversation:
    row = Conversation.objects.create(owner=person, title="Ada's plan")
    said = Message.objects.create(conversation=row, role="user", content="A secret plan")
    row.active_leaf = said
    row.save()
    return row


@pytest.fixture
def admin(transactional_db: None) -> Client:
    browser = Client()
    browser.force_login(User.objects.create_superuser("root@example.org"))
    return browser


def urls(conversation: Conversation) -> tuple[str, str]:
    listing = f"/admin/conversations/{conversation.owner_id}/"
    return listing, f"{listing}{conversation.pk}/"


def switch(admin: Client, *, on: bool) -> None:
    admin.get("/admin/accounts/policy/")
    sent = {"may_read_conversations": "on"} if on else {}
    assert admin.post(POLICY, sent).status_code == 302


def test_by_itself_there_is_no_such_page(admin: Client, conversation: Conversation) -> None:
    for url in urls(conversation):
        assert admin.get(url).status_code == 404
    assert not AuditRecord.objects.filter(action="conversation.read").exists()
    person_page = admin.get(f"/admin/accounts/user/{conversation.owner_id}/change/")
    assert "Conversations" not in person_page.content.decode()


def test_switching_is_audited_and_told_to_everybody(admin: Client, page: Client) -> None:
    assert "Only you read your conversations" in page.get("/accounts/data/").content.decode()
    switch(admin, on=True)
    line = AuditRecord.objects.get(action="policy.change")
    assert (line.actor, json.loads(line.after)) == (
        "root@example.org",
        {"may_read_conversations": True},
    )
    for url in ("/accounts/data/", "/"):
        assert "Administrators" in page.get(url).content.decode()
    switch(admin, on=False)
    assert AuditRecord.objects.filter(action="policy.change").count() == 2
    assert "may read your conversations" not in page.get("/").content.decode()


def test_each_reading_is_audited_and_told_to_its_person(
    admin: Client, page: Client, conversation: Conversation
) -> None:
    switch(admin, on=True)
    listing, one = urls(conversation)
    assert "Ada&#x27;s plan" in admin.get(listing).content.decode()
    assert "A secret plan" in admin.get(one).content.decode()
    lines = AuditRecord.objects.filter(action="conversation.read").order_by("number")
    assert [json.loads(line.after)["read"] for line in lines] == ["titles", str(conversation.pk)]
    assert page.get("/accounts/data/").content.decode().count("root@example.org on ") == 2


def test_of_images_there_is_only_their_number(
    admin: Client, conversation: Conversation, person: User, settings: Any, tmp_path: Path
) -> None:
    settings.DATA_DIR, settings.MIN_FREE_DISK_BYTES = tmp_path, 0
    image = store_image(person, PNG)
    put_into(conversation.messages.get(), [image.pk])
    switch(admin, on=True)
    told = admin.get(urls(conversation)[1]).content.decode()
    assert "1 image, which only its person is shown." in told
    assert str(image.pk) not in told
    assert admin.get(f"/chat/images/{image.pk}").status_code == 404


def test_nobody_else_reads_even_then(
    strangers_page: Client, conversation: Conversation, stranger: User
) -> None:
    Policy.objects.create(pk=1, may_read_conversations=True)
    stranger.is_staff = True
    stranger.save()
    for url in urls(conversation):
        assert strangers_page.get(url).status_code == 404
    assert strangers_page.get(POLICY).status_code == 403


def test_another_persons_conversation_is_not_found_under_this_one(
    admin: Client, stranger: User, conversation: Conversation
) -> None:
    Policy.objects.create(pk=1, may_read_conversations=True)
    assert admin.get(f"/admin/conversations/{stranger.pk}/{conversation.pk}/").status_code == 404
