"""What a model writes is shown safely and never painted twice."""

from __future__ import annotations

import random

from playwright.sync_api import expect

from tests.browser.chat import Chat
from tests.browser.payloads import DOCUMENTS, HOSTILE

# Shows a text as a stream whose deltas end at `ends`
FEED = """
    function feed({ text, ends }) {
        const container = document.createElement("div");
        container.className = "prose";
        document.getElementById("thread").append(container);
        const stream = new module.MarkdownStream(container);
        for (const end of ends) stream.update(text.slice(0, end));
        stream.finish(text);
        return container;
    }
"""
# What must not come out of any text
FORBIDDEN = """
    const ALLOWED = new Set(("a blockquote br code del div em h3 h4 h5 h6 hr li ol p pre span " +
        "strong table tbody td th thead tr ul").split(" "));
    function forbidden(container) {
        const found = [];
        for (const node of container.querySelectorAll("*")) {
            if (node.closest(".button, svg")) continue;  // ours
            if (!ALLOWED.has(node.localName)) found.push(node.outerHTML);
            for (const { name, value } of node.attributes) {
                const isBadLink = name === "href" && !/^(https?:|mailto:)/.test(value);
                if (/^(on|style$|src|id$|name$)/.test(name) || isBadLink)
                    found.push(`${name}=${value}`);
            }
            if (node.localName === "a" && !node.rel.includes("noopener")) found.push("opener");
        }
        return found;
    }
"""
# Colours arrive later and are spans only
PLAIN = """
    function plain(node) {
        const copy = node.cloneNode(true);
        for (const code of copy.querySelectorAll("pre code")) code.textContent = code.textContent;
        return copy.innerHTML;
    }
"""


def _cuts(text: str, seed: int) -> list[int]:
    """Where the deltas of a stream end; sometimes every character is one."""
    dice = random.Random(seed)
    if seed % 2:
        return list(range(1, len(text) + 1))
    return sorted(dice.sample(range(1, len(text) + 1), min(len(text), 12)))


def _cases(texts: tuple[str, ...]) -> list[dict[str, object]]:
    """Every text at once, by the character, and in a dozen pieces."""
    return [
        {"text": text, "ends": ends}
        for number, text in enumerate(texts)
        for ends in ([], _cuts(text, 1), _cuts(text, number * 2))
    ]


def test_hostile_text_stays_text(chat: Chat, troubles: list[str]) -> None:
    assert len(HOSTILE) >= 25
    found = chat.module(
        "markdown_stream",
        FEED + FORBIDDEN + "return argument.map(feed).flatMap(forbidden);",
        _cases(HOSTILE),
    )
    assert found == []
    expect(chat.page.locator(".prose")).to_have_count(3 * len(HOSTILE))
    assert chat.page.evaluate("window.stolen") is None
    assert troubles == []


def test_a_stream_ends_as_the_whole_text_would(chat: Chat) -> None:
    pairs = chat.module(
        "markdown_stream",
        FEED
        + PLAIN
        + """return argument.map(({ text, ends }) =>
            [plain(feed({ text, ends })), plain(feed({ text, ends: [] }))]);""",
        _cases(DOCUMENTS),
    )
    for streamed, whole in pairs:
        assert streamed == whole


def test_a_closed_block_is_never_touched_again(chat: Chat) -> None:
    mutations = chat.module(
        "markdown_stream",
        """
        const container = document.createElement("div");
        const stream = new module.MarkdownStream(container);
        let text = "The first block.\\n\\nThe second\\n";
        stream.update(text);
        const [first] = container.children;
        const records = [];
        const observer = new MutationObserver((seen) => records.push(...seen));
        const all = { subtree: true, childList: true, characterData: true, attributes: true };
        observer.observe(first, all);
        for (let word = 0; word < 300; word++) stream.update((text += ` word ${word}.\\n\\n`));
        stream.finish(text);
        records.push(...observer.takeRecords());
        return container.children[0] === first ? records.length : "replaced";
        """,
    )
    assert mutations == 0


def test_open_code_grows_in_place(chat: Chat) -> None:
    is_same = chat.module(
        "markdown_stream",
        """
        const container = document.createElement("div");
        const stream = new module.MarkdownStream(container);
        let text = "```python\\nx = 1\\n";
        stream.update(text);
        const letters = container.querySelector("code").firstChild;
        for (let line = 0; line < 50; line++) stream.update((text += `y${line} = x\\n`));
        return letters === container.querySelector("code").firstChild;
        """,
    )
    assert is_same


def test_code_is_coloured_when_its_fence_closes(chat: Chat) -> None:
    chat.module(
        "markdown_stream",
        FEED + "feed(argument);",
        {"text": "```python\ndef f(): return 1\n```\n", "ends": [12, 20]},
    )
    chat.page.wait_for_selector(".prose .code-block .hljs-keyword")
    assert chat.page.locator(".prose .code-language").inner_text() == "python"


def test_code_can_be_copied(chat: Chat) -> None:
    chat.page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    text = "```sh\nmake up\n```\n"
    chat.module("markdown_stream", FEED + "feed(argument);", {"text": text, "ends": []})
    chat.page.locator("#empty").evaluate("node => { node.hidden = true; }")
    chat.page.get_by_role("button", name="Copy code").click()
    chat.page.get_by_role("button", name="Copied").wait_for()
    assert chat.page.evaluate("navigator.clipboard.readText()") == "make up"


def test_a_line_of_an_answer_is_a_line(chat: Chat) -> None:
    assert chat.module(
        "markdown_stream",
        """
        const container = document.createElement("div");
        const stream = new module.MarkdownStream(container);
        stream.finish("A little flame,\\n**a golden** light\\n\\nIt dances.");
        return [...container.children].map((one) => one.querySelectorAll("br").length);
        """,
    ) == [1, 0]


def test_what_is_read_aloud_has_no_signs_of_markdown(chat: Chat) -> None:
    said = chat.module(
        "announcer",
        """
        const region = document.createElement("p");
        const announcer = new module.Announcer(region);
        announcer.grow("## The page\\n> Write **2 * 3**, `snake_case` and # one.\\n");
        announcer.end("Done.");
        return region.textContent;
        """,
    )
    assert said == "The page\nWrite 2 * 3, snake_case and # one.\n Done."
