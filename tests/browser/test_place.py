"""A reader who has scrolled to somewhere finds the same words there on coming back."""

from __future__ import annotations

from playwright.sync_api import expect

from tests.browser.chat import Chat
from tests.stack import Stack

MAKE = """
from accounts.models import User
from hosting.models import Conversation, Message
owner = User.objects.get(email={email!r})
conversation, parent = Conversation.objects.create(owner=owner, title='Long'), None
for index in range(60):
    role, words = ('assistant', 'Words of prose. ' * 60) if index % 2 else ('user', 'And then?')
    parent = Message.objects.create(
        conversation=conversation, parent=parent, role=role, content=words
    )
print(conversation.id)
"""
# Of the first message in view: which one, and how far it is scrolled out
PLACE = """() => {
    const edge = document.getElementById("scroller").getBoundingClientRect().top;
    const messages = [...document.querySelectorAll(".message")];
    const first = messages.find((one) => one.getBoundingClientRect().bottom > edge);
    return [first.dataset.id, Math.round(first.getBoundingClientRect().top - edge)];
}"""
SOME_FRAMES = """async () => {
    for (let frame = 0; frame < 6; frame += 1) await new Promise(requestAnimationFrame);
}"""


def test_the_place_is_the_same_after_a_reload(chat: Chat, stack: Stack) -> None:
    conversation = stack.manage("shell", "-c", MAKE.format(email=stack.admin_email))
    chat.open(f"/c/{conversation}")
    expect(chat.page.locator(".message")).to_have_count(60)
    chat.page.evaluate("document.getElementById('scroller').scrollTop = 6000")
    chat.page.evaluate(SOME_FRAMES)
    place = chat.page.evaluate(PLACE)
    chat.page.reload()
    expect(chat.page.locator(".message")).to_have_count(60)
    chat.page.evaluate(SOME_FRAMES)
    assert chat.page.evaluate(PLACE) == place
