"""The page on a phone and in the dark, by keyboard, and for a screen reader."""

from __future__ import annotations

from typing import Any

import pytest
from playwright.sync_api import expect

from tests.browser.chat import Chat
from tests.browser.conftest import OpenChat

PAPER = "getComputedStyle(document.documentElement).backgroundColor"
PHONE = {"viewport": {"width": 360, "height": 780}, "has_touch": True, "is_mobile": True}
WIDE = "\n".join(["| " + " | ".join(["a long heading"] * 9) + " |", "|" + "---|" * 9, "|" * 10])


def test_the_system_decides_on_dark_until_the_person_does(open_chat: OpenChat) -> None:
    dark, light = open_chat(color_scheme="dark"), open_chat(color_scheme="light")
    night, day = dark.page.evaluate(PAPER), light.page.evaluate(PAPER)
    assert night != day
    light.page.locator("#account-button").click()
    light.page.get_by_role("menuitemradio", name="Dark").click()
    assert light.page.evaluate(PAPER) == night
    light.page.reload()
    assert light.page.evaluate(PAPER) == night


@pytest.mark.parametrize("width", [360, 390])
def test_a_phone_never_scrolls_sideways(open_chat: OpenChat, width: int) -> None:
    phone = open_chat(**PHONE | {"viewport": {"width": width, "height": 780}})
    assert _overflow(phone) == 0
    phone.ask("Introduce yourself")
    phone.module(
        "markdown_stream",
        "new module.MarkdownStream(document.querySelector('.prose')).finish(argument)",
        f"{'word' * 200}\n\n{WIDE}\n\n```\n{'code ' * 200}\n```",
    )
    assert _overflow(phone) == 0
    for opener in ("#model-button", "#settings-button"):
        phone.page.locator(opener).click()
        assert _overflow(phone) == 0
        phone.page.keyboard.press("Escape")


def test_the_drawer_of_a_phone_opens_and_closes(open_chat: OpenChat) -> None:
    phone = open_chat(**PHONE)
    search = phone.page.get_by_label("Search conversations")
    expect(search).not_to_be_in_viewport()
    phone.page.get_by_role("button", name="Conversations", exact=True).click()
    expect(search).to_be_in_viewport()
    phone.page.keyboard.press("Escape")
    expect(search).not_to_be_in_viewport()


def test_fields_are_large_enough_not_to_zoom_a_phone(open_chat: OpenChat) -> None:
    phone = open_chat(**PHONE)
    sizes = phone.page.evaluate(
        "[...document.querySelectorAll('input, textarea')]"
        ".map(field => parseFloat(getComputedStyle(field).fontSize))"
    )
    assert min(sizes) >= 16


def test_every_control_has_a_name(chat: Chat) -> None:
    chat.ask("Introduce yourself")
    nameless = chat.page.evaluate(
        "[...document.querySelectorAll('button, a, input, textarea')].filter(control =>"
        " control.type !== 'hidden' && !control.innerText.trim() && !control.ariaLabel"
        " && !control.labels?.length).map(control => control.outerHTML)"
    )
    assert nameless == []


def test_the_keyboard_is_enough(chat: Chat) -> None:
    expect(chat.field).to_be_focused()
    chat.ask("Introduce yourself")
    expect(chat.field).to_be_focused()
    chat.page.keyboard.press("Control+b")
    expect(chat.page.get_by_label("Search conversations")).not_to_be_in_viewport()
    chat.page.keyboard.press("Control+k")
    expect(chat.page.get_by_label("Search conversations")).to_be_focused()
    chat.page.locator("#title").click()
    chat.page.keyboard.press("?")
    expect(chat.page.get_by_role("dialog", name="Keyboard shortcuts")).to_be_visible()
    chat.page.keyboard.press("Escape")
    chat.page.keyboard.press("/")
    expect(chat.field).to_be_focused()
    chat.page.keyboard.press("Control+Shift+o")
    expect(chat.answers).to_have_count(0)


def test_shift_enter_and_composition_do_not_send(chat: Chat) -> None:
    chat.field.fill("one")
    chat.field.press("Shift+Enter")
    chat.page.keyboard.type("two")
    assert chat.field.input_value() == "one\ntwo"
    chat.field.dispatch_event("keydown", {"key": "Enter", "isComposing": True})
    assert chat.field.input_value() == "one\ntwo"
    expect(chat.bubbles).to_have_count(0)


def test_a_bad_setting_is_told_and_not_sent(chat: Chat) -> None:
    chat.page.locator("#settings-button").click()
    field = chat.page.get_by_label("Temperature")
    field.fill("3")
    expect(chat.page.locator("#temperature-error")).to_have_text("Between 0 and 2.")
    chat.page.keyboard.press("Escape")
    with chat.page.expect_request("**/chat/messages") as sent:
        chat.ask("Introduce yourself")
    assert "temperature" not in sent.value.post_data_json["options"]


def test_the_end_of_an_answer_is_spoken(chat: Chat) -> None:
    chat.ask("Introduce yourself")
    expect(chat.page.locator("#announcer")).to_contain_text("Answer complete.")


def _overflow(chat: Chat) -> int:
    return int(chat.page.evaluate("document.documentElement.scrollWidth - innerWidth"))


@pytest.mark.parametrize("options", [{}, PHONE], ids=["wide", "phone"])
def test_a_short_note_does_not_cover_the_message_field(
    open_chat: OpenChat, options: dict[str, Any]
) -> None:
    chat = open_chat(**options)
    chat.module("toast", "module.toast(argument, { action: 'Undo' });", "Conversation deleted")
    note, field = chat.page.locator(".toast"), chat.page.locator("#composer")
    expect(note).to_be_in_viewport(ratio=1)
    told, written = note.bounding_box(), field.bounding_box()
    assert told and written and told["y"] + told["height"] <= written["y"]


def test_ones_own_data_is_found_from_the_chat(chat: Chat) -> None:
    chat.page.locator("#account-button").click()
    chat.page.get_by_role("menuitem", name="Your data").click()
    expect(chat.page.get_by_role("button", name="Clear my cache")).to_be_visible()
