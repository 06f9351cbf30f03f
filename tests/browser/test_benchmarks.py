"""Benchmarks as an administrator sees them: started, watched, compared, over time."""

from __future__ import annotations

import re
import uuid

import pytest
from playwright.sync_api import Page, expect

from tests.browser.conftest import OpenPage, accessibility_faults

LIST = "/admin/hosting/benchmark/"
RUN_MS = 120_000
LOOKS = [(1280, "light"), (390, "dark")]
QUESTIONS = b"""{"question": "What is 12 + 30?", "answer": "42"}
{"question": "Which is red?", "choices": ["snow", "blood"], "answer": "blood"}
"""


def start(page: Page, note: str) -> None:
    page.goto(f"{LIST}add/")
    page.get_by_label("Speed: prompt lengths").fill("16, 5000")
    page.get_by_label("Speed: answers at once").fill("2")
    page.locator("input[type=file]").set_input_files(
        {"name": "few.jsonl", "mimeType": "application/jsonl", "buffer": QUESTIONS}
    )
    page.get_by_label("Note").fill(note)
    page.get_by_role("button", name="Start").click()


@pytest.mark.parametrize(("width", "theme"), LOOKS)
def test_runs_are_started_watched_and_compared(open_page: OpenPage, width: int, theme: str) -> None:
    page = open_page(f"{LIST}add/", width, theme)
    check(page)
    page.get_by_label("Speed: prompt lengths").fill("many")
    page.get_by_role("button", name="Start").click()
    expect(page.get_by_role("alert")).to_contain_text("Whole numbers with commas between them")
    name = uuid.uuid4().hex
    notes = [f"{name} first", f"{name} second"]
    for note in notes:
        start(page, note)
        expect(page.get_by_text("Right answers", exact=True)).to_be_visible(timeout=RUN_MS)
        expect(page.get_by_role("progressbar")).to_have_count(0, timeout=RUN_MS)
        expect(page.get_by_text("Done", exact=True)).to_be_visible()
    expect(page.get_by_text("The model takes 4,096 tokens, with the answer.")).to_be_visible()
    expect(page.locator(".benchmark-answers li")).to_have_count(2)
    check(page)

    page.get_by_role("link", name="Over time", exact=True).click()
    expect(page.locator('[data-plot="writing"] .plot-summary')).to_contain_text("2 at once")
    expect(page.locator('[data-plot="writing"] canvas')).to_be_visible()
    check(page)

    page.goto(f"{LIST}?q={name}")
    for note in notes:
        page.get_by_role("row", name=re.compile(note)).get_by_role("checkbox").check()
    page.locator("select[name=action]").select_option(label="Compare")
    page.get_by_role("button", name="Run").click()
    expect(page.get_by_text("no clear difference: right alone here 0, there 0")).to_be_visible()
    check(page)


def check(page: Page) -> None:
    assert accessibility_faults(page) == []
    assert page.evaluate("document.documentElement.scrollWidth - innerWidth") == 0
