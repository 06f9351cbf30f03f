"""The list of conversations: rename, pin, delete with undo, search."""

from __future__ import annotations

import time
import uuid

import pytest
from playwright.sync_api import expect

from tests.browser.chat import Chat


@pytest.fixture
def named(chat: Chat) -> tuple[Chat, str]:
    """A conversation of this test alone, open, and its title."""
    chat.ask("Introduce yourself")
    title = f"Talk {uuid.uuid4().hex[:8]}"
    _rename(chat, title)
    return chat, title


def _rename(chat: Chat, title: str) -> None:
    chat.choose_from_row_menu(0, "Rename")
    field = chat.page.get_by_label("Title")
    field.fill(title)
    field.press("Enter")


def test_a_new_title_is_kept(named: tuple[Chat, str]) -> None:
    chat, title = named
    expect(chat.page.locator("#title")).to_have_text(title)
    chat.page.reload()
    expect(chat.page.locator("#title")).to_have_text(title)
    expect(chat.page.get_by_role("link", name=title)).to_be_visible()


def test_search_finds_by_title(named: tuple[Chat, str]) -> None:
    chat, title = named
    chat.page.keyboard.press("Control+k")
    chat.page.keyboard.type(title)
    expect(chat.rows).to_have_count(1)
    expect(chat.title_of_row(0)).to_have_text(title)
    chat.page.get_by_label("Search conversations").fill("no such words anywhere")
    expect(chat.page.get_by_text("No conversation matches.")).to_be_visible()


def test_search_shows_why_a_conversation_was_found(named: tuple[Chat, str]) -> None:
    chat, title = named
    words = f"zwieback {time.time_ns()}"
    chat.ask(words)
    chat.page.get_by_label("Search conversations").fill(words.upper())
    expect(chat.rows).to_have_count(1)
    snippet = chat.rows.locator(".conversation-snippet")
    expect(snippet).to_have_text(words)
    name, why = chat.title_of_row(0).bounding_box(), snippet.bounding_box()
    assert name and why and why["y"] >= name["y"] + name["height"]
    expect(chat.title_of_row(0)).to_have_text(title)


def test_a_pinned_conversation_is_first(named: tuple[Chat, str]) -> None:
    chat, title = named
    chat.choose_from_row_menu(0, "Pin")
    expect(chat.page.get_by_role("heading", name="Pinned")).to_be_visible()
    expect(chat.title_of_row(0)).to_have_text(title)
    chat.choose_from_row_menu(0, "Unpin")
    expect(chat.page.get_by_role("heading", name="Pinned")).to_have_count(0)


def test_an_export_closes_the_menu(named: tuple[Chat, str]) -> None:
    chat, _ = named
    with chat.page.expect_download():
        chat.choose_from_row_menu(0, "Export as Markdown")
    expect(chat.page.get_by_role("menuitem", name="Pin", exact=True)).to_be_hidden()


def test_deleting_can_be_undone_until_it_is_done(named: tuple[Chat, str]) -> None:
    chat, title = named
    row = chat.page.get_by_role("link", name=title)
    chat.choose_from_row_menu(0, "Delete")
    expect(row).to_have_count(0)
    chat.page.get_by_role("button", name="Undo").click()
    expect(row).to_be_visible()
    chat.choose_from_row_menu(0, "Delete")
    with chat.page.expect_response(lambda answer: answer.request.method == "DELETE"):
        chat.page.get_by_role("button", name="Close", exact=True).click()
    chat.page.reload()
    expect(chat.page.locator("#model-button .model-name")).to_be_visible()
    expect(row).to_have_count(0)


def test_the_way_back_leads_past_a_deleted_conversation(chat: Chat, troubles: list[str]) -> None:
    chat.ask("Introduce yourself")
    kept = chat.address
    chat.page.keyboard.press("Control+Shift+O")
    chat.ask("What can Hearth do?")
    chat.choose_from_row_menu(0, "Delete")
    with chat.page.expect_response(lambda answer: answer.request.method == "DELETE"):
        chat.page.get_by_role("button", name="Close", exact=True).click()
    chat.page.evaluate("history.back()")
    expect(chat.page.get_by_text("This conversation no longer exists.")).to_be_visible()
    chat.page.evaluate("history.back()")
    expect(chat.bubbles).to_have_text(["Introduce yourself"])
    assert chat.address == kept
    troubles.clear()  # the console tells of the status 404


def test_a_new_conversation_gets_a_title_by_itself(chat: Chat) -> None:
    chat.ask("What can Hearth do?")
    chat.page.wait_for_function(
        """async () => {
            const id = location.pathname.split("/").at(-1);
            const { conversation } = await (await fetch(`/chat/conversations/${id}`)).json();
            return conversation.title;
        }"""
    )
    expect(chat.page.locator("#title")).not_to_have_text("What can Hearth do?")
