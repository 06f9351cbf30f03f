"""What happens to the prefix cache's folder changes how fast answers are, never what they say."""

from __future__ import annotations

import contextlib
import re
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest
from openai import OpenAI

from tests.flow.asking import ask, fresh_prompt, request
from tests.stack import Stack

pytestmark = pytest.mark.stack
WORDS = 400  # more than a block of tokens


def cache_folder(stack: Stack) -> Path:
    return stack.data_dir / "cache"


def record_files(stack: Stack) -> list[Path]:
    return [path for path in cache_folder(stack).rglob("*") if path.suffix == ".slice"]


def delete(stack: Stack) -> None:
    shutil.rmtree(cache_folder(stack))


def corrupt(stack: Stack) -> None:
    for path in record_files(stack):
        content = bytearray(path.read_bytes())
        content[len(content) // 2] ^= 1
        path.write_bytes(content)


def empty(stack: Stack) -> None:
    for path in record_files(stack):
        path.write_bytes(b"")


def restart_engine(stack: Stack) -> None:
    old = stack.kill("engine")
    stack.wait_restarted("engine", old)


@contextlib.contextmanager
def no_room(stack: Stack) -> Iterator[None]:
    """No file of the engine may grow, as on a full disk."""
    engine = psutil.Process(stack.pid_of("engine"))
    usual = engine.rlimit(psutil.RLIMIT_FSIZE)
    engine.rlimit(psutil.RLIMIT_FSIZE, (0, usual[1]))
    try:
        yield
    finally:
        engine.rlimit(psutil.RLIMIT_FSIZE, usual)


@contextlib.contextmanager
def not_a_folder(stack: Stack) -> Iterator[None]:
    """A file lies where the folder was: nothing in it can be read, written or listed."""
    shutil.rmtree(cache_folder(stack))
    cache_folder(stack).touch()
    try:
        yield
    finally:
        cache_folder(stack).unlink()


def num_write_errors(stack: Stack) -> float:
    _, body = stack.get("/metrics")
    event = r'hearth_cache_records_total\{[^}]*event="write_errors"[^}]*\} (\S+)'
    return sum(map(float, re.findall(event, body.decode())))


@pytest.mark.skipif(not hasattr(psutil.Process, "rlimit"), reason="limits of a running process")
@pytest.mark.parametrize("fail", [no_room, not_a_folder])
def test_a_failing_disk_changes_speed_only_and_is_told(
    stack: Stack,
    client: OpenAI,
    endless: str,
    fail: Callable[[Stack], contextlib.AbstractContextManager[None]],
) -> None:
    known, other = (fresh_prompt() + " word" * WORDS for _ in range(2))
    first = ask(client, endless, known)
    stack.wait_until(lambda: bool(record_files(stack)), "written to disk")
    before = num_write_errors(stack)
    with fail(stack):
        assert ask(client, endless, known) == first
        answer = ask(client, endless, other)
        assert ask(client, endless, other) == answer
        stack.wait_until(lambda: num_write_errors(stack) > before, "told")
    files = len(record_files(stack))
    for _ in range(2):  # the first may only find out that the folder is another one
        ask(client, endless, fresh_prompt() + " word" * WORDS)
    stack.wait_until(lambda: len(record_files(stack)) > files, "written again")


@pytest.mark.parametrize("hurt", [delete, corrupt, empty])
def test_a_hurt_cache_folder_changes_speed_only(
    stack: Stack, client: OpenAI, endless: str, hurt: Callable[[Stack], None]
) -> None:
    prompt = fresh_prompt() + " word" * WORDS
    first = ask(client, endless, prompt)
    stack.wait_until(lambda: bool(record_files(stack)), "written to disk")
    hurt(stack)
    assert ask(client, endless, prompt) == first
    restart_engine(stack)
    assert ask(client, endless, prompt) == first
    other = fresh_prompt() + " word" * WORDS
    ask(client, endless, other)
    stack.wait_until(lambda: bool(record_files(stack)), "written again")


def test_after_a_kill_the_disk_brings_the_prompt_back(
    stack: Stack, client: OpenAI, endless: str
) -> None:
    restart_engine(stack)  # what is written from here on is ours
    prompt = fresh_prompt() + " word" * WORDS
    before = set(record_files(stack))
    first = ask(client, endless, prompt)
    stack.wait_until(lambda: len(set(record_files(stack)) - before) >= 4, "written to disk")
    restart_engine(stack)
    answer = client.chat.completions.create(**request(endless, prompt))
    assert answer.choices[0].message.content == first
    assert answer.usage is not None and answer.usage.prompt_tokens_details is not None
    assert (answer.usage.prompt_tokens_details.cached_tokens or 0) >= 256
