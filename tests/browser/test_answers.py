"""Asking: answers stream in, stop, come in versions, and say what they cost."""

from __future__ import annotations

import re

from playwright.sync_api import expect

from tests.browser.chat import ANSWER_MS, Chat
from tests.browser.conftest import Hold


def test_a_first_answer_streams_into_a_new_conversation(chat: Chat) -> None:
    expect(chat.page.get_by_role("heading", name="Good to see you")).to_be_visible()
    chat.page.get_by_role("button", name="What is 12 + 30?").click()
    assert "42" in chat.whole_answer()
    assert re.search(r"/c/[0-9a-f-]{36}$", chat.address)
    expect(chat.rows.first).to_be_visible()


def test_the_line_under_an_answer_tells_its_numbers(chat: Chat) -> None:
    chat.ask("Introduce yourself")
    expect(chat.last_answer.locator(".answer-stats")).to_have_text(
        re.compile(r"^TTFT [\d.]+ s · [\d.]+ tok/s · [\d,]+ in( \([\d,]+ cached\))? · [\d,]+ out$")
    )


def test_an_answer_grows_while_it_is_written(chat: Chat, hold_engine: Hold) -> None:
    with hold_engine(chat.begin_long_answer):
        assert chat.is_running()
        before = chat.last_prose.inner_text()
    assert len(chat.whole_answer()) >= len(before) + 100


def test_a_long_question_does_not_leave_its_answer_out_of_sight(chat: Chat) -> None:
    chat.ask("Introduce yourself")
    chat.ask("\n".join(["Name the days of the week."] * 15))
    expect(chat.page.get_by_role("button", name="To the latest message")).to_be_hidden()
    expect(chat.last_answer.locator(".answer-stats")).to_be_in_viewport()


def test_an_answer_that_reached_its_limit_says_so(chat: Chat) -> None:
    chat.page.locator("#settings-button").click()
    chat.page.get_by_label("Longest answer, in tokens").fill("5")
    chat.page.keyboard.press("Escape")
    chat.ask("Introduce yourself")
    expect(chat.last_answer.get_by_text("The answer reached its token limit.")).to_be_visible()


def test_stop_keeps_what_was_written(chat: Chat, hold_engine: Hold) -> None:
    with hold_engine(chat.begin_long_answer):
        chat.field.press("Escape")
    expect(chat.last_answer.get_by_text("This answer was stopped.")).to_be_visible(
        timeout=ANSWER_MS
    )
    kept = chat.last_prose.inner_text()
    assert len(kept) >= 40
    expect(chat.page.get_by_role("button", name="Send", exact=True)).to_be_visible()
    _wait_until_stored(chat)
    chat.page.reload()
    chat.expect_words(kept)


def test_who_stops_an_answer_by_its_button_can_write_on(chat: Chat, hold_engine: Hold) -> None:
    with hold_engine(chat.begin_long_answer):
        chat.page.get_by_role("button", name="Stop", exact=True).press("Enter")
    expect(chat.last_answer.get_by_text("This answer was stopped.")).to_be_visible(
        timeout=ANSWER_MS
    )
    expect(chat.field).to_be_focused()


def test_regenerate_keeps_the_versions(chat: Chat) -> None:
    first = chat.ask("Introduce yourself")
    chat.last_answer.get_by_role("button", name="Regenerate").click()
    expect(chat.last_answer.locator(".version-count")).to_have_text("2/2")
    chat.whole_answer()
    chat.last_answer.get_by_role("button", name="Previous version").click()
    expect(chat.last_answer.locator(".version-count")).to_have_text("1/2")
    chat.expect_words(first)


def test_editing_a_message_makes_a_branch(chat: Chat) -> None:
    chat.ask("What is 1 + 1?")
    chat.ask("Introduce yourself")
    chat.bubbles.first.hover()
    chat.page.get_by_role("button", name="Edit message").first.click()
    chat.page.locator(".edit-area").fill("What is 12 + 30?")
    chat.page.locator(".edit-area").press("Enter")
    expect(chat.bubbles).to_have_text(["What is 12 + 30?"])
    assert "42" in chat.whole_answer()
    chat.page.get_by_role("button", name="Previous version").click()
    expect(chat.bubbles).to_have_text(["What is 1 + 1?", "Introduce yourself"])


def test_the_arrow_up_edits_the_last_message(chat: Chat) -> None:
    chat.ask("Introduce yourself")
    chat.field.press("ArrowUp")
    expect(chat.page.locator(".edit-area")).to_be_focused()
    chat.page.locator(".edit-area").press("Escape")
    expect(chat.bubbles).to_have_text(["Introduce yourself"])


def test_thinking_is_folded_away_when_the_answer_begins(chat: Chat) -> None:
    chat.page.get_by_role("button", name="Think").click()
    chat.ask("What is 12 + 30?")
    thinking = chat.last_answer.locator("details.thinking")
    expect(thinking).to_be_visible()
    expect(thinking.locator("summary")).to_have_text(re.compile("^Thought for [0-9.]+ s"))
    expect(thinking).not_to_have_attribute("open", "")


def test_a_refused_question_says_why_and_offers_a_retry(chat: Chat) -> None:
    chat.say("word " * 9000)
    expect(chat.last_answer.locator(".answer-failed")).to_contain_text(
        "The conversation is too long for this model.", timeout=ANSWER_MS
    )
    expect(chat.last_answer.get_by_role("button", name="Try again")).to_be_visible()


def test_a_double_click_tries_again_once(chat: Chat) -> None:
    posts: list[str] = []
    chat.say("word " * 9000)
    again = chat.last_answer.get_by_role("button", name="Try again")
    expect(again).to_be_visible(timeout=ANSWER_MS)
    chat.page.on("request", lambda one: posts.append(one.url) if one.method == "POST" else None)
    again.dblclick()
    expect(chat.last_answer.locator(".version-count")).to_have_text("2/2")
    assert len(posts) == 1


def _wait_until_stored(chat: Chat) -> None:
    chat.page.wait_for_function(
        """async () => {
            const id = location.pathname.split("/").at(-1);
            const { messages } = await (await fetch(`/chat/conversations/${id}`)).json();
            return messages.at(-1).generation.state === "cancelled";
        }""",
        timeout=ANSWER_MS,
    )


def test_a_double_click_on_send_does_not_stop_the_answer(chat: Chat) -> None:
    chat.field.fill("Introduce yourself")
    chat.page.get_by_role("button", name="Send", exact=True).dblclick()
    chat.whole_answer()
    expect(chat.last_answer.locator(".answer-stats")).to_be_visible()
    expect(chat.last_answer.get_by_text("This answer was stopped.")).to_be_hidden()
