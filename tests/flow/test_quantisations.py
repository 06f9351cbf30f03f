"""Quantised copies of a running service: they answer; cancelled or killed, nothing is left over."""

from __future__ import annotations

import os
import shutil
import signal
import uuid
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest
from openai import OpenAI

from tests.flow.asking import DEMO_MODEL, ask
from tests.stack import Stack
from tests.tiny_models import tiny_model_path

pytestmark = pytest.mark.stack
SOON_SECONDS = 5.0  # a second, on a machine that has nothing else to do
_CANCEL = """
from hosting.actions.quantisations import cancel_copy
from hosting.models import Quantisation
print(cancel_copy(Quantisation.objects.get(name={name!r}), by=None))
"""


@pytest.fixture
def name() -> str:
    return f"copy-{uuid.uuid4().hex[:8]}"


@pytest.fixture
def unread(stack: Stack, tmp_path: Path) -> Iterator[str]:
    """A model that nobody can read to the end, for a part of it is never written."""
    folder = shutil.copytree(tiny_model_path("tiny-qwen3"), tmp_path / "unread")
    stack.manage("add_model", str(folder), "--name", "unread")
    os.mkfifo(folder / "generation_config.json")
    yield "unread"


def state(stack: Stack, name: str) -> str:
    (row,) = stack.rows(f"SELECT state FROM hosting_quantisation WHERE name = '{name}'")
    return str(row[0])


def children(stack: Stack) -> list[psutil.Process]:
    worker = stack.processes().get("celery")
    try:
        found = worker.children() if worker else []
        return [child for child in found if "engine.quantize" in child.cmdline()]
    except psutil.Error:  # it has ended meanwhile
        return []


def begin(stack: Stack, model: str, name: str) -> None:
    stack.manage("quantise_model", model, name, "--group-size", "32")
    stack.wait_until(lambda: bool(folders(stack, name)) and bool(children(stack)), "begun")


def folders(stack: Stack, name: str) -> list[str]:
    return [path.name for path in (stack.data_dir / "models").glob(f"quantised-*-{name}*")]


def wait_done(stack: Stack, name: str) -> None:
    stack.wait_until(lambda: state(stack, name) == "done", f"{name} is made")
    stack.wait_until(lambda: len(folders(stack, name)) == 1, "cleared up")
    assert not folders(stack, name)[0].endswith(".part")


def test_a_copy_is_asked_for_made_loaded_and_answers(
    stack: Stack, client: OpenAI, name: str
) -> None:
    told = stack.manage("quantise_model", DEMO_MODEL, name, "--bits", "8")
    assert f"{name}: asked for, about" in told
    wait_done(stack, name)
    assert name in [model.id for model in client.models.list()]
    assert "42" in ask(client, name, "What is 12 + 30?")


def test_a_cancelled_copy_leaves_nothing(
    stack: Stack, client: OpenAI, unread: str, name: str
) -> None:
    begin(stack, unread, name)
    assert stack.manage("shell", "-c", _CANCEL.format(name=name)) == "True"
    stack.wait_until(lambda: not folders(stack, name), "cleared up", seconds=SOON_SECONDS)
    assert state(stack, name) == "cancelled" and not children(stack)
    assert name not in [model.id for model in client.models.list()]


@pytest.mark.parametrize("who", ["worker", "child"])
def test_a_killed_process_makes_no_difference(
    stack: Stack, client: OpenAI, unread: str, name: str, tmp_path: Path, who: str
) -> None:
    begin(stack, unread, name)
    (child,) = children(stack)
    (tmp_path / "unread" / "generation_config.json").unlink()
    if who == "worker":
        stack.kill("celery")
    else:
        child.send_signal(signal.SIGKILL)
    wait_done(stack, name)
    assert not child.is_running()
    assert ask(client, name, "Hello")
