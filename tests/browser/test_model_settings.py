"""The settings of a model in a browser: the estimate follows the keys, errors stand at fields."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser, Page, expect

from tests.browser.conftest import watch
from tests.stack import Stack

STANDARDS = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa"]
LOADED_MS = 60_000
OpenForm = Callable[..., Page]


@pytest.fixture
def open_form(
    browser: Browser, stack: Stack, signed_in: Any, troubles: list[str]
) -> Iterator[OpenForm]:
    """The settings of the demo model."""
    contexts = []

    def open_one(width: int = 1280, theme: str = "light") -> Page:
        context = browser.new_context(
            base_url=stack.base_url,
            storage_state=signed_in,
            viewport={"width": width, "height": 900},
            color_scheme=theme,  # type: ignore[arg-type]
        )
        contexts.append(context)
        page = context.new_page()
        watch(page, stack.base_url, troubles)
        page.goto("/admin/hosting/hostedmodel/")
        page.get_by_role("link", name="hearth-demo").first.click()
        return page

    yield open_one
    for context in contexts:
        context.close()
    assert not troubles


def test_the_estimate_follows_what_is_typed_and_a_fault_stands_at_its_field(
    open_form: OpenForm,
) -> None:
    page = open_form()
    sentence = page.locator(".memory-panel-sentence")
    expect(sentence).to_contain_text("16 rows of")
    page.locator("[name=max_rows]").fill("3")
    expect(sentence).to_contain_text("3 rows of")
    expect(page.locator(".field-may_wait")).to_be_hidden()
    page.locator("[name=max_rows]").fill("900000")
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
    open_form: OpenForm, chat: Any
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
def test_the_form_is_accessible_and_fits(open_form: OpenForm, width: int, theme: str) -> None:
    page = open_form(width, theme)
    page.locator("[name=max_rows]").fill("900000")
    expect(page.locator("#live-error-max_rows")).to_be_visible()
    found = Axe().run(page, options={"runOnly": STANDARDS}).response
    serious = [one for one in found["violations"] if one["impact"] in ("serious", "critical")]
    assert [(one["id"], one["nodes"][0]["html"]) for one in serious] == []
    assert page.evaluate("document.documentElement.scrollWidth - innerWidth") == 0
