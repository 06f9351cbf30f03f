"""The tools page: the key goes into the texts and nowhere else, and a phone can read it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import pytest
from playwright.sync_api import Browser, Page, expect

from tests.browser.conftest import OpenPage, accessibility_faults, watch
from tests.stack import Stack

KEY = "sk-hearth-Example"


@pytest.fixture
def tools(browser: Browser, stack: Stack, signed_in: Any, troubles: list[str]) -> Iterator[Page]:
    context = browser.new_context(
        base_url=stack.base_url, storage_state=signed_in, viewport={"width": 1280, "height": 800}
    )
    context.grant_permissions(["clipboard-read", "clipboard-write"])
    page = context.new_page()
    watch(page, stack.base_url, troubles)
    page.goto("/tools/")
    yield page
    context.close()
    assert not troubles


def test_a_pasted_key_is_in_every_text_and_in_what_is_copied(tools: Page, stack: Stack) -> None:
    asked: list[str] = []
    tools.on("request", lambda request: asked.append(f"{request.url} {request.post_data}"))
    tools.get_by_label("Your API key").fill(KEY)
    expect(tools.locator("#curl-1")).to_contain_text(f"Bearer {KEY}")
    tools.get_by_role("button", name="Copy for Claude Code: In the terminal").click()
    tools.get_by_text("Copied", exact=True).wait_for()  # in every frame: it is not there for long
    copied = tools.evaluate("navigator.clipboard.readText()")
    assert f"export ANTHROPIC_BASE_URL={stack.base_url}\n" in copied
    assert f"export ANTHROPIC_AUTH_TOKEN={KEY}\n" in copied
    tools.get_by_label("Your API key").fill("")
    expect(tools.locator("#curl-1")).to_contain_text("Bearer YOUR_KEY")
    assert not [one for one in asked if KEY in one]


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_a_phone_never_scrolls_the_page_sideways(tools: Page, scheme: Any) -> None:
    tools.emulate_media(color_scheme=scheme)
    for width in (390, 1280):
        tools.set_viewport_size({"width": width, "height": 800})
        size = tools.evaluate("[document.documentElement.scrollWidth, innerWidth]")
        assert size[0] <= size[1]


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_the_description_of_the_api_is_accessible(open_page: OpenPage, theme: str) -> None:
    page = open_page("/v1/docs", theme=theme)
    page.locator(".opblock-summary-control").filter(has_text="/v1/chat/completions").click()
    expect(page.locator(".body-param__example")).to_be_visible()
    assert accessibility_faults(page) == []
    paper = page.evaluate("getComputedStyle(document.documentElement).backgroundColor")
    assert (sum(map(int, re.findall("[0-9]+", paper)[:3])) < 300) == (theme == "dark")
    page.get_by_role("link", name="Back to the chat").click()
    expect(page.locator("#composer")).to_be_visible()


def test_the_page_is_found_from_the_chat(tools: Page) -> None:
    tools.goto("/")
    tools.locator("#account-button").click()
    tools.get_by_role("menuitem", name="Use it from your tools").click()
    expect(tools.get_by_role("heading", name="Use it from your tools")).to_be_visible()
