"""A system prompt belongs to the conversation in which it was written, however that is left."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from playwright.sync_api import Page, expect

from tests.browser.chat import Chat

PROMPT = "Talk like a pirate"
IS_STORED = """async ([id, prompt]) => {
    const answer = await fetch(`/chat/conversations/${id}`);
    return (await answer.json()).conversation.system_prompt === prompt;
}"""
NOTE_REQUESTS = """() => {
    const send = window.fetch;
    window.fetch = (path, options) => {
        sessionStorage.setItem(options.method, String(options.keepalive));
        return send(path, options);
    };
}"""


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
    chat.page.evaluate(NOTE_REQUESTS)
    chat.page.reload()
    chat.page.wait_for_function(IS_STORED, arg=[chat.conversation, PROMPT])
    chat.page.reload()
    expect(field).to_have_value(PROMPT)
    # Browsers may drop what does not ask to outlive its page
    assert chat.page.evaluate("sessionStorage.getItem('PATCH')") == "true"


def test_a_prompt_may_be_longer_than_what_browsers_send_behind_a_page(chat: Chat) -> None:
    chat.ask("Introduce yourself")
    chat.change_conversation({"system_prompt": PROMPT * 5000})
    chat.page.reload()
    expect(chat.page.get_by_label("System prompt")).to_have_value(PROMPT * 5000)


def test_a_prompt_for_a_new_chat_waits_for_its_first_message(chat: Chat) -> None:
    chat.ask("Introduce yourself")
    begin_another(chat.page)
    chat.page.locator("#settings-button").click()
    field = chat.page.get_by_label("System prompt")
    field.click()
    chat.page.keyboard.type(PROMPT)
    chat.page.reload()
    expect(field).to_have_value(PROMPT)
    chat.rows.first.get_by_role("link").click()
    expect(field).to_have_value("")
    begin_another(chat.page)
    expect(field).to_have_value(PROMPT)
    chat.ask("What can Hearth do?")
    chat.page.reload()
    expect(field).to_have_value(PROMPT)  # the conversation's own by now
    begin_another(chat.page)
    expect(field).to_have_value("")


def test_a_prompt_for_a_new_chat_outlives_a_first_message_that_was_refused(
    chat: Chat, troubles: list[str]
) -> None:
    chat.page.locator("#settings-button").click()
    field = chat.page.get_by_label("System prompt")
    field.fill(PROMPT)
    chat.page.keyboard.press("Escape")
    chat.page.route("**/chat/messages", lambda route: route.fulfill(status=503, json={}))
    chat.field.fill("Introduce yourself")
    chat.field.press("Enter")
    expect(chat.page.locator("#composer-notice")).to_be_visible()
    chat.page.reload()
    expect(field).to_have_value(PROMPT)
    troubles.clear()  # the console tells of the status 503
