"""Formulas in an answer: which signs make one, what is never one, and that none harms the page."""

from __future__ import annotations

from pathlib import Path

import pytest
from playwright.sync_api import expect

from tests.browser.chat import Chat
from tests.browser.conftest import OpenChat

VENDOR = "/static/hosting/vendor/katex/"
HOSTILE = (
    "$\\href{javascript:window.stolen=1}{x}$",
    "$\\includegraphics{https://evil.example/a.png}$",
    "$\\htmlStyle{position:fixed}{x}$ $\\htmlId{thread}{x}$ $\\url{javascript:1}$",
    "$\\text{<img src=x onerror=window.stolen=1>}$",
    "$a --> b </style><img src=x onerror=window.stolen=1>$",
    "$\\def\\a{" + "x" * 2000 + "}" + "\\a" * 1000 + "$",
    "$\\def\\a{\\a\\a}\\a$",
    "$" + "{" * 2400 + "}" * 2400 + "$",
    "$" + "\\sqrt{" * 800 + "$",
    f"$${'x+' * 50_000}x$$",
    " ".join(f"$x_{{{number}}}$" for number in range(10_000)),
    "$$a\n\\[b\n" * 5_000,
    "\\(a " * 20_000,
)
MOST_SET = 1000
# Shows a text that came a character at a time, `whole` of it or without its end
SHOW = """
    document.getElementById("empty").hidden = true;
    const prose = document.createElement("div");
    prose.className = "prose";
    document.getElementById("thread").append(prose);
    const stream = new module.MarkdownStream(prose);
    const { text, whole } = argument;
    for (let end = 1; end <= Math.min(text.length, 400); end++) stream.update(text.slice(0, end));
    if (whole) stream.finish(text);
    else stream.update(text);
"""
FORMULAS = (
    ("So $x_1 * y_2 * z$ is.", "x_1 * y_2 * z", False),
    ("So \\(x_1 * y_2 * z\\) is.", "x_1 * y_2 * z", False),
    ("So $$x_1$$ is.", "x_1", True),
    ("So\n\\[x_1 \\\\[2pt] y\\]\nis.", "x_1 \\\\[2pt] y", True),
    ("So\n$$\na\n- b\n$$\nis.", "a\n- b", True),
    ("1. So\n   \\[\n   x_1\n   \\]\n2. is", "x_1", True),
    ("| a |\n|---|\n| $a \\| b$ |", "a | b", False),
    ("**bold $a*b$** or [link $a*b$](https://example.org)", "a*b", False),
)
NOT_FORMULAS = (
    "It costs $5 and $10, or $5-$10.",
    "Put $HOME/$USER before $PATH:$HOME.",
    "Escaped \\$x$ here.",
    "`$x$` and `\\(x\\)`",
    "```\n$$\nx\n$$\n```",
    "\\[not a link\\](https://example.org)",
    "An open \\(a_b_c *d* and no end",
    "$$\na\n- b\n\nnever closed",
)


def show(chat: Chat, text: str, *, whole: bool = True) -> None:
    chat.module("markdown_stream", SHOW, {"text": text, "whole": whole})


def clear(chat: Chat) -> None:
    chat.page.evaluate("document.querySelectorAll('.prose').forEach((node) => node.remove())")


def formulas(chat: Chat, count: int) -> list[str]:
    """The LaTeX of so many formulas, as a screen reader has it, once they are set."""
    sources = chat.page.locator(".prose annotation")
    expect(sources).to_have_count(count)
    return [text.strip() for text in sources.all_text_contents()]


def test_a_formula_is_set(chat: Chat) -> None:
    for text, tex, is_display in FORMULAS:
        clear(chat)
        show(chat, text)
        count = 2 if "bold" in text else 1
        assert formulas(chat, count) == [tex] * count
        expect(chat.page.locator(".katex-display")).to_have_count(int(is_display))


def test_what_is_no_formula_is_left_alone(chat: Chat) -> None:
    for text in NOT_FORMULAS:
        show(chat, text)
    expect(chat.page.locator(".prose")).to_have_count(len(NOT_FORMULAS))
    expect(chat.page.locator(".prose .formula")).to_have_count(0)


def test_a_price_is_at_no_letter_of_it_a_formula(chat: Chat) -> None:
    counts = chat.module(
        "markdown_stream",
        """
        const prose = document.createElement("div");
        const stream = new module.MarkdownStream(prose);
        return [...argument].map((_, index) => {
            stream.update(argument.slice(0, index + 1));
            return prose.querySelectorAll(".formula").length;
        });
        """,
        "From $5-$10 to $2, and $HOME/$USER.",
    )
    assert not any(counts)


