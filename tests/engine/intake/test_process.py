"""`python -m engine.intake` as a process: answers, survives, and ends when told."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from engine import wire
from engine.transport import IntakeQueue
from tests.engine.transport.rig import Rig
from tests.makers import make_generate
from tests.redis_process import RedisProcess
from tests.waiting import wait_until

ROOT = Path(__file__).resolve().parents[3]


@pytest.fixture
def rig(redis_url: str, folder: Path) -> Rig:
    rig = Rig(redis_url)
    rig.client.publish_models((wire.ModelSpec(name="demo", path=str(folder)),))
    return rig


@pytest.fixture
def intake(rig: Rig) -> Iterator[subprocess.Popen[bytes]]:
    process = start_intake(rig.url)
    yield process
    process.kill()
    process.wait()


def start_intake(url: str) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        [sys.executable, "-m", "engine.intake"], cwd=ROOT, env={**os.environ, "REDIS_URL": url}
    )


def first_answer(rig: Rig, request_id: str) -> wire.Event:
    wait_until(lambda: rig.client.read_events(request_id) != [])
    return rig.events(request_id)[0]


def test_it_accepts_refuses_and_goes_on(rig: Rig, intake: subprocess.Popen[bytes]) -> None:
    rig.submit("good", "unknown", "bad", "long")
    rig.client.submit(make_generate("no-model", model="../../etc"))
    rig.client.submit(make_generate("nan", sampling=wire.Sampling(seed=1, temperature=9.0)))
    rig.client.submit(make_generate("half", prompt="\ud800"))
    rig.client.submit(make_generate("deep", template_options={"a": nested(200)}))

    assert isinstance(first_answer(rig, "good"), wire.Accepted)
    refused = first_answer(rig, "no-model")
    assert isinstance(refused, wire.Refused)
    assert (refused.code, refused.param) == (wire.Code.MODEL_NOT_FOUND, "model")
    assert first_answer(rig, "nan").param == "temperature"
    assert first_answer(rig, "half").param == "prompt"
    assert first_answer(rig, "deep") is not None
    assert intake.poll() is None


def test_who_waits_hears_that_the_model_is_not_served_any_more(
    rig: Rig, intake: subprocess.Popen[bytes]
) -> None:
    rig.submit("a")
    assert isinstance(first_answer(rig, "a"), wire.Accepted)
    rig.client.publish_models(())
    wait_until(lambda: rig.ended() == ["a"])
    failed = rig.events("a")[-1]
    assert isinstance(failed, wire.Failed)
    assert failed.code == wire.Code.MODEL_NOT_FOUND
    assert intake.poll() is None


def test_it_counts_without_generating(rig: Rig, intake: subprocess.Popen[bytes]) -> None:
    rig.client.count_tokens(make_generate("short", prompt="four"))
    rig.client.count_tokens(make_generate("long", prompt="x" * 1000))
    rig.client.count_tokens(make_generate("odd", messages=()))

    assert first_answer(rig, "short") == wire.Counted(prompt_tokens=4)
    assert first_answer(rig, "long") == wire.Counted(prompt_tokens=1000)
    assert first_answer(rig, "odd").param == "messages"
    assert rig.client.waiting() == []


def test_an_entry_that_is_no_message_is_refused(rig: Rig, intake: subprocess.Popen[bytes]) -> None:
    for i, message in enumerate(["", "[" * 100_000, '{"type":"Cancel","request_id":"x"}']):
        rig.scripts("submit", f"odd{i}", "demo", "t", "api", 1, message, "", 100)
        assert isinstance(first_answer(rig, f"odd{i}"), wire.Refused)
    assert intake.poll() is None


def test_an_entry_that_killed_intake_twice_is_refused_unseen(rig: Rig) -> None:
    rig.submit("deadly", "good")
    for _ in range(2):
        entries = IntakeQueue(rig.url, name="intake-1").entries()
        assert next(entries).request_id == "deadly"  # and here it dies
    process = start_intake(rig.url)

    assert isinstance(first_answer(rig, "deadly"), wire.Refused)
    assert isinstance(first_answer(rig, "good"), wire.Accepted)
    process.kill()
    process.wait()


def test_it_ends_cleanly_when_told(rig: Rig, intake: subprocess.Popen[bytes]) -> None:
    rig.submit("a")
    first_answer(rig, "a")
    intake.send_signal(signal.SIGTERM)

    assert intake.wait(timeout=5) == 0


def test_it_outlives_a_restart_of_redis(mortal_redis: RedisProcess, folder: Path) -> None:
    process = start_intake(mortal_redis.url)
    rig = Rig(mortal_redis.url)
    rig.client.publish_models((wire.ModelSpec(name="demo", path=str(folder)),))
    rig.submit("before")
    first_answer(rig, "before")
    mortal_redis.kill()
    mortal_redis.forget()
    mortal_redis.start()
    rig = Rig(mortal_redis.url)
    rig.submit("after")

    # The models are not published again here: intake still knows them.
    assert isinstance(first_answer(rig, "after"), wire.Accepted)
    process.kill()
    process.wait()


def test_a_bomb_refuses_one_request_and_its_memory_is_capped(
    rig: Rig, intake: subprocess.Popen[bytes], folder: Path
) -> None:
    bomb = (
        "{% set ns = namespace(x='aaaaaaaa') %}{% for i in range(99) %}"
        "{% set ns.x = ns.x ~ ns.x %}{% endfor %}{{ ns.x }}"
    )
    (folder / "chat_template.jinja").write_text(bomb)
    rig.submit("bomb")
    began = time.monotonic()
    assert isinstance(first_answer(rig, "bomb"), wire.Refused)
    assert time.monotonic() - began < 15
    (folder / "chat_template.jinja").unlink()
    rig.submit("good")

    assert isinstance(first_answer(rig, "good"), wire.Accepted)
    assert intake.poll() is None


def nested(depth: int) -> object:
    value: object = 1
    for _ in range(depth):
        value = [value]
    return value
