"""The documented start behind a proxy: it says ready, and this machine may still ask how it is."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator

import pytest

from tests.stack import ROOT, Stack, running_stack

pytestmark = pytest.mark.stack
HOST = "hearth.example.org"


@pytest.fixture(scope="module")
def stack() -> Iterator[Stack]:
    named = {"HEARTH_HTTPS": "1", "HEARTH_ALLOWED_HOSTS": HOST}
    nobody = {"HEARTH_ADMIN_EMAIL": "", "HEARTH_ADMIN_PASSWORD": ""}
    with running_stack(**named, **nobody) as running:
        yield running


def test_the_link_for_the_first_administrator_has_the_public_name(stack: Stack) -> None:
    stack.wait_until(lambda: f"https://{HOST}/setup/" in stack.output(), "linked", seconds=20)
    assert f"ready at https://{HOST} " in stack.output()
    assert "DisallowedHost" not in stack.output()


def test_this_machine_may_ask_how_it_is(stack: Stack) -> None:
    assert [stack.get(path)[0] for path in ("/healthz", "/readyz", "/metrics")] == [200] * 3
    doctor = subprocess.run(
        [sys.executable, "manage.py", "doctor"], cwd=ROOT, env=stack.environ, capture_output=True
    )
    assert b"used by a running Hearth" in doctor.stdout


def test_people_come_by_the_public_name_alone(stack: Stack) -> None:
    assert stack.get("/accounts/sign-in/", Host=HOST, **{"X-Forwarded-Proto": "https"})[0] == 200
    assert stack.get("/accounts/sign-in/", Host="elsewhere.example.org")[0] == 400
