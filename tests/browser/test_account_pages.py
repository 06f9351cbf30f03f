"""The pages of people, keys, limits and usage: what they lead to, and how they look."""

from __future__ import annotations

import json
import subprocess
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser, Page, expect

from tests.browser.chat import Chat
from tests.browser.conftest import watch
from tests.stack import Stack

OpenPage = Callable[..., Page]
PATHS = ("/accounts/people/", "/accounts/keys/", "/limits/", "/usage/", "/usage/team/")
MORE_PATHS = ("/accounts/data/", "/admin/accounts/user/1/change/", "/admin/accounts/policy/")
LOOKS = [(width, theme) for width in (390, 1280) for theme in ("light", "dark")]
STANDARDS = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa"]
PATIENCE_SECONDS = 60


@pytest.fixture
def open_page(
    browser: Browser, stack: Stack, signed_in: Any, troubles: list[str]
) -> Iterator[OpenPage]:
    contexts = []

    def open_one(path: str, *, is_known: bool = True, **options: Any) -> Page:
        state = signed_in if is_known else None
        context = browser.new_context(base_url=stack.base_url, storage_state=state, **options)
        contexts.append(context)
        page = context.new_page()
        watch(page, stack.base_url, troubles)
        page.goto(path)
        return page

    yield open_one
    for context in contexts:
        context.close()
    assert not troubles


@pytest.mark.parametrize(("width", "theme"), LOOKS)
def test_every_page_is_accessible_and_fits(open_page: OpenPage, width: int, theme: str) -> None:
    page = open_page("/", viewport={"width": width, "height": 850}, color_scheme=theme)
    for path in (*PATHS, *MORE_PATHS):
        page.goto(path)
        found = Axe().run(page, options={"runOnly": STANDARDS}).response
        assert found["passes"]
        faults = [(path, one["id"], one["nodes"][0]["html"]) for one in found["violations"]]
        assert faults == []
        assert page.evaluate("document.documentElement.scrollWidth - innerWidth") <= 0, path


def test_a_new_keys_example_works_as_it_is_shown(open_page: OpenPage) -> None:
    page = open_page("/accounts/keys/")
    page.get_by_label("Name").fill("terminal")
    page.get_by_role("button", name="Create key").click()
    command = page.locator("#example-curl").inner_text()
    done = subprocess.run(["bash", "-c", command], capture_output=True, text=True, timeout=60)
    answer = json.loads(done.stdout)
    assert answer["choices"][0]["message"]["content"]
    page.get_by_role("link", name="back to my keys").click()
    line = page.locator(".key", has_text="terminal")
    expect(line).to_contain_text("curl/")
    expect(line).to_contain_text("127.0.0.1")
    line.get_by_role("link", name="Limits").click()
    expect(page.get_by_role("heading", name="Limits of the key “terminal”")).to_be_visible()


def test_from_an_invitation_to_the_first_answer_within_a_minute(open_page: OpenPage) -> None:
    people = open_page("/accounts/people/")
    people.get_by_role("button", name="Make a link").click()
    link = people.locator("#link").inner_text()
    started = time.monotonic()
    page = open_page(link, is_known=False)
    page.get_by_label("E-mail").fill(f"new-{time.time_ns()}@example.org")
    page.get_by_label("Name").fill("Grace")
    for field in page.locator("input[type=password]").all():
        field.fill("warm-stones-in-the-hearth")
    page.get_by_role("button", name="Create my account").click()
    chat = Chat(page)
    assert chat.ask("Introduce yourself")
    assert time.monotonic() - started < PATIENCE_SECONDS


def test_the_limits_page_is_found_from_the_chat_and_tells_what_is_left(chat: Chat) -> None:
    chat.page.locator("#account-button").click()
    chat.page.get_by_role("menuitem", name="Limits and usage").click()
    at_once = chat.page.locator(".limit", has_text="Requests at once")
    expect(at_once).to_contain_text("of 64 left")
    expect(at_once).to_contain_text("as soon as one ends")


def test_no_page_of_another_port_opens_a_socket(open_page: OpenPage, troubles: list[str]) -> None:
    """Same site, so the browser sends the cookie; another origin all the same."""
    page = open_page("/")
    own = page.evaluate(_OPENED, page.url.replace("http", "ws") + "ws/chat")
    page.route("http://127.0.0.1:9/", lambda route: route.fulfill(body="<!doctype html>"))
    url = page.url.replace("http", "ws") + "ws/chat"
    page.goto("http://127.0.0.1:9/")
    assert (own, page.evaluate(_OPENED, url)) == (True, False)
    troubles.clear()  # the refused handshake, and the page from elsewhere


_OPENED = """url => new Promise(resolve => {
    const socket = new WebSocket(url);
    socket.onopen = () => resolve(true);
    socket.onerror = () => resolve(false);
})"""
