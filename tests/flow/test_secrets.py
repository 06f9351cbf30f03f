"""After a day of use neither the database nor any log holds anything that opens a door."""

from __future__ import annotations

import re
from pathlib import Path

import httpx
import pytest

from tests.stack import Stack

WORDS = "my-words-for-the-model-alone"
PASSWORD = "a-long-word-for-the-new-person"


@pytest.fixture(scope="module")
def used(stack: Stack) -> tuple[Stack, dict[str, str]]:
    """The installation after that day, and every secret of it by name."""
    return stack, a_day(stack)


def a_day(stack: Stack) -> dict[str, str]:
    secrets = {"password": stack.admin_password, "new password": PASSWORD}
    with Browser(stack.base_url) as admin:
        admin.submit("/accounts/sign-in/", username=stack.admin_email, password="wrong-" + PASSWORD)
        secrets["wrong password"] = "wrong-" + PASSWORD
        admin.submit(
            "/accounts/sign-in/", username=stack.admin_email, password=stack.admin_password
        )
        secrets["session"] = admin.cookie("session")
        keys = admin.submit("/accounts/keys/", name="script")
        secrets["key"] = found(r"sk-hearth-\w{57}", keys)
        link = admin.submit("/accounts/people/", role="member", email="grace@example.org")
        secrets["invitation"] = found(r"/invitation/([\w-]+)/", link)
    with Browser(stack.base_url) as guest:
        guest.submit(
            f"/invitation/{secrets['invitation']}/",
            email="grace@example.org", name="Grace", password1=PASSWORD, password2=PASSWORD,
        )  # fmt: skip
        secrets["guest's session"] = guest.cookie("session")
    ask(stack, secrets["key"])
    ask(stack, secrets["key"][:-1] + "x")
    stack.wait_settled()
    return secrets


class Browser(httpx.Client):
    def __init__(self, base_url: str) -> None:
        super().__init__(base_url=base_url, follow_redirects=True, timeout=30)

    def cookie(self, name: str) -> str:
        return next(value for key, value in self.cookies.items() if name in key)

    def submit(self, path: str, **fields: str) -> str:
        token = found(r'name="csrfmiddlewaretoken" value="(\w+)"', self.get(path).text)
        headers = {"referer": str(self.base_url)}
        return self.post(path, data=fields | {"csrfmiddlewaretoken": token}, headers=headers).text


def ask(stack: Stack, key: str) -> None:
    body = {"messages": [{"role": "user", "content": WORDS}], "max_tokens": 4}
    url = f"{stack.base_url}/v1/chat/completions"
    httpx.post(url, json=body | {"model": "demo"}, headers={"x-api-key": key}, timeout=60)


def found(pattern: str, text: str) -> str:
    match = re.search(pattern, text)
    assert match, text[-2000:]
    return match[match.lastindex or 0]


def test_no_secret_is_in_the_database(used: tuple[Stack, dict[str, str]]) -> None:
    stack, secrets = used
    stack.manage("dumpdata", "--all", "--output", str(stack.data_dir / "dump.json"))
    dump = (stack.data_dir / "dump.json").read_text()
    assert "grace@example.org" in dump and secrets["key"][:18] in dump
    assert [name for name, secret in secrets.items() if secret in dump] == []
    assert WORDS not in dump


def test_no_secret_is_in_any_log(used: tuple[Stack, dict[str, str]]) -> None:
    stack, secrets = used
    logs = "\n".join(path.read_text(errors="replace") for path in log_files(stack))
    assert "/v1/chat/completions" in logs
    assert [name for name, secret in secrets.items() if secret in logs] == []
    assert WORDS not in logs


def log_files(stack: Stack) -> list[Path]:
    return [stack.data_dir / "up.txt", *stack.data_dir.rglob("*.log")]