def test_a_page_without_formulas_loads_nothing_for_them(chat: Chat) -> None:
    asked: list[str] = []
    chat.page.on("request", lambda request: asked.append(request.url))
    chat.page.reload()
    show(chat, "It costs $5.")
    assert not [url for url in asked if VENDOR in url]
    show(chat, "$x$")
    formulas(chat, 1)
    chat.page.evaluate("document.fonts.ready")
    names = {url.rsplit("/", 1)[1] for url in asked if VENDOR in url}
    assert {"katex.min.js", "katex.min.css", "KaTeX_Math-Italic.woff2"} <= names
    assert all(name.endswith((".js", ".css", ".woff2")) for name in names)


def test_an_unfinished_formula_stays_as_it_is_written(chat: Chat) -> None:
    show(chat, "So \\(x_1 * _y_ *z*", whole=False)
    prose = chat.page.locator(".prose")
    expect(prose.first).to_have_text("So \\(x_1 * _y_ *z*")
    show(chat, "Before\n\n$$\na\n- b\n", whole=False)
    expect(prose.last.locator("li")).to_have_count(0)


def test_a_formula_is_set_once_however_long_its_paragraph_grows(chat: Chat) -> None:
    show(chat, "$x$ then", whole=False)
    formulas(chat, 1)
    calls = chat.module(
        "markdown_stream",
        """
        const { render } = window.katex;
        let calls = 0;
        window.katex.render = (...given) => (calls++, render(...given));
        const prose = document.querySelector(".prose");
        const stream = new module.MarkdownStream(prose);
        let raw = 0;
        for (let word = 0; word < 100; word++) {
            stream.update(`$x$ then $y$.${" word".repeat(word)}`);
            await new Promise(requestAnimationFrame);
            raw += prose.querySelectorAll(".katex").length !== 2;
        }
        return [calls, raw];
        """,
    )
    assert calls == [1, 0]


def test_a_wrong_formula_shows_its_source(chat: Chat) -> None:
    show(chat, "Here $\\frac{a$ and $x$.")
    formulas(chat, 1)
    expect(chat.page.locator(".prose .formula").first).to_have_text("$\\frac{a$")


def test_hostile_formulas_leave_the_page_alone(chat: Chat) -> None:
    for text in HOSTILE:
        clear(chat)
        show(chat, "$x$")
        formulas(chat, 1)
        assert longest_turn_ms(chat, text) < 8000
        assert chat.page.evaluate("window.stolen") is None
        expect(chat.page.locator(".prose :is(a, img, [id])")).to_have_count(0)
        assert chat.page.locator(".prose .katex").count() <= MOST_SET


def longest_turn_ms(chat: Chat, text: str) -> float:
    """That the page needs at once while the text is set."""
    longest: float = chat.module(
        "markdown_stream",
        """
        const prose = document.querySelector(".prose");
        let [last, longest] = [performance.now(), 0];
        new module.MarkdownStream(prose).finish(argument);
        for (let turn = 0; turn < 20; turn++) {
            await new Promise((done) => setTimeout(done));
            longest = Math.max(longest, performance.now() - last);
            last = performance.now();
        }
        return longest;
        """,
        text,
    )
    return longest


@pytest.mark.parametrize(("width", "theme"), [(390, "dark"), (1280, "light")])
def test_a_long_formula_scrolls_in_itself(
    open_chat: OpenChat, width: int, theme: str, tmp_path: Path
) -> None:
    chat = open_chat(viewport={"width": width, "height": 800}, color_scheme=theme)
    long = " + ".join(f"\\frac{{x_{{{n}}}}}{{y^{{{n}}}}}" for n in range(40))
    show(
        chat,
        f"Here $e^{{i\\pi}} + 1 = 0$ and $\\boxed{{{'w' * 60}}}$ end.\n\n$${long}$$\n\n"
        "1. In a list:\n   \\[\n   \\int_0^1 x^2\\,dx = \\frac13\n   \\]\n2. next\n\n"
        "$$\\begin{pmatrix} a & b \\\\ c & d \\end{pmatrix}$$\n\nText\n$$\\sum_n n^2$$\nafter.",
    )
    formulas(chat, 6)
    box = chat.page.locator(".formula-display").first
    assert box.evaluate("node => node.scrollWidth > node.clientWidth")
    assert chat.page.evaluate("document.documentElement.scrollWidth - innerWidth") == 0
    assert chat.page.locator(".scroller").evaluate("n => n.scrollWidth - n.clientWidth") == 0
    chat.page.evaluate("document.fonts.ready")
    chat.page.screenshot(path=tmp_path / f"formulas-{width}-{theme}.png")


def test_a_copied_formula_is_its_latex(chat: Chat) -> None:
    chat.page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    show(chat, "So $x_1$ is.")
    formulas(chat, 1)
    chat.page.locator(".prose").evaluate("node => getSelection().selectAllChildren(node)")
    chat.page.keyboard.press("Control+c")
    assert chat.page.evaluate("navigator.clipboard.readText()").strip() == "So $x_1$ is."
