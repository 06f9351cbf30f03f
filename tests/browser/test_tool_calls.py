"""Tools in the chat: switched on, asked about, run, and what came of them."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest
from playwright.sync_api import Page, expect

from tests.browser.chat import ANSWER_MS, Chat
from tests.browser.conftest import OpenChat, accessibility_faults
from tests.stack import Stack
from tests.tool_server import RunningServer, add_to_stack, running_tool_server

QUESTION = "What is the weather in Paris?"
GREEDY = '{"numbers": {"max_tokens": 250, "temperature": 0}, "thinking": false}'
LOOKS = [(390, "dark"), (1280, "light")]


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningServer]:
    with running_tool_server(tmp_path_factory.mktemp("tools")) as one:
        yield one


@pytest.fixture
def tools(stack: Stack, running: RunningServer) -> RunningServer:
    add_to_stack(stack, running, "add", "get_weather")
    return running


def opened(open_chat: OpenChat, width: int = 1280, theme: str = "light") -> Chat:
    chat = open_chat(viewport={"width": width, "height": 900}, color_scheme=theme)
    chat.page.evaluate("text => localStorage.setItem('hearth-settings', text)", GREEDY)
    chat.open()
    return chat


def switch_on(page: Page) -> None:
    page.get_by_role("button", name="Tools").click()
    page.get_by_role("checkbox", name="Tests").check()
    page.keyboard.press("Escape")
    expect(page.get_by_role("button", name="Tools: 1")).to_be_visible()


def asked(chat: Chat) -> Chat:
    switch_on(chat.page)
    chat.say(QUESTION)
    expect(chat.page.get_by_role("button", name="Allow once")).to_be_visible(timeout=ANSWER_MS)
    return chat


@pytest.mark.parametrize(("width", "theme"), LOOKS)
def test_a_call_is_shown_allowed_run_and_answered(
    open_chat: OpenChat, tools: RunningServer, width: int, theme: str
) -> None:
    chat = asked(opened(open_chat, width, theme))
    page, num_before = chat.page, len(tools.calls)
    call = page.get_by_role("region", name="get_weather of Tests")
    expect(call).to_contain_text("Paris")
    expect(call).to_contain_text("Nothing has been sent yet.")
    expect(page.locator("#announcer")).to_contain_text("wants to use get_weather of Tests")
    assert accessibility_faults(page) == []
    assert page.evaluate("document.documentElement.scrollWidth - innerWidth") <= 0
    page.get_by_role("button", name="Allow once").press("Enter")
    expect(chat.last_prose).to_contain_text("21", timeout=ANSWER_MS)
    assert tools.calls[num_before:] == ["get_weather Paris"]
    call.get_by_text("Result").click()
    expect(call).to_contain_text('"condition": "sunny"')
    assert accessibility_faults(page) == []
    page.reload()
    expect(page.get_by_role("region", name="get_weather of Tests")).to_contain_text("Done")
    expect(page.get_by_role("button", name="Tools: 1")).to_be_visible()


def test_what_is_switched_on_for_a_new_chat_waits_for_its_first_message(
    open_chat: OpenChat, tools: RunningServer
) -> None:
    chat = opened(open_chat)
    switch_on(chat.page)
    chat.page.reload()
    expect(chat.page.get_by_role("button", name="Tools: 1")).to_be_visible()
    with chat.page.expect_request("**/chat/messages") as sent:
        chat.ask("Introduce yourself")
    assert len(sent.value.post_data_json["tool_servers"]) == 1
    chat.page.keyboard.press("Control+Shift+O")
    expect(chat.page.get_by_role("button", name="Tools", exact=True)).to_be_visible()


def test_who_is_away_finds_the_question_again(open_chat: OpenChat, tools: RunningServer) -> None:
    chat = asked(opened(open_chat))
    other = open_chat(chat.address)
    expect(other.page.get_by_role("button", name="Allow once")).to_be_visible()
    other.page.get_by_role("button", name="Do not allow").click()
    for one in (chat, other):
        expect(one.page.get_by_role("region", name="get_weather of Tests")).to_contain_text(
            "The person did not allow this call."
        )
        one.whole_answer()


def test_stop_ends_the_question_and_one_may_go_on(
    open_chat: OpenChat, tools: RunningServer
) -> None:
    chat = asked(opened(open_chat))
    page, num_before = chat.page, len(tools.calls)
    page.get_by_role("button", name="Stop").click()
    expect(page.get_by_role("region", name="get_weather of Tests")).to_contain_text("Stopped")
    page.get_by_role("button", name="Answer with these results").click()
    expect(chat.answers).to_have_count(2)
    chat.whole_answer()
    assert len(tools.calls) == num_before


def test_for_the_conversation_nobody_is_asked_again(
    open_chat: OpenChat, tools: RunningServer
) -> None:
    chat = asked(opened(open_chat))
    chat.page.get_by_role("button", name="Allow in this conversation").click()
    expect(chat.last_prose).to_contain_text("21", timeout=ANSWER_MS)
    num_before = len(tools.calls)
    chat.page.get_by_role("button", name="Regenerate").first.click()
    expect(chat.page.locator(".version-count:visible").first).to_have_text(re.compile("2.*2"))
    expect(chat.page.locator(".call")).to_contain_text("Done", timeout=ANSWER_MS)
    expect(chat.last_prose).to_contain_text("21", timeout=ANSWER_MS)
    assert tools.calls[num_before:] == ["get_weather Paris"]


def test_a_lost_call_says_that_it_may_have_run_and_asks(
    open_chat: OpenChat, tools: RunningServer
) -> None:
    chat = opened(open_chat)
    lost = {"id": "2", "server": "S", "tool": "pay", "arguments": "{}", "state": "lost"}
    chat.module(
        "tool_calls_view",
        "const said = []; const onDecide = async (call, decision) => said.push(decision);"
        "const view = new module.ToolCallsView(argument, {onDecide});"
        "view.update({isLast: true, isBusy: false});"
        "document.querySelector('#thread').append(view.node); window.said = said;",
        {"id": "1", "content": "", "calls": [lost | {"result": ""}]},
    )
    call = chat.page.get_by_role("region", name="pay of S")
    expect(call).to_contain_text("Its result is lost, and it may have run. Try it again?")
    assert accessibility_faults(chat.page) == []
    call.get_by_role("button", name="Try again", exact=True).click()
    call.get_by_role("button", name="Do not try again").click()
    assert chat.page.evaluate("window.said") == ["once", "no"]


def test_what_a_tool_says_is_text(open_chat: OpenChat, tools: RunningServer) -> None:
    chat = opened(open_chat)
    message = {
        "id": "1",
        "content": "",
        "calls": [
            {"id": "2", "server": "<b>S</b>", "tool": "<img src=x onerror=alert(1)>"}
            | {"arguments": "<script>alert(1)</script>", "state": "failed"}
            | {"result": "<img src=x onerror=alert(1)>"}
        ],
    }
    html = chat.module(
        "tool_calls_view",
        "const view = new module.ToolCallsView(argument, {});"
        "view.update({isLast: true, isBusy: false}); document.body.append(view.node);"
        "return view.node.innerHTML;",
        message,
    )
    assert not re.search(r"<(img|script|b)\b", html)
    assert "&lt;script&gt;" in html


def test_a_model_without_tools_says_so_and_they_are_off(
    open_chat: OpenChat, tools: RunningServer
) -> None:
    chat = opened(open_chat)
    switch_on(chat.page)
    without = {"name": "plain", "supports_tools": False}
    chat.page.route(
        "**/chat/models",
        lambda route: route.fulfill(
            json={
                "models": [
                    {**one, **without, "is_default": True, "display_name": "Plain"}
                    for one in route.fetch().json()["models"][:1]
                ]
            }
        ),
    )
    chat.open()
    button = chat.page.get_by_role("button", name="Tools", exact=True)
    button.click()
    expect(chat.page.locator("#tools-note")).to_contain_text("This model has no way to call tools.")
    expect(chat.page.get_by_role("checkbox", name="Tests")).to_be_disabled()
    expect(chat.page.get_by_role("checkbox", name="Tests")).not_to_be_checked()
    assert accessibility_faults(chat.page) == []
