"""What a person is told who may not do something on the chat page, and where it leads them."""

from __future__ import annotations

import time

import pytest
from playwright.sync_api import expect

from tests.browser.chat import Chat
from tests.browser.conftest import OpenPage, accessibility_faults
from tests.stack import Stack

_ADD = """
from accounts.models import User
User.objects.create_user({email!r}, "warm-stones-in-the-hearth")
"""
_TAKE = """
from accounts.models import Quota, User
Quota.objects.create(user=User.objects.get(email={email!r}), allowed_models=["another"])
"""


def test_a_message_that_is_too_long_is_not_sent(chat: Chat) -> None:
    posts: list[str] = []
    chat.page.on("request", lambda one: posts.append(one.url) if one.method == "POST" else None)
    chat.field.evaluate("area => { area.dataset.mostCharacters = '10'; }")
    too_long = "\N{FIRE}" * 11
    chat.field.fill(too_long)
    chat.field.press("Enter")
    notice = chat.page.locator("#composer-notice")
    expect(notice).to_have_text("This is too long: it has 11 characters, at most 10 can be sent.")
    expect(chat.field).to_have_value(too_long)
    assert posts == []
    chat.say("\N{FIRE}" * 10)
    expect(notice).to_be_hidden()


@pytest.mark.parametrize("width", [390, 1280])
def test_who_lost_a_model_is_told_whom_to_ask_and_what_is_left(
    open_page: OpenPage, stack: Stack, troubles: list[str], width: int
) -> None:
    email = f"without-{time.time_ns()}@example.org"
    stack.manage("shell", "-c", _ADD.format(email=email))
    page = open_page("/", width=width, is_known=False)
    page.get_by_label("E-mail").fill(email)
    page.get_by_label("Password").fill("warm-stones-in-the-hearth")
    page.keyboard.press("Enter")
    chat = Chat(page)
    expect(page.locator("#model-button")).to_contain_text("Demo", ignore_case=True)
    stack.manage("shell", "-c", _TAKE.format(email=email))
    chat.field.fill("Hello")
    page.get_by_role("button", name="Send").click()
    notice = page.locator("#composer-notice")
    expect(notice).to_contain_text("Choose another, or ask an administrator.")
    expect(chat.field).to_have_value("Hello")
    expect(page.locator("#model-button")).to_contain_text("No model")
    assert accessibility_faults(page) == []
    troubles.clear()  # the console tells of the status 403
    notice.get_by_role("link", name="See which models you may use").click()
    expect(page.get_by_text("There is no model that may be used.")).to_be_visible()
