"""The rows in the sidebar answer what was asked last, however slow or lost other answers are."""

from __future__ import annotations

import json
from urllib.parse import parse_qs, urlsplit

import pytest
from playwright.sync_api import Page, Route, expect

from tests.browser.chat import Chat
from tests.browser.conftest import NewPage
from tests.browser.held import Held

READS = "**/chat/conversations?*"
OLDER = "**/chat/conversations?*before=*"
CHANGES = "**/chat/conversations/Newer"
ROW = {
    "is_pinned": False,
    "is_generating": False,
    "snippet": "",
    "updated_at": "2026-01-02T03:04:05Z",
}


def answer(route: Route) -> None:
    """As from a person with more conversations than fit on a page, one of which is about bread."""
    asked = parse_qs(urlsplit(route.request.url).query)
    before = asked.get("before", [""])[0]
    title = "Bread" if "q" in asked else {"": "Newer", "2026": "Older", "2025": "Oldest"}[before]
    listed = {"conversations": [{**ROW, "id": title, "title": title}]}
    cursor = {"Newer": "2026", "Older": "2025"}.get(title)
    route.fulfill(content_type="application/json", body=json.dumps({**listed, "next": cursor}))


def lose(route: Route) -> None:
    route.abort()


@pytest.fixture
def listed(new_page: NewPage) -> Chat:
    page = new_page()
    page.route(READS, answer)
    chat = Chat(page)
    chat.open()
    expect(chat.title_of_row(0)).to_have_text("Newer")
    return chat


def search(page: Page, words: str) -> None:
    page.get_by_label("Search conversations").fill(words)


def test_older_rows_that_come_late_are_not_among_those_of_a_search(listed: Chat) -> None:
    page = listed.page
    older = Held(page, OLDER)
    with page.expect_request(OLDER) as asked:
        page.locator("#more-conversations").click()
    search(page, "bread")
    expect(listed.title_of_row(0)).to_have_text("Bread")
    with page.expect_event("requestfinished", lambda request: request == asked.value):
        older.let_go(answer)
    page.evaluate("new Promise(requestAnimationFrame)")
    expect(listed.rows).to_have_count(1)


def test_nor_do_they_leave_a_gap_behind_a_search(listed: Chat) -> None:
    page = listed.page
    page.locator("#more-conversations").click()
    expect(listed.title_of_row(1)).to_have_text("Older")
    oldest = Held(page, OLDER)
    with page.expect_request(OLDER) as asked:
        page.locator("#more-conversations").click()
    search(page, "bread")
    expect(listed.title_of_row(0)).to_have_text("Bread")
    search(page, "")
    expect(listed.title_of_row(0)).to_have_text("Newer")
    with page.expect_event("requestfinished", lambda request: request == asked.value):
        oldest.let_go(answer)
    page.locator("#more-conversations").click()
    expect(listed.title_of_row(1)).to_have_text("Older")


def test_rows_from_before_a_change_do_not_undo_it(listed: Chat) -> None:
    page = listed.page
    early, change = Held(page, READS), Held(page, CHANGES)
    with page.expect_request(READS) as asked:
        search(page, " ")
    with page.expect_request(CHANGES):
        listed.choose_from_row_menu(0, "Pin")
    pinned = page.get_by_role("heading", name="Pinned")
    expect(pinned).to_be_visible()
    with page.expect_event("requestfinished", lambda request: request == asked.value):
        early.let_go(answer)
    page.evaluate("new Promise(requestAnimationFrame)")
    expect(pinned).to_be_visible()
    page.route(READS, answer)
    with page.expect_response(READS):
        change.let_go(lambda route: route.fulfill(json={}))
    expect(pinned).to_have_count(0)  # the server knows better


def test_a_failed_request_for_older_rows_is_told(listed: Chat, troubles: list[str]) -> None:
    page = listed.page
    page.route(OLDER, lose)
    page.locator("#more-conversations").click()
    expect(page.locator(".toast")).to_contain_text("Hearth cannot be reached.")
    assert not [trouble for trouble in troubles if trouble.startswith("error:")]
    troubles.clear()  # the console tells of the lost request


def test_a_search_without_an_answer_does_not_say_that_nothing_matches(
    listed: Chat, troubles: list[str]
) -> None:
    page = listed.page
    page.route(READS, lose)
    search(page, "bread")
    expect(page.locator(".toast")).to_contain_text("Hearth cannot be reached.")
    page.keyboard.press("Control+Shift+O")
    expect(listed.rows).to_have_count(1)
    expect(page.get_by_text("No conversation matches.")).to_have_count(0)
    troubles.clear()  # the console tells of the lost request


def test_before_the_first_answer_nobody_is_told_to_have_no_conversations(new_page: NewPage) -> None:
    page = new_page()
    first = Held(page, READS)
    chat = Chat(page)
    chat.open()
    expect(page.get_by_text("Your conversations will be here.")).to_have_count(0)
    first.let_go(answer)
    expect(chat.title_of_row(0)).to_have_text("Newer")
