"""A real Chromium, signed in; a test fails on any error in its console or request to elsewhere."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser, Page, expect, sync_playwright

from tests.browser.chat import Chat
from tests.stack import Stack, stack

__all__ = ["stack"]

NewPage = Callable[..., Page]
OpenPage = Callable[..., Page]
OpenChat = Callable[..., Chat]
Hold = Callable[..., contextlib.AbstractContextManager[None]]

STANDARDS = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa"]
STEP_SECONDS, PAUSE_SECONDS = 0.01, 0.1
PATIENCE_MS = 15_000  # a page on a busy machine; who waits for more than a page says so
# No answer is longer than the tests need
SETTINGS = '{"numbers": {"max_tokens": 250}, "thinking": false}'


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if "tests/browser" in item.path.as_posix():
            item.add_marker(pytest.mark.browser)
            item.add_marker(pytest.mark.stack)


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    """The system's Chromium; without one, the browser that playwright has installed."""
    expect.set_options(timeout=PATIENCE_MS)
    path = os.environ.get("CHROME") or shutil.which("chromium") or shutil.which("google-chrome")
    arguments = ["--no-sandbox", "--disable-dev-shm-usage", "--disable-gpu"]
    with sync_playwright() as playwright:
        launched = playwright.chromium.launch(executable_path=path, args=arguments)
        yield launched
        launched.close()


@pytest.fixture(scope="session")
def signed_in(browser: Browser, stack: Stack) -> Any:
    """The cookies of the administrator."""
    context = browser.new_context(base_url=stack.base_url)
    page = context.new_page()
    page.goto("/")
    page.locator("input[name=username], input[name=email]").fill(stack.admin_email)
    page.locator("input[name=password]").fill(stack.admin_password)
    page.locator("input[name=password]").press("Enter")
    page.wait_for_selector("#composer")
    page.evaluate("text => localStorage.setItem('hearth-settings', text)", SETTINGS)
    state = context.storage_state()
    context.close()
    return state


@pytest.fixture
def troubles() -> list[str]:
    """What a test's pages complained of. A test that provokes errors clears it."""
    return []


@pytest.fixture
def new_page(
    browser: Browser, stack: Stack, signed_in: Any, troubles: list[str]
) -> Iterator[NewPage]:
    """Makes a tab, in a browser of its own, with the options of a Playwright context."""
    contexts = []

    def make(*, is_known: bool = True, **options: Any) -> Page:
        state = signed_in if is_known else None
        options = {"viewport": {"width": 1280, "height": 800}, **options}
        context = browser.new_context(base_url=stack.base_url, storage_state=state, **options)
        contexts.append(context)
        page = context.new_page()
        watch(page, stack.base_url, troubles)
        return page

    yield make
    for context in contexts:
        context.close()
    assert not troubles


@pytest.fixture
def open_page(new_page: NewPage) -> OpenPage:
    def open_one(path: str, width: int = 1280, theme: str = "light", **options: Any) -> Page:
        viewport = {"width": width, "height": 900}
        page = new_page(viewport=viewport, color_scheme=theme, **options)
        page.goto(path)
        return page

    return open_one


@pytest.fixture
def open_chat(new_page: NewPage) -> OpenChat:
    def open_one(path: str = "/", **options: Any) -> Chat:
        chat = Chat(new_page(**options))
        chat.open(path)
        return chat

    return open_one


@pytest.fixture
def chat(open_chat: OpenChat) -> Chat:
    return open_chat()


@pytest.fixture
def hold_engine(stack: Stack) -> Hold:
    """Stops the engine in the middle of a word, for as long as the test looks.

    What is done before, `meanwhile`, it follows in small steps: however late a busy machine draws
    its first words, an answer has not ended by then.
    """
    pid = stack.pid_of("engine")

    @contextlib.contextmanager
    def hold(meanwhile: Callable[[], None] | None = None) -> Iterator[None]:
        os.kill(pid, signal.SIGSTOP)
        if meanwhile is not None:
            with _in_steps(pid):
                meanwhile()
        yield
        with contextlib.suppress(ProcessLookupError):  # held too long for its supervisor
            os.kill(pid, signal.SIGCONT)

    return hold


@contextlib.contextmanager
def _in_steps(pid: int) -> Iterator[None]:
    """Of a stopped process, which is stopped afterwards."""
    is_over = threading.Event()

    def step() -> None:
        while not is_over.wait(PAUSE_SECONDS):
            os.kill(pid, signal.SIGCONT)
            is_over.wait(STEP_SECONDS)
            os.kill(pid, signal.SIGSTOP)

    with ThreadPoolExecutor(1) as thread:
        stepping = thread.submit(step)
        yield
        is_over.set()
        stepping.result()


_IS_STILL = """() => Promise.allSettled(document.getAnimations()
    .filter((one) => one.playState === "running")
    .filter((one) => one.effect.getComputedTiming().endTime < Infinity)
    .map((one) => one.finished))"""


def accessibility_faults(
    page: Page, impacts: tuple[str, ...] = ("minor", "moderate", "serious", "critical")
) -> list[tuple[str, str]]:
    """Each as axe names it, with the first element that has it: what fades in has no contrast."""
    page.evaluate(_IS_STILL)
    found = Axe().run(page, options={"runOnly": STANDARDS}).response
    assert found["passes"]
    faults = [one for one in found["violations"] if one["impact"] in impacts]
    return [(one["id"], one["nodes"][0]["html"]) for one in faults]


def watch(page: Page, base_url: str, troubles: list[str]) -> None:
    """Errors, policy violations (which the console tells), dialogs, and requests to elsewhere."""
    page.on("pageerror", lambda error: troubles.append(f"error: {error}"))
    page.on("console", lambda line: troubles.append(line.text) if line.type == "error" else None)
    page.on("dialog", lambda dialog: (troubles.append("dialog"), dialog.dismiss()))

    def check(request: Any) -> None:
        if not request.url.startswith((base_url, "blob:")):
            troubles.append(f"asked {request.url}")

    page.on("request", check)
