"""A system prompt belongs to the conversation in which it was written, however that is left."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from playwright.sync_api import Page, expect

from tests.browser.chat import Chat

PROMPT = "Talk like a pirate"


def go_back(page: Page) -> None:
    page.evaluate("history.back()")


def begin_another(page: Page) -> None:
    page.keyboard.press("Control+Shift+O")


@pytest.mark.parametrize("leave", [go_back, begin_another])
def test_a_prompt_that_is_being_written_stays_with_its_conversation(
    chat: Chat, leave: Callable[[Page], None]
) -> None:
    chat.ask("Introduce yourself")
    begin_another(chat.page)
    chat.ask("What can Hearth do?")
    own = chat.address
    chat.page.locator("#settings-button").click()
    field = chat.page.get_by_label("System prompt")
    field.click()
    chat.page.keyboard.type(PROMPT)
    with chat.page.expect_response(lambda answer: answer.request.method == "PATCH"):
        leave(chat.page)
    expect(field).to_have_value("")
    expect(field).to_be_hidden()
    chat.page.goto(own)
    expect(field).to_have_value(PROMPT)


def test_a_prompt_that_is_being_written_is_kept_through_a_reload(chat: Chat) -> None:
    chat.ask("Introduce yourself")
    chat.page.locator("#settings-button").click()
    field = chat.page.get_by_label("System prompt")
    field.click()
    chat.page.keyboard.type(PROMPT)
    chat.page.reload()
    expect(field).to_have_value(PROMPT)
