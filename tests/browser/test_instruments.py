"""The administration's instruments as they are seen: at two widths, light and dark."""

from __future__ import annotations

import re
from typing import Any

import pytest
from playwright.sync_api import expect

from tests.browser.conftest import OpenPage, accessibility_faults

PAGES = ("live", "memory", "cache")
LOOKS = [(1280, "light"), (390, "dark")]
RECORDED_MS = 20_000  # two slots of the history, and a busy machine


@pytest.mark.parametrize(("width", "theme"), LOOKS)
def test_every_page_is_accessible_and_fits(open_page: OpenPage, width: int, theme: str) -> None:
    for name in PAGES:
        page = open_page(f"/admin/{name}/", width, theme)
        expect(page.locator("#feed-state")).to_have_text("Live")
        page.locator(".plot-details summary:visible").first.click(timeout=RECORDED_MS)
        assert accessibility_faults(page) == []
        assert page.evaluate("document.documentElement.scrollWidth - innerWidth") == 0


def test_plots_grow_by_themselves_and_say_what_they_show(open_page: OpenPage) -> None:
    page = open_page("/admin/memory/?window=5m")
    plot = page.locator('[data-plot="memory"]')
    expect(plot.locator(".plot-summary")).to_contain_text("Weights", timeout=RECORDED_MS)
    expect(plot.locator(".plot-summary")).to_have_text(re.compile(r"Weights .+, highest \d"))
    expect(plot.locator("canvas")).to_be_visible()
    last = "document.querySelector('[data-plot=memory]').dataset.until"
    before = page.evaluate(last)
    page.wait_for_function(f"before => {last} > before", arg=before, timeout=RECORDED_MS)


def test_the_choice_of_time_stays_after_a_reload(open_page: OpenPage) -> None:
    page = open_page("/admin/memory/")
    page.get_by_role("radio", name="7 days").check()
    page.wait_for_url("**/?window=7d*")
    page.reload()
    expect(page.get_by_role("radio", name="7 days")).to_be_checked()


def test_without_a_websocket_the_page_is_polled(open_page: OpenPage) -> None:
    page = open_page("/admin/")
    page.add_init_script(
        "window.WebSocket = class extends EventTarget {"
        " constructor() { super(); this.readyState = 3; }"
        "}; window.WebSocket.OPEN = 1;"
    )
    page.goto("/admin/live/")
    expect(page.locator("#feed-state")).to_have_text("Every 2 seconds")
    expect(page.locator("#live-tiles")).to_contain_text("Running")


def test_a_socket_that_leads_nowhere_is_not_waited_for(open_page: OpenPage) -> None:
    page = open_page("/admin/")
    page.route_web_socket("**/ws/admin", lambda socket: None)
    page.goto("/admin/live/")
    expect(page.locator("#feed-state")).to_have_text("Every 2 seconds", timeout=RECORDED_MS)
    expect(page.locator("#live-tiles")).to_contain_text("Running")


def test_clearing_a_tier_asks_first(open_page: OpenPage, chat: Any) -> None:
    chat.ask("Introduce yourself at length, and say what a hearth is.")
    page = open_page("/admin/cache/")
    page.get_by_role("button", name="Clear the memory tier", exact=True).click(timeout=RECORDED_MS)
    page.get_by_role("button", name="Clear", exact=True).click()
    expect(page.get_by_text("Clear: asked for.")).to_be_visible()
