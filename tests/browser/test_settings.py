"""A number that no model takes is told when it would count, also behind a closed panel."""

from __future__ import annotations

import pytest
from playwright.sync_api import expect

from tests.browser.chat import Chat

TOLD = "Temperature: Between 0 and 2. The model's own value is taken."


@pytest.fixture
def misset(chat: Chat) -> Chat:
    """One question is answered; then a temperature is written that no model takes."""
    chat.ask("Introduce yourself")
    chat.page.locator("#settings-button").click()
    chat.page.get_by_label("Temperature").fill("7")
    chat.page.keyboard.press("Escape")
    return chat


def test_who_sends_with_it_is_told(misset: Chat) -> None:
    misset.say("What can Hearth do?")
    expect(misset.page.locator(".toast")).to_contain_text(TOLD)


def test_so_is_who_lets_an_answer_be_made_anew(misset: Chat) -> None:
    misset.last_answer.hover()
    misset.last_answer.get_by_role("button", name="Regenerate").click()
    expect(misset.page.locator(".toast")).to_contain_text(TOLD)
