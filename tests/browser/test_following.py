"""An answer is seen whole, by every tab, whatever is reloaded or killed while it is written."""

from __future__ import annotations

import pytest
from playwright.sync_api import expect

from tests.browser.chat import LONG_QUESTION, Chat
from tests.browser.conftest import Hold, OpenChat
from tests.browser.held import Answered, Held
from tests.stack import Stack

RESTART_MS = 60_000
RECONNECT_MS = 20_000  # the longest pause of a page that has found no server several times


def test_a_reload_in_the_middle_shows_the_rest(
    chat: Chat, open_chat: OpenChat, hold_engine: Hold
) -> None:
    with hold_engine(chat.begin_long_answer):
        chat.page.reload()
        chat.wait_for_words(40)
        assert chat.is_running()
    assert chat.whole_answer() == open_chat(chat.address).whole_answer()


def test_a_second_tab_sees_the_same_live(
    chat: Chat, open_chat: OpenChat, hold_engine: Hold
) -> None:
    other = open_chat()
    with hold_engine(chat.begin_long_answer):
        other.row_of(chat.conversation).click()
        other.wait_for_words(40)
        assert other.is_running()
    assert other.whole_answer() == chat.whole_answer()


def test_a_page_without_a_network_says_so_at_once(chat: Chat) -> None:
    notice = chat.page.locator("#offline")
    expect(notice).to_be_hidden()
    chat.page.context.set_offline(True)
    expect(notice).to_be_visible()
    chat.page.context.set_offline(False)
    expect(notice).to_be_hidden()
    chat.ask("Introduce yourself")


def test_a_tab_too_many_says_what_to_do_and_goes_on_by_itself(
    chat: Chat, open_chat: OpenChat
) -> None:
    url = chat.page.url.replace("http", "ws") + "ws/chat"
    chat.page.evaluate(_FILL, url)
    late = open_chat()
    notice = late.page.locator("#offline")
    expect(notice).to_have_text("Too many tabs are open: close another, and this one goes on")
    late.say("Introduce yourself")
    chat.page.evaluate("window.others.forEach(socket => socket.close())")
    expect(notice).to_be_hidden(timeout=RECONNECT_MS)
    assert late.whole_answer()


# As many as there may be, in each of the web processes
_FILL = """async url => {
    window.others = [];
    const isRefused = socket => new Promise(resolve => {
        socket.onclose = () => resolve(true);
        socket.onopen = () => setTimeout(() => resolve(false), 200);
    });
    for (let refused = 0; refused < 12;) {
        const some = Array.from({ length: 8 }, () => new WebSocket(url));
        window.others.push(...some);
        refused += (await Promise.all(some.map(isRefused))).filter(Boolean).length;
    }
}"""


def test_a_question_of_another_tab_appears(chat: Chat, open_chat: OpenChat) -> None:
    chat.ask("Introduce yourself")
    other = open_chat(chat.address)
    chat.say("What is 12 + 30?")
    expect(other.bubbles.last).to_have_text("What is 12 + 30?")
    assert other.whole_answer() == chat.whole_answer()


def test_a_conversation_deleted_in_another_tab_is_said_to_be_gone(
    chat: Chat, open_chat: OpenChat, troubles: list[str]
) -> None:
    chat.ask("Introduce yourself")
    other = open_chat()
    other.choose_from_row_menu(0, "Delete")
    other.page.get_by_role("button", name="Close", exact=True).click()
    expect(chat.page.get_by_text("This conversation no longer exists.")).to_be_visible()
    expect(chat.bubbles).to_have_count(0)
    troubles.clear()  # the console tells of the status 404


def test_an_answer_from_before_a_choice_does_not_undo_it(chat: Chat, open_chat: OpenChat) -> None:
    chat.ask("Introduce yourself")
    chat.last_answer.get_by_role("button", name="Regenerate").click()
    chat.whole_answer()
    other = open_chat(chat.address)
    count = other.last_answer.locator(".version-count")
    expect(count).to_have_text("2/2")
    address = f"**/chat/conversations/{chat.conversation}"
    early = Answered(other.page, address)
    with other.page.expect_request(address):
        chat.change_conversation({"title": "Introductions"})
    with other.page.expect_response(address):
        other.last_answer.get_by_role("button", name="Previous version").click()
    with other.page.expect_request(address):
        early.show_first()
    expect(count).to_have_text("1/2")


def test_leaving_and_coming_back_finds_the_answer(chat: Chat) -> None:
    chat.say(LONG_QUESTION)
    chat.wait_for_words(40)
    address = chat.address
    chat.page.get_by_role("link", name="New chat").first.click()
    expect(chat.answers).to_have_count(0)
    chat.page.go_back()
    chat.wait_for_words(60)
    assert chat.address == address
    whole = chat.whole_answer()
    chat.page.reload()
    expect(chat.last_answer).to_have_attribute("aria-busy", "false")
    chat.expect_words(whole)


def test_a_conversation_that_loads_after_it_was_left_costs_no_word(chat: Chat) -> None:
    chat.say(LONG_QUESTION)
    chat.wait_for_words(40)
    address = "**/chat/conversations/*"
    loading = Held(chat.page, address)
    with chat.page.expect_request(address):
        chat.page.reload()
    chat.page.get_by_role("link", name="New chat").first.click()
    with chat.page.expect_response(address):
        loading.let_go()
    chat.page.go_back()
    whole = chat.whole_answer()
    chat.page.reload()
    chat.expect_words(whole)


def test_what_waits_while_redis_loses_its_memory_is_answered(
    chat: Chat, stack: Stack, hold_engine: Hold, troubles: list[str]
) -> None:
    with hold_engine():
        chat.say("What is 12 + 30?")
        expect(chat.last_answer).to_have_attribute("aria-busy", "true")
        stack.lose_redis()
    assert chat.whole_answer()
    troubles.clear()  # the browser itself complains of connections that were cut


@pytest.mark.parametrize("victim", ["web", "engine", "redis and its memory"])
def test_a_killed_process_costs_no_word(
    chat: Chat, open_chat: OpenChat, stack: Stack, troubles: list[str], victim: str
) -> None:
    chat.say(LONG_QUESTION)
    chat.wait_for_words(80)
    if "memory" in victim:
        stack.lose_redis()
    else:
        stack.wait_restarted(victim, stack.kill(victim))
    expect(chat.last_answer).to_have_attribute("aria-busy", "false", timeout=RESTART_MS)
    whole = chat.last_prose.inner_text()
    assert whole.count("The chat page") == 1
    assert open_chat(chat.address).whole_answer() == whole
    troubles.clear()  # the browser itself complains of connections that were cut
