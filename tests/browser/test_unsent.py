"""Words that were typed and are not sent stay with their person and their conversation."""

from __future__ import annotations

import json
import time
import uuid

from playwright.sync_api import Page, Route, expect

from tests.browser.chat import Chat
from tests.browser.held import Held
from tests.stack import Stack

MESSAGES = "**/chat/messages"
LONG = "A long text that took ten minutes"
AWAY = json.dumps({"error": {"message": "The database is away.", "code": "unavailable"}})
ADD_BOB = "from accounts.models import User; User.objects.create_user('{}', 'bobs-stones')"


def refuse(route: Route) -> None:
    route.fulfill(status=503, content_type="application/json", body=AWAY)


def lose_the_answer(route: Route) -> None:
    route.fetch()
    route.abort()


def sign_in(page: Page, email: str, password: str) -> None:
    """In the same tab, after whoever was there before."""
    page.context.clear_cookies()
    page.goto("/")
    page.locator("input[name=username]").fill(email)
    page.locator("input[name=password]").fill(password)
    page.locator("input[name=password]").press("Enter")
    expect(page.locator("#model-button .model-name")).to_be_visible()


def test_the_next_person_in_a_tab_does_not_see_what_was_typed(chat: Chat, stack: Stack) -> None:
    email = f"bob-{uuid.uuid4().hex[:8]}@example.org"
    stack.manage("shell", "-c", ADD_BOB.format(email))
    chat.field.fill("My salary is")
    sign_in(chat.page, email, "bobs-stones")
    expect(chat.field).to_have_value("")
    sign_in(chat.page, stack.admin_email, stack.admin_password)
    expect(chat.field).to_have_value("My salary is")


def test_what_could_not_be_sent_stays_before_what_was_typed_since(
    chat: Chat, troubles: list[str]
) -> None:
    sending = Held(chat.page, MESSAGES)
    chat.say(LONG)
    chat.field.fill("and")
    sending.let_go(refuse)
    expect(chat.page.locator("#composer-notice")).to_have_text("The database is away.")
    expect(chat.field).to_have_value(f"{LONG}\n\nand")
    troubles.clear()


def test_what_has_arrived_without_an_answer_is_sent_again_but_stored_once(
    chat: Chat, troubles: list[str]
) -> None:
    chat.page.route(MESSAGES, lose_the_answer, times=1)
    chat.ask("Introduce yourself")
    chat.page.reload()
    expect(chat.bubbles).to_have_text(["Introduce yourself"])
    expect(chat.page.locator(".versions:visible")).to_have_count(0)
    troubles.clear()


def test_what_has_arrived_but_was_given_back_can_be_sent_again(
    chat: Chat, stack: Stack, troubles: list[str]
) -> None:
    num_conversations = stack.num_rows("hosting_conversation")
    chat.page.route(MESSAGES, lose_the_answer)
    chat.say("Introduce yourself")
    expect(chat.page.locator("#composer-notice")).to_contain_text("cannot be reached")
    expect(chat.field).to_have_value("Introduce yourself")
    chat.page.unroute(MESSAGES)
    chat.field.press("Enter")
    chat.whole_answer()
    chat.page.reload()
    expect(chat.bubbles).to_have_text(["Introduce yourself"])
    assert stack.num_rows("hosting_conversation") == num_conversations + 1
    troubles.clear()


def test_what_was_given_back_goes_from_the_field_once_it_is_seen_to_have_arrived(
    chat: Chat, troubles: list[str]
) -> None:
    chat.ask("Introduce yourself")
    chat.page.route(MESSAGES, lose_the_answer)
    chat.say("Once more")
    expect(chat.answers).to_have_count(2)
    chat.whole_answer()
    expect(chat.field).to_have_value("")
    expect(chat.page.locator("#composer-notice")).to_be_hidden()
    expect(chat.bubbles).to_have_text(["Introduce yourself", "Once more"])
    troubles.clear()


def test_what_could_not_be_sent_is_back_in_the_conversation_it_was_for(
    chat: Chat, troubles: list[str]
) -> None:
    chat.ask("Introduce yourself")
    first = chat.conversation
    sending = Held(chat.page, MESSAGES)
    chat.say(LONG)
    chat.page.get_by_role("link", name="New chat").first.click()
    expect(chat.bubbles).to_have_count(0)
    sending.let_go(refuse)
    toast = chat.page.locator(".toast")
    expect(toast).to_contain_text("A message was not sent: The database is away.")
    expect(chat.field).to_have_value("")
    chat.page.reload()
    chat.row_of(first).click()
    expect(chat.field).to_have_value(LONG)
    troubles.clear()


def test_a_conversation_that_could_not_be_loaded_once_is_loaded_again(
    chat: Chat, troubles: list[str]
) -> None:
    chat.ask("Introduce yourself")
    chat.page.route(f"**/chat/conversations/{chat.conversation}", refuse)
    chat.page.reload()
    chat.field.fill("What can Hearth do?")
    chat.field.press("Enter")
    notice = chat.page.locator("#composer-notice")
    expect(notice).to_contain_text("The database is away.")
    chat.page.unroute_all()
    expect(chat.bubbles).to_have_text(["Introduce yourself", "What can Hearth do?"], timeout=15_000)
    expect(notice).to_be_hidden()
    troubles.clear()


def test_a_pasted_megabyte_does_not_stop_the_page(chat: Chat) -> None:
    chat.page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    chat.page.evaluate("navigator.clipboard.writeText('abcdefghijklm\\n'.repeat(75_000))")
    chat.field.focus()
    pasted_at = time.monotonic()
    chat.page.keyboard.press("Control+V")
    chat.page.wait_for_function("document.getElementById('message').value.length > 1_000_000")
    assert time.monotonic() - pasted_at < 20
    expect(chat.page.get_by_role("button", name="Send")).to_be_enabled()


def test_what_a_tab_cannot_store_can_be_sent(chat: Chat) -> None:
    chat.field.fill("stored")
    chat.page.evaluate("sessionStorage.setItem('other', 'x'.repeat(5 * 1024 * 1024 - 1024))")
    chat.field.fill("")
    too_much = "not stored " * 100
    chat.field.fill(too_much)
    chat.field.press("Enter")
    expect(chat.bubbles.last).to_have_text(too_much.strip())
    chat.page.reload()
    expect(chat.field).to_have_value("")
