"""Access that is taken away ends at every web process: how soon, on a running installation."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple

import psutil
import pytest
from openai import OpenAI

from tests.flow.asking import ENDLESS_MODEL, RunningAnswer, fresh_prompt
from tests.flow.chat_page import ChatPage
from tests.flow.test_web_processes import stack, web_processes
from tests.stack import Stack
from tests.tiny_models import tiny_model_path

__all__ = ["stack"]

KEY_SECONDS, PERSON_SECONDS = 1.0, 5.0
SIGNED_OUT = 4401
EMAIL = "eve@example.org"
NO_LONGER_ACTIVE = {"email": EMAIL, "quota-TOTAL_FORMS": 0, "quota-INITIAL_FORMS": 0}
MANY = 20  # so many connections meet both processes
_ADD = """
from django.core.management import call_command
from accounts.keys import create_api_key
from accounts.models import User
call_command("add_model", {path!r}, name={model!r})
person = User.objects.create_user({email!r}, {password!r})
lost, lost_secret = create_api_key(user=person, name="lost")
print(person.pk, create_api_key(user=person, name="kept")[1], lost.pk, lost_secret)
"""


class Made(NamedTuple):
    person: str
    secret: str
    lost_key: str
    lost_secret: str


@pytest.fixture(scope="module")
def made(stack: Stack) -> Made:
    """Somebody with two keys, one of them lost, and a model that does not end by itself."""
    script = _ADD.format(
        path=str(tiny_model_path("tiny-qwen3")),
        model=ENDLESS_MODEL,
        email=EMAIL,
        password=stack.admin_password,
    )
    return Made(*stack.manage("shell", "-c", script).split())


@pytest.fixture(scope="module")
def administrator(stack: Stack) -> Iterator[ChatPage]:
    with ChatPage(stack) as page:
        yield page


@pytest.fixture
def opened() -> Iterator[contextlib.ExitStack]:
    """The connections of a test."""
    with contextlib.ExitStack() as found:
        yield found


def until_both_have(stack: Stack, open_one: Callable[[], object]) -> None:
    """Open one after the other until each web process serves some."""
    port = stack.port

    def serves(process: psutil.Process) -> bool:
        sockets = process.net_connections("tcp")
        return any(one.status == "ESTABLISHED" and one.laddr.port == port for one in sockets)

    while not all(map(serves, web_processes(stack))):
        open_one()


def stream(stack: Stack, opened: contextlib.ExitStack, secret: str) -> RunningAnswer:
    client = OpenAI(base_url=f"{stack.base_url}/v1", api_key=secret, max_retries=0)
    opened.enter_context(client)
    running = RunningAnswer(client, ENDLESS_MODEL, fresh_prompt(), max_tokens=12_000)
    running.wait_for_chunks(1)
    return running


def seconds_until(holds: Callable[[], bool], *, since: float) -> float:
    deadline = since + 30
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(0.02)
    return time.monotonic() - since


def is_refused_everywhere(stack: Stack, secret: str) -> bool:
    def status(_: int) -> int:
        return stack.get("/v1/models", Authorization=f"Bearer {secret}")[0]

    with ThreadPoolExecutor(MANY) as pool:
        return set(pool.map(status, range(MANY))) == {401}


def slowness(stack: Stack) -> float:
    """What this machine takes at the moment for next to nothing, several times."""
    started = time.monotonic()
    for _ in range(10):
        assert stack.get("/healthz")[0] == 200
    return time.monotonic() - started


def test_a_revoked_key_ends_everywhere_within_a_second(
    stack: Stack, made: Made, administrator: ChatPage, opened: contextlib.ExitStack
) -> None:
    running: list[RunningAnswer] = []
    until_both_have(stack, lambda: running.append(stream(stack, opened, made.lost_secret)))
    slow = slowness(stack)
    answer = {"action": "revoke", "_selected_action": made.lost_key, "confirmed": "yes"}
    administrator.submit("/admin/accounts/apikey/", answer)
    since = time.monotonic()
    closed = seconds_until(lambda: not any(one.is_running for one in running), since=since)
    took = seconds_until(lambda: is_refused_everywhere(stack, made.lost_secret), since=since)
    print(f"streams closed after {closed:.2f} s, refused everywhere after {took:.2f} s; {slow:.2f}")
    assert took <= KEY_SECONDS + slow


def test_a_person_who_is_switched_off_is_out_within_five_seconds(
    stack: Stack, made: Made, administrator: ChatPage, opened: contextlib.ExitStack
) -> None:
    pages: list[ChatPage] = []

    def open_page() -> None:
        pages.append(opened.enter_context(ChatPage(stack, EMAIL)))
        pages[-1].open_socket()

    until_both_have(stack, open_page)
    running = stream(stack, opened, made.secret)
    slow = slowness(stack)
    administrator.submit(f"/admin/accounts/user/{made.person}/change/", NO_LONGER_ACTIVE)
    since = time.monotonic()
    assert {page.status_of("/chat/models") for page in pages} == {401}
    seconds_until(lambda: not running.is_running, since=since)
    took = seconds_until(lambda: is_refused_everywhere(stack, made.secret), since=since)
    assert took <= KEY_SECONDS + slow
    assert {page.close_code() for page in pages} == {SIGNED_OUT}
    closed = time.monotonic() - since
    print(f"refused everywhere after {took:.2f} s, sockets closed after {closed:.2f} s; {slow:.2f}")
    assert closed <= PERSON_SECONDS + slow
