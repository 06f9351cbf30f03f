"""The settings of a model in a browser: the estimate follows the keys, errors stand at fields."""

from __future__ import annotations

import re
from typing import Any

import pytest
from playwright.sync_api import Page, expect

from tests.browser.conftest import OpenPage, accessibility_faults

LOADED_MS = 60_000


@pytest.fixture
def open_form(open_page: OpenPage) -> OpenPage:
    """The settings of the demo model."""

    def open_one(width: int = 1280, theme: str = "light") -> Page:
        page = open_page("/admin/hosting/hostedmodel/", width, theme)
        page.get_by_role("link", name="hearth-demo").first.click()
        return page

    return open_one


def test_the_estimate_follows_what_is_typed_and_a_fault_stands_at_its_field(
    open_form: OpenPage,
) -> None:
    page = open_form()
    sentence = page.locator(".memory-panel-sentence")
    expect(sentence).to_contain_text("16 rows of")
    expect(page.get_by_text("Seen", exact=True)).to_be_hidden()
    page.locator("[name=max_rows]").fill("3")
    expect(sentence).to_contain_text("3 rows of")
    expect(page.locator(".field-may_wait")).to_be_hidden()
    page.locator("[name=memory_ceiling_gb]").fill("1")
    page.locator("[name=max_rows]").fill("4096")
    fault = page.locator("#live-error-max_rows")
    expect(fault).to_contain_text("What would help")
    expect(page.locator("[name=max_rows]")).to_have_attribute("aria-invalid", "true")
    expect(page.locator(".field-may_wait")).to_be_visible()
    page.locator("[name=max_rows]").fill("16")
    expect(fault).to_have_count(0)
    page.locator("[name=default_top_p]").fill("7")
    expect(page.locator("#live-error-default_top_p")).to_be_visible()
    page.get_by_role("button", name="Save", exact=True).click()
    expect(page.locator(".field-default_top_p .errorlist")).to_be_visible()


def test_settings_count_at_once_and_a_precision_asks_for_a_reload(
    open_form: OpenPage, chat: Any
) -> None:
    chat.ask("Hello")  # so that the model is loaded
    page = open_form()
    page.locator("[name=max_rows]").fill("12")
    page.get_by_role("button", name="Save and continue editing").click()
    expect(page.get_by_text(re.compile("was changed successfully"))).to_be_visible()
    expect(page.get_by_text("Reload now?")).to_have_count(0)
    page.locator("[name=kv_bits]").select_option("8")
    expect(page.locator("#memory-panel")).to_contain_text("At the next load: KV cache")
    page.get_by_role("button", name="Save and continue editing").click()
    page.get_by_role("link", name="Reload now?").click(timeout=LOADED_MS)
    expect(page.get_by_text("Reload these models?")).to_be_visible()
    page.go_back()
    page.locator("[name=kv_bits]").select_option("")
    page.locator("[name=max_rows]").fill("16")
    page.get_by_role("button", name="Save", exact=True).click()
    expect(page.get_by_text(re.compile("was changed successfully"))).to_be_visible()


@pytest.mark.parametrize(("width", "theme"), [(1280, "light"), (390, "dark")])
def test_the_form_is_accessible_and_fits(open_form: OpenPage, width: int, theme: str) -> None:
    page = open_form(width, theme)
    page.locator("[name=max_rows]").fill("900000")
    expect(page.locator("#live-error-max_rows")).to_be_visible()
    assert accessibility_faults(page, impacts=("serious", "critical")) == []
    assert page.evaluate("document.documentElement.scrollWidth - innerWidth") == 0
