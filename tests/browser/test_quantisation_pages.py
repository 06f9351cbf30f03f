"""Quantised copies in a browser: asked for by keyboard, seen, cancelled; both themes and sizes."""

from __future__ import annotations

import os
import shutil
import uuid
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from tests.browser.conftest import OpenPage, accessibility_faults
from tests.stack import Stack
from tests.tiny_models import tiny_model_path

_ASK = """
from engine.sizing.quantising import Way
from hosting.actions.quantisations import ask_for_copy
from hosting.models import HostedModel
ask_for_copy(HostedModel.objects.get(name="unread"), name={name!r}, way=Way(), by=None)
"""
_CANCEL = """
from hosting.actions.quantisations import cancel_copy
from hosting.models import Quantisation
cancel_copy(Quantisation.objects.get(name={name!r}), by=None)
"""
LOOKS = [(390, "dark"), (1280, "light")]


@pytest.fixture
def model(stack: Stack, tmp_path: Path) -> str:
    """The path of one whose copies are never done: a part of it is never written."""
    folder = shutil.copytree(tiny_model_path("tiny-qwen3"), tmp_path / "unread")
    stack.manage("add_model", str(folder), "--name", "unread")
    os.mkfifo(folder / "generation_config.json")
    ((number,),) = stack.rows("SELECT id FROM hosting_hostedmodel WHERE name = 'unread'")
    return f"/admin/hosting/hostedmodel/{number}/change/"


def assert_fits_and_is_accessible(page: Page) -> None:
    assert page.evaluate("document.documentElement.scrollWidth - innerWidth") <= 0
    assert accessibility_faults(page) == []


@pytest.mark.parametrize(("width", "theme"), LOOKS)
def test_a_copy_is_asked_for_by_keyboard_and_cancelled(
    open_page: OpenPage, model: str, width: int, theme: str
) -> None:
    copy = f"small-{uuid.uuid4().hex[:8]}"
    page = open_page(model, width, theme)
    if width < 600:
        page.get_by_text("more_horiz").first.click()
    page.locator("a[href$='/quantise/']:visible").focus()
    page.keyboard.press("Enter")
    name = page.get_by_label("Name of the copy")
    expect(name).to_be_focused()
    assert_fits_and_is_accessible(page)
    page.keyboard.type("unread")
    page.keyboard.press("Enter")
    told = page.get_by_role("alert")
    expect(told).to_contain_text("There is a model of this name: unread.")
    assert_fits_and_is_accessible(page)
    name.fill(copy)
    page.keyboard.press("Tab")
    page.keyboard.type("8 bits, groups of 128")
    page.keyboard.press("Enter")
    page.get_by_role("button", name="Quantise").click()
    expect(page.get_by_text(f"{copy} is asked for.")).to_be_visible()
    row = page.get_by_role("row").filter(has_text=copy)
    expect(row).to_contain_text("8 bits, groups of 128")
    assert_fits_and_is_accessible(page)
    row.get_by_role("checkbox").check()
    page.locator("select[name=action]").select_option(label="Cancel")
    page.get_by_role("button", name="Run").click()
    expect(page.get_by_text("Cancel these copies?")).to_be_visible()
    page.get_by_role("button", name="Cancel copies").click()
    expect(page.get_by_text("Cancelled: 1.")).to_be_visible()
    expect(row).to_contain_text("cancelled")


def test_the_list_shows_by_itself_how_far_copies_are(
    open_page: OpenPage, stack: Stack, model: str
) -> None:
    copy = f"small-{uuid.uuid4().hex[:8]}"
    stack.manage("shell", "-c", _ASK.format(name=copy))
    page = open_page("/admin/hosting/quantisation/")
    row = page.get_by_role("row").filter(has_text=copy)
    row.get_by_role("checkbox").check()
    expect(row).to_contain_text("running 0%")
    stack.manage("shell", "-c", _CANCEL.format(name=copy))
    expect(row).to_contain_text("cancelled")
    expect(row.get_by_role("checkbox")).to_be_checked()
