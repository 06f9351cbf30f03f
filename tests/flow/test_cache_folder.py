"""What happens to the prefix cache's folder changes how fast answers are, never what they say."""

from __future__ import annotations

import contextlib
import json
import os
import re
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest
from openai import OpenAI

from tests.engine.devices import needs_slow_prompts
from tests.flow.asking import (
    MAX_TOKENS,
    RunningAnswer,
    ask,
    fresh_prompt,
    request,
    start_all,
    sure_answers,
)
from tests.flow.chat_page import ChatPage
from tests.stack import Stack

pytestmark = pytest.mark.stack
WORDS = 400  # more than a block of tokens
MANY_WORDS = 2_000  # computing them takes many times what reading does, on a busy machine too
LONG = 600  # tokens: longer than asking three times takes


def cache_folder(stack: Stack) -> Path:
    return stack.data_dir / "cache"


def record_files(stack: Stack) -> list[Path]:
    return [path for path in cache_folder(stack).rglob("*") if path.suffix == ".slice"]


def delete_folder(stack: Stack) -> None:
    """At once, whatever is being written into it."""
    aside = stack.data_dir / "deleted"
    cache_folder(stack).rename(aside)
    shutil.rmtree(aside)


def flip_a_bit(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)


def make_a_folder_of(path: Path) -> None:
    path.unlink()
    path.mkdir()


def make_a_loop_of(path: Path) -> None:
    path.unlink()
    path.symlink_to(path)


def forbid(path: Path) -> None:
    path.chmod(0)


def swap(path: Path) -> None:
    other = min(path.parent.parent.rglob("*.slice"))
    other.rename(path)


HURTS = (
    flip_a_bit,
    lambda path: path.write_bytes(b""),
    lambda path: os.truncate(path, path.stat().st_size // 2),
    make_a_folder_of,
    make_a_loop_of,
    forbid,
    Path.unlink,
    swap,
)


def hurt(paths: list[Path]) -> None:
    """Each in another way, while the engine reads, writes and removes them."""
    for number, path in enumerate(paths):
        with contextlib.suppress(OSError):
            HURTS[number % len(HURTS)](path)


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
    is_there = False
    while not is_there:  # the engine may be quicker, and make the folder anew
        delete_folder(stack)
        with contextlib.suppress(FileExistsError):
            cache_folder(stack).touch(exist_ok=False)
            is_there = True
    try:
        yield
    finally:
        cache_folder(stack).unlink()


def count_of(stack: Stack, *events: str) -> float:
    """Records of the disk tier to which one of these happened."""
    _, body = stack.get("/metrics")
    event = rf'hearth_cache_records_total\{{[^}}]*event="(?:{"|".join(events)})"[^}}]*\}} (\S+)'
    return sum(map(float, re.findall(event, body.decode())))


def hindrance(page: ChatPage) -> str:
    """Why nothing is written, as the administration's page of the cache says it."""
    disk = json.loads(page.read("/admin/history/cache/"))["figures"]["tiers"]["disk"]
    return str(disk["hindrance"])


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
    before, page = count_of(stack, "write_errors"), ChatPage(stack)
    stream = RunningAnswer(client, endless, fresh_prompt(), max_tokens=LONG)
    stream.wait_for_chunks(1)
    with fail(stack):
        assert ask(client, endless, known) == first
        answer = ask(client, endless, other)
        assert ask(client, endless, other) == answer
        stack.wait_until(lambda: count_of(stack, "write_errors") > before, "told")
        stack.wait_until(lambda: bool(hindrance(page)), "explained")
    assert stream.text() and stream.finish_reason == "length"
    files = len(record_files(stack))
    for _ in range(2):  # the first may only find out that the folder is another one
        ask(client, endless, fresh_prompt() + " word" * WORDS)
    stack.wait_until(lambda: len(record_files(stack)) > files, "written again")
    stack.wait_until(lambda: not hindrance(page), "no longer explained")


@needs_slow_prompts
def test_whatever_befalls_the_folder_under_eight_streams_they_say_the_same(
    stack: Stack, client: OpenAI, endless: str
) -> None:
    before = set(record_files(stack))  # of other tests
    prompts, undisturbed = sure_answers(client, endless, 8, max_tokens=MAX_TOKENS, words=WORDS)
    stack.wait_until(lambda: len(set(record_files(stack)) - before) >= 24, "written to disk")
    restart_engine(stack)  # from here on it has them on disk only
    files = sorted(set(record_files(stack)) - before)
    hurt(files[::2])
    streams = start_all(client, endless, prompts)
    hurt(files[1::2])
    assert [stream.text() for stream in streams] == undisturbed
    stack.wait_until(lambda: count_of(stack, "corrupt", "read_errors") > 0, "noticed")
    streams = start_all(client, endless, prompts)
    delete_folder(stack)
    assert [stream.text() for stream in streams] == undisturbed
    for _ in range(2):
        ask(client, endless, fresh_prompt() + " word" * WORDS)
    stack.wait_until(lambda: bool(record_files(stack)), "written again")


@needs_slow_prompts
def test_after_a_kill_the_disk_brings_the_prompt_back(
    stack: Stack, client: OpenAI, endless: str
) -> None:
    restart_engine(stack)  # what is written from here on is ours
    prompt = fresh_prompt() + " word" * MANY_WORDS
    before = set(record_files(stack))
    first = ask(client, endless, prompt)
    stack.wait_until(lambda: len(set(record_files(stack)) - before) >= 4, "written to disk")
    restart_engine(stack)
    answer = client.chat.completions.create(**request(endless, prompt))
    assert answer.choices[0].message.content == first
    assert answer.usage is not None and answer.usage.prompt_tokens_details is not None
    assert (answer.usage.prompt_tokens_details.cached_tokens or 0) >= 256
