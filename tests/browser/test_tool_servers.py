"""The administrator adds a tool server: where it is, what it has, what of that is allowed."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from playwright.sync_api import Page, expect

from tests.browser.conftest import OpenPage, accessibility_faults
from tests.stack import Stack
from tests.tool_server import RunningServer, running_tool_server

LOOKS = [(390, "dark"), (1280, "light")]
NONE = "from hosting.models import ToolServer; ToolServer.objects.all().delete()"


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningServer]:
    with running_tool_server(tmp_path_factory.mktemp("tools")) as one:
        yield one


def check(page: Page) -> None:
    assert accessibility_faults(page) == []
    assert page.evaluate("document.documentElement.scrollWidth - innerWidth") <= 0


@pytest.mark.parametrize(("width", "theme"), LOOKS)
def test_a_server_is_added_listed_and_a_tool_allowed(
    open_page: OpenPage, stack: Stack, running: RunningServer, width: int, theme: str
) -> None:
    stack.manage("shell", "-c", NONE)
    page = open_page("/admin/hosting/toolserver/add/", width, theme)
    check(page)
    page.get_by_label("Name").fill("Weather")
    page.get_by_label("Address").fill(running.url)
    page.get_by_label("New token").fill("a-secret-token")
    page.get_by_role("button", name="Save", exact=True).click()
    alert = page.get_by_role("alert")
    expect(alert).to_contain_text("Outside of a private network the address begins with https://")
    page.get_by_label("In a private network").check()
    page.get_by_label("New token").fill("a-secret-token")
    page.get_by_role("button", name="Save", exact=True).click()
    expect(page.get_by_text("Weather is added. Now list its tools")).to_be_visible()
    assert "a-secret-token" not in page.content()
    check(page)
    page.get_by_role("link", name="List its tools").first.click()
    page.get_by_role("button", name="List tools").click()
    expect(page.get_by_text("Weather has 6 tools.")).to_be_visible()
    boxes = page.get_by_role("checkbox", name="get_weather: Get the weather in a city")
    expect(boxes).not_to_be_checked()
    check(page)
    boxes.check()
    page.get_by_role("button", name="Save", exact=True).click()
    expect(page.locator("#result_list")).to_contain_text("1 of 6")
    check(page)
