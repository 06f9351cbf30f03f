"""The chat page as a person uses it: what can be done, what can be seen. Waits on conditions."""

from __future__ import annotations

from typing import Any

from playwright.sync_api import Locator, Page, expect

ANSWER_MS = 60_000
LONG_QUESTION = "Explain in detail how Hearth works."


class Chat:
    """One tab with the chat page open."""

    def __init__(self, page: Page) -> None:
        self.page = page
        self.field = page.get_by_label("Message", exact=True)
        self.answers = page.locator(".message-answer")
        self.bubbles = page.locator(".bubble")
        self.rows = page.locator(".conversation-row")

    def open(self, path: str = "/") -> None:
        self.page.goto(path)
        expect(self.page.locator("#model-button .model-name")).to_be_visible()

    @property
    def address(self) -> str:
        return self.page.url

    @property
    def last_answer(self) -> Locator:
        return self.answers.last

    @property
    def last_prose(self) -> Locator:
        return self.last_answer.locator(".prose")

    def say(self, text: str) -> None:
        self.field.fill(text)
        self.field.press("Enter")
        expect(self.bubbles.last).to_have_text(text)

    def ask(self, text: str) -> str:
        """Say something and wait for the whole answer."""
        self.say(text)
        return self.whole_answer()

    def whole_answer(self) -> str:
        expect(self.last_answer).to_have_attribute("aria-busy", "false", timeout=ANSWER_MS)
        expect(self.last_prose).not_to_have_text("", use_inner_text=True)
        return self.last_prose.inner_text()

    def expect_words(self, text: str) -> None:
        """The last answer says this. A message has no inner text before its first frame."""
        expect(self.last_prose).to_have_text(text, use_inner_text=True)

    def wait_for_words(self, count: int = 40) -> None:
        """Until the answer being written has so many characters."""
        self.page.wait_for_function(
            "count => [...document.querySelectorAll('.message-answer .prose')].at(-1)"
            "?.textContent.length >= count",
            arg=count,
            timeout=ANSWER_MS,
        )

    def begin_long_answer(self) -> None:
        """Until its first words are there."""
        self.say(LONG_QUESTION)
        self.wait_for_words()

    def is_running(self) -> bool:
        return self.last_answer.get_attribute("aria-busy") == "true"

    @property
    def conversation(self) -> str:
        """The id of the one that is open."""
        return self.address.rsplit("/", 1)[1]

    def row_of(self, conversation: str) -> Locator:
        return self.page.locator(f"[data-conversation='{conversation}'] a")

    def title_of_row(self, index: int) -> Locator:
        return self.rows.nth(index).locator(".conversation-title")

    def choose_from_row_menu(self, index: int, command: str) -> None:
        row = self.rows.nth(index)
        row.hover()
        row.get_by_role("button").click()
        self.page.get_by_role("menuitem", name=command, exact=True).click()

    def change_conversation(self, changes: dict[str, Any]) -> None:
        body = "await module.api.changeConversation(argument.id, argument.changes);"
        self.module("api", body, {"id": self.conversation, "changes": changes})

    def module(self, name: str, body: str, argument: Any = None) -> Any:
        """The value of a function body that gets a module of the page as `module`."""
        return self.page.evaluate(
            f"""async ([name, argument]) => {{
                const module = await import(`/static/hosting/js/chat/${{name}}.js`);
                {body}
            }}""",
            [name, argument],
        )
