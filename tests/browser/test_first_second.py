"""What is typed and sent before the page is ready is kept, and sent once it is."""

from __future__ import annotations

import pytest
from playwright.sync_api import expect

from tests.browser.chat import Chat
from tests.browser.conftest import OpenChat
from tests.browser.held import Held

EARLY = "**/js/early.js"
MODULES = "**/js/chat/main.js"
MODELS = "**/chat/models"


@pytest.fixture
def tab(open_chat: OpenChat) -> Chat:
    return open_chat()


def type_and_send(chat: Chat, text: str) -> None:
    chat.field.click()
    chat.page.keyboard.type(text)
    chat.page.keyboard.press("Enter")
    expect(chat.field).to_have_value(text)


def test_nobody_can_type_before_words_are_kept(tab: Chat) -> None:
    early, modules = Held(tab.page, EARLY), Held(tab.page, MODULES)
    tab.page.goto("/", wait_until="commit")
    expect(tab.page.get_by_role("link", name="New chat")).to_be_visible()
    expect(tab.field).to_have_count(0)
    early.let_go()
    type_and_send(tab, "Introduce yourself")
    modules.let_go()
    expect(tab.bubbles).to_have_text(["Introduce yourself"])


def test_words_sent_before_the_scripts_are_there(tab: Chat) -> None:
    modules = Held(tab.page, MODULES)
    tab.page.goto("/", wait_until="commit")
    type_and_send(tab, "Introduce yourself")
    modules.let_go()
    expect(tab.bubbles).to_have_text(["Introduce yourself"])
    expect(tab.field).to_have_value("")
    tab.whole_answer()


def test_the_button_works_before_the_scripts_are_there(tab: Chat) -> None:
    modules = Held(tab.page, MODULES)
    tab.page.goto("/", wait_until="commit")
    tab.field.fill("Introduce yourself")
    tab.page.get_by_role("button", name="Send").click()
    modules.let_go()
    expect(tab.bubbles).to_have_text(["Introduce yourself"])


def test_words_typed_but_not_sent_stay(tab: Chat) -> None:
    modules = Held(tab.page, MODULES)
    tab.page.goto("/", wait_until="commit")
    tab.field.fill("Not yet")
    modules.let_go()
    expect(tab.page.locator("#model-button .model-name")).to_be_visible()
    expect(tab.field).to_have_value("Not yet")
    expect(tab.bubbles).to_have_count(0)


def test_what_was_searched_for_before_the_scripts_are_there_is_found(tab: Chat) -> None:
    modules = Held(tab.page, MODULES)
    tab.page.goto("/", wait_until="commit")
    tab.page.get_by_label("Search conversations").fill("no such words anywhere")
    modules.let_go()
    expect(tab.page.get_by_text("No conversation matches.")).to_be_visible()


def test_words_sent_before_the_models_are_known_go_to_the_chosen_one(tab: Chat) -> None:
    models = Held(tab.page, MODELS)
    tab.page.goto("/")
    type_and_send(tab, "Introduce yourself")
    with tab.page.expect_request("**/chat/messages") as sent:
        models.let_go()
    assert sent.value.post_data_json["model"]
    expect(tab.bubbles).to_have_text(["Introduce yourself"])


def test_words_sent_before_the_conversation_is_there_follow_its_end(tab: Chat) -> None:
    tab.ask("Introduce yourself")
    conversation = Held(tab.page, f"**/chat/conversations/{tab.conversation}")
    tab.page.reload()
    type_and_send(tab, "What can Hearth do?")
    conversation.let_go()
    expect(tab.bubbles).to_have_text(["Introduce yourself", "What can Hearth do?"])
