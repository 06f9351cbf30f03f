"""Tool servers in the administration: the token that is never shown, listing, what is recorded."""

from __future__ import annotations

from typing import Any

import pytest
from django.contrib.auth.models import Permission
from django.test import Client

from accounts.models import AuditRecord, User
from accounts.sealed import open_sealed
from hosting.models import ToolServer
from tests.hosting.tool_servers.conftest import ALL
from tests.tool_server import RunningServer

LIST = "/admin/hosting/toolserver/"
SECRET = "a-secret-token"


@pytest.fixture
def root(transactional_db: None) -> Client:
    browser = Client()
    browser.force_login(User.objects.create_superuser("root@example.org"))
    return browser


def form(**changes: Any) -> dict[str, Any]:
    plain = {"name": "Tests", "url": "https://tools.example.org/mcp", "timeout_seconds": 30}
    return plain | changes


def page_of(server: ToolServer) -> str:
    return f"{LIST}{server.pk}/change/"


def own_form(server: ToolServer, **changes: Any) -> dict[str, Any]:
    told = {"name": server.name, "url": server.url, "may_be_private": "on", "is_enabled": "on"}
    told |= {"is_for_everybody": "on", "timeout_seconds": 30, "allowed_tools": ALL}
    return told | changes


def test_a_new_server_is_off_for_nobody_and_without_tools(root: Client) -> None:
    answer = root.post(f"{LIST}add/", form(secret=SECRET), follow=True)
    server = ToolServer.objects.get()
    assert (server.is_enabled, server.is_for_everybody, server.allowed_tools) == (False, False, [])
    assert open_sealed(server.sealed_token) == SECRET
    assert SECRET not in answer.content.decode()
    assert "There is one." in answer.content.decode()


def test_no_token_is_recorded_or_shown(root: Client, server: ToolServer) -> None:
    root.post(page_of(server), own_form(server, secret=SECRET))
    server.refresh_from_db()
    assert open_sealed(server.sealed_token) == SECRET
    (record,) = AuditRecord.objects.filter(action="tool_server.change")
    assert "(hidden)" in record.after and SECRET not in record.after
    for path in (page_of(server), LIST, f"{LIST}{server.pk}/history/", "/admin/"):
        text = root.get(path).content.decode()
        assert SECRET not in text and server.sealed_token not in text


def test_a_token_goes_to_no_other_address(root: Client, server: ToolServer) -> None:
    changed = own_form(server, url="http://127.0.0.1:1/mcp")
    answer = root.post(page_of(server), changed)
    assert "The address has changed: enter the token again" in answer.content.decode()
    root.post(page_of(server), changed | {"forgets_secret": "on"})
    server.refresh_from_db()
    assert (server.url, server.sealed_token) == ("http://127.0.0.1:1/mcp", "")


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"url": "http://tools.example.org/mcp"}, "begins with https://"),
        ({"url": "file:///etc/passwd"}, "begins with https:// or http://"),
        ({"url": "https://me:word@tools.example.org"}, "no name, password"),
        ({"secret": "two words"}, "plain letters"),
        ({"secret": "a\r\nHost: x"}, "plain letters"),
        ({"secret": "ünïcode"}, "plain letters"),
        ({"timeout_seconds": 301}, "less than or equal to 300"),
        ({"timeout_seconds": 0}, "greater than or equal to 1"),
        ({"name": "<b>"}, "Enter a valid value"),
    ],
)
def test_what_is_wrong_is_told_at_its_field(
    root: Client, changes: dict[str, Any], sentence: str
) -> None:
    answer = root.post(f"{LIST}add/", form(**changes))
    assert sentence in answer.content.decode()
    assert not ToolServer.objects.exists()


def test_listing_allows_nothing_by_itself(root: Client, server: ToolServer) -> None:
    ToolServer.objects.update(listed_tools=[], allowed_tools=["add", "gone"])
    asked = root.get(f"{LIST}{server.pk}/list/", follow=True)
    assert "Ask these tool servers what they have?" in asked.content.decode()
    body = {"action": "list_tools", "_selected_action": [server.pk], "confirmed": "yes"}
    answer = root.post(LIST, body, follow=True)
    assert "Tests has 6 tools." in answer.content.decode()
    server.refresh_from_db()
    assert [tool["name"] for tool in server.usable_tools] == ["add"]
    assert AuditRecord.objects.filter(action="tool_server.list").count() == 1


def test_a_server_that_cannot_be_asked_is_told(root: Client, server: ToolServer) -> None:
    ToolServer.objects.update(may_be_private=False, url="https://127.0.0.1/mcp")
    body = {"action": "list_tools", "_selected_action": [server.pk], "confirmed": "yes"}
    told = root.post(LIST, body, follow=True).content.decode()
    assert "127.0.0.1 is at an address that may not be asked." in told


def test_who_may_only_look_is_asked_nothing_and_asks_nobody(
    server: ToolServer, running: RunningServer
) -> None:
    staff = User.objects.create_user("staff@example.org", is_staff=True)
    staff.user_permissions.add(Permission.objects.get(codename="view_toolserver"))
    browser = Client()
    browser.force_login(staff)
    text = browser.get(page_of(server)).content.decode()
    assert "There is one." in text and "New token" not in text
    ToolServer.objects.update(listed_tools=[])
    body = {"action": "list_tools", "_selected_action": [server.pk], "confirmed": "yes"}
    browser.post(LIST, body)
    assert browser.get(f"{LIST}{server.pk}/list/").status_code == 403
    assert ToolServer.objects.get().listed_tools == []


def test_what_a_server_says_of_its_tools_is_text(root: Client, server: ToolServer) -> None:
    hostile = "<script>alert(1)</script>"
    tool = {"name": hostile, "description": hostile, "input_schema": {}}
    ToolServer.objects.update(listed_tools=[tool], allowed_tools=[hostile])
    for path in (page_of(server), LIST):
        assert hostile not in root.get(path).content.decode()
