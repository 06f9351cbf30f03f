"""The pages of people, keys, limits and usage: what they lead to, and how they look."""

from __future__ import annotations

import json
import subprocess
import time

import pytest
from playwright.sync_api import expect

from tests.browser.chat import Chat
from tests.browser.conftest import OpenPage, accessibility_faults
from tests.browser.held import Held
from tests.stack import Stack

PATHS = ("/accounts/people/", "/accounts/keys/", "/limits/", "/usage/", "/usage/team/")
MORE_PATHS = ("/accounts/data/", "/admin/accounts/user/1/change/", "/admin/accounts/policy/")
LOOKS = [(width, theme) for width in (390, 1280) for theme in ("light", "dark")]
PATIENCE_SECONDS = 60


@pytest.mark.parametrize(("width", "theme"), LOOKS)
def test_every_page_is_accessible_and_fits(open_page: OpenPage, width: int, theme: str) -> None:
    page = open_page("/", width, theme)
    for path in (*PATHS, *MORE_PATHS):
        page.goto(path)
        assert accessibility_faults(page) == [], path
        assert page.evaluate("document.documentElement.scrollWidth - innerWidth") <= 0, path


def test_on_a_phone_the_ways_to_the_pages_leave_room_for_the_page(open_page: OpenPage) -> None:
    page = open_page("/usage/", 390)
    head = page.locator(".site-header").bounding_box()
    assert head and head["height"] <= 150


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


def test_a_second_click_makes_no_second_key(open_page: OpenPage) -> None:
    page = open_page("/accounts/keys/")
    page.get_by_label("Name").fill("twice")
    sent: list[str] = []
    page.on("request", lambda request: sent.append(request.method))
    waiting = Held(page, "**/accounts/keys/")
    with page.expect_console_message(lambda line: line.text == "clicked twice"):
        page.evaluate(_CLICK_TWICE)
    assert sent == ["POST"]
    waiting.let_go()
    prefix = page.locator("#secret").inner_text()[: len("sk-hearth-") + 8]
    page.get_by_role("link", name="back to my keys").click()
    expect(page.locator(".key", has_text="twice")).to_contain_text([prefix])


def test_a_reload_makes_no_second_key(open_page: OpenPage) -> None:
    page = open_page("/accounts/keys/")
    page.get_by_label("Name").fill("reloaded")
    page.get_by_role("button", name="Create key").click()
    expect(page.locator("#secret")).to_be_visible()
    page.reload()
    expect(page.locator(".key", has_text="reloaded")).to_have_count(1)


_CLICK_TWICE = """
    const button = document.querySelector(".inline-form button");
    button.click();
    setTimeout(() => button.click(), 200);
    setTimeout(() => console.log("clicked twice"), 500);
"""


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


def test_who_met_a_limit_is_told_what_is_left_and_where_all_is_seen(
    open_page: OpenPage, stack: Stack, troubles: list[str]
) -> None:
    email = f"spent-{time.time_ns()}@example.org"
    stack.manage("shell", "-c", _ADD_SPENT.format(email=email))
    page = open_page("/", width=390, is_known=False)
    page.get_by_label("E-mail").fill(email)
    page.get_by_label("Password").fill("warm-stones-in-the-hearth")
    page.keyboard.press("Enter")
    page.get_by_label("Message", exact=True).fill("Hello")
    page.get_by_role("button", name="Send").click()
    notice = page.locator("#composer-notice")
    expect(notice).to_contain_text("You may use 1 token a day; 1 is left. The next period begins")
    expect(page.get_by_label("Message", exact=True)).to_have_value("Hello")
    assert accessibility_faults(page) == []
    troubles.clear()  # the console tells of the status 429
    notice.get_by_role("link", name="See your limits").click()
    expect(page.locator(".limit", has_text="Tokens a day")).to_contain_text("1 of 1 left")


_ADD_SPENT = """
from accounts.models import Quota, User
person = User.objects.create_user({email!r}, "warm-stones-in-the-hearth")
Quota.objects.create(user=person, tokens_per_day=1)
"""


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
