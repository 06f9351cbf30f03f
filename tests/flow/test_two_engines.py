"""Two engines behind one web tier, and a third that is as if on another machine."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from openai import APIStatusError, OpenAI

from engine import wire
from hosting.engine_client import EngineClient
from tests.flow.asking import ENDLESS_MODEL, ask, fresh_prompt, request, start_all, sure_answers
from tests.stack import MANY_AT_ONCE, ROOT, Stack, running_stack
from tests.tiny_models import tiny_model_path
from tests.waiting import wait_until

pytestmark = pytest.mark.stack
LONG = 1500  # some seconds: engines tell once a second what they do
NUM_TURNS, LONG_PROMPT_WORDS = 5, 400
HERE_ONLY = "here-only"


class Pair:
    """The installation, who asks it, and what its engines say."""

    def __init__(self, stack: Stack) -> None:
        self.stack = stack
        self.url = wire.default_redis_url(str(stack.data_dir))
        self.redis = EngineClient(self.url)
        key = stack.create_api_key()
        self.client = OpenAI(base_url=f"{stack.base_url}/v1", api_key=key, max_retries=0)

    def beats(self) -> dict[str, wire.EngineStatus]:
        return {beat.engine: beat for beat in self.redis.engines()}

    def wait_for(self, *names: str) -> None:
        wait_until(lambda: set(self.beats()) == set(names), seconds=60)

    def busy(self) -> dict[str, int]:
        """Requests by engine."""
        return {name: len(beat.rows) for name, beat in self.beats().items()}

    def both_work(self) -> bool:
        return all(self.busy().get(name, 0) > 0 for name in ("engine-1", "engine-2"))

    def load_everywhere(self, model: str) -> None:
        """So that what is measured is no load."""
        self.redis.load_model(model)
        wait_until(
            lambda: all(_has_loaded(one, model) for one in self.beats().values()), seconds=60
        )


@pytest.fixture(scope="module")
def pair() -> Iterator[Pair]:
    environment = {"HEARTH_ENGINES": "2", "HEARTH_MAX_CONCURRENT": MANY_AT_ONCE}
    with running_stack(HEARTH_WEB_PROCESSES="1", **environment) as stack:
        stack.manage("add_model", str(tiny_model_path("tiny-qwen3")), "--name", ENDLESS_MODEL)
        made = Pair(stack)
        made.wait_for("engine-1", "engine-2")
        made.load_everywhere(ENDLESS_MODEL)
        yield made


@contextlib.contextmanager
def engine_elsewhere(pair: Pair, folder: Path, **environment: str) -> Iterator[None]:
    """An engine with a data folder of its own. What is registered by /proc/self/cwd it has not."""
    folder.mkdir()
    process = subprocess.Popen(
        [sys.executable, "-m", "engine", "--name", "elsewhere"],
        cwd=folder,
        env={
            **pair.stack.environ,
            "PYTHONPATH": str(ROOT),
            "REDIS_URL": pair.url,
            "HEARTH_DATA_DIR": str(folder),
            **environment,
        },
    )
    try:
        wait_until(lambda: "elsewhere" in pair.beats(), seconds=60)
        yield
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(timeout=20)


def _has_loaded(beat: wire.EngineStatus, model: str) -> bool:
    return any((one.name, one.state) == (model, "loaded") for one in beat.models)


def test_both_engines_answer_about_as_many(pair: Pair) -> None:
    running = start_all(
        pair.client, ENDLESS_MODEL, [fresh_prompt() for _ in range(6)], max_tokens=LONG
    )
    wait_until(pair.both_work)
    assert max(pair.busy().values()) <= 4
    assert all(one.text() for one in running)


def test_one_is_killed_and_its_answers_go_on_in_the_other(pair: Pair) -> None:
    prompts, undisturbed = sure_answers(pair.client, ENDLESS_MODEL, 4, max_tokens=LONG)
    running = start_all(pair.client, ENDLESS_MODEL, prompts, max_tokens=LONG)
    wait_until(pair.both_work)
    old = pair.beats()["engine-2"].pid
    os.kill(old, signal.SIGKILL)
    assert pair.stack.readiness() == (200, [])
    assert [one.text() for one in running] == undisturbed
    wait_until(lambda: pair.beats().get("engine-2", pair.beats()["engine-1"]).pid != old)
    pair.wait_for("engine-1", "engine-2")


def test_one_ends_and_the_other_has_its_answers_at_once(pair: Pair) -> None:
    pair.load_everywhere(ENDLESS_MODEL)
    prompts, undisturbed = sure_answers(pair.client, ENDLESS_MODEL, 4, max_tokens=LONG)
    running = start_all(pair.client, ENDLESS_MODEL, prompts, max_tokens=LONG)
    wait_until(pair.both_work)
    num_running = sum(one.is_running for one in running)
    os.kill(pair.beats()["engine-2"].pid, signal.SIGTERM)
    wait_until(lambda: pair.busy().get("engine-1", 0) >= num_running or not running[0].is_running)
    assert [one.text() for one in running] == undisturbed
    pair.wait_for("engine-1", "engine-2")


def test_each_conversation_stays_where_its_prefix_is(pair: Pair) -> None:
    pair.load_everywhere(ENDLESS_MODEL)
    words = " ".join(f"word{number}" for number in range(LONG_PROMPT_WORDS))
    talks = [[_said("user", f"{fresh_prompt()} {words}")] for _ in range(4)]
    found = asked = 0
    for _ in range(NUM_TURNS):
        for talk in talks:
            usage = _answer(pair.client, talk)
            asked += usage.prompt_tokens
            found += usage.prompt_tokens_details.cached_tokens
    first_turns = asked / NUM_TURNS
    assert found >= 0.95 * (asked - first_turns) - NUM_TURNS * len(talks) * 256


def _said(role: str, content: str) -> dict[str, str]:
    return {"role": role, "content": content}


def _answer(client: OpenAI, talk: list[dict[str, str]]) -> Any:
    """One turn more; what it took."""
    asked = request(ENDLESS_MODEL, "", max_tokens=8) | {"messages": talk}
    answer = client.chat.completions.create(**asked)
    talk += [_said("assistant", answer.choices[0].message.content or ""), _said("user", "Go on.")]
    return answer.usage


def test_a_model_that_one_engine_lacks_is_answered_by_the_others(
    pair: Pair, tmp_path: Path
) -> None:
    """And an engine that has it elsewhere answers as well; nobody who lacks it fails a request."""
    _register_here_only(pair, tmp_path / "model")
    with engine_elsewhere(pair, tmp_path / "lacks"):
        wait_until(lambda: _state(pair, "elsewhere") == "failed")
        running = start_all(
            pair.client, HERE_ONLY, [fresh_prompt() for _ in range(8)], max_tokens=32
        )
        assert all(one.text() for one in running)
        assert pair.busy()["elsewhere"] == 0
    _tear(shutil.copytree(tiny_model_path("tiny-qwen3"), tmp_path / "torn" / HERE_ONLY))
    with engine_elsewhere(pair, tmp_path / "fails", HEARTH_MODEL_FOLDERS=str(tmp_path / "torn")):
        running = start_all(
            pair.client, HERE_ONLY, [fresh_prompt() for _ in range(9)], max_tokens=32
        )
        assert all(one.text() for one in running)
        wait_until(lambda: _state(pair, "elsewhere") == "failed")
    models = tmp_path / "models"
    shutil.copytree(tiny_model_path("tiny-qwen3"), models / HERE_ONLY)
    with engine_elsewhere(pair, tmp_path / "has", HEARTH_MODEL_FOLDERS=str(models)):
        pair.redis.load_model(HERE_ONLY)
        wait_until(lambda: _state(pair, "elsewhere") == "loaded", seconds=60)


def _tear(folder: Path) -> None:
    weights = next(folder.glob("*.safetensors"))
    weights.write_bytes(weights.read_bytes()[: weights.stat().st_size // 2])


def _register_here_only(pair: Pair, folder: Path) -> None:
    """By a path that only processes have that run in the checkout."""
    shutil.copytree(tiny_model_path("tiny-qwen3"), folder)
    pair.stack.manage("add_model", str(folder), "--name", HERE_ONLY)
    path = f"/proc/self/cwd/{os.path.relpath(folder, ROOT)}"
    pair.stack.manage(
        "shell",
        "-c",
        "from hosting.models import HostedModel; "
        "from hosting.actions.hosted_models import publish_models; "
        f"HostedModel.objects.filter(name={HERE_ONLY!r}).update(path={path!r}); publish_models()",
    )


def _state(pair: Pair, engine: str) -> str | None:
    models = pair.beats()[engine].models if engine in pair.beats() else ()
    return next((one.state for one in models if one.name == HERE_ONLY), None)


def test_engines_alone_on_a_machine_have_no_database_and_publish_nothing(
    pair: Pair, tmp_path: Path
) -> None:
    published = pair.redis.published_models()
    elsewhere = {
        "REDIS_URL": pair.url,
        "HEARTH_DATA_DIR": str(tmp_path),
        "HEARTH_ENGINES": "far-1,far-2",
    }
    up = subprocess.Popen(
        [sys.executable, "manage.py", "up", "--only", "engine"],
        cwd=ROOT,
        env={**pair.stack.environ, **elsewhere},
        stdout=subprocess.DEVNULL,
    )
    try:
        pair.wait_for("engine-1", "engine-2", "far-1", "far-2")
        limits = {beat.memory.limit_bytes for beat in pair.beats().values() if beat.memory}
        assert len(limits) == 1  # half of the machine's each
    finally:
        up.send_signal(signal.SIGTERM)
        assert up.wait(timeout=30) == 0
    assert pair.redis.published_models() == published
    assert not (tmp_path / "db.sqlite3").exists()


def test_what_no_engine_can_load_is_refused_with_the_reason(pair: Pair, tmp_path: Path) -> None:
    folder = tmp_path / "torn"
    shutil.copytree(tiny_model_path("tiny-qwen3"), folder)
    pair.stack.manage("add_model", str(folder), "--name", "torn")
    _tear(folder)
    started = time.monotonic()
    with pytest.raises(APIStatusError, match="safetensors") as refused:
        ask(pair.client, "torn", "Hello", max_tokens=2)
    assert refused.value.status_code == 503
    assert time.monotonic() - started < 20
    assert all(one.models for one in pair.beats().values())


def test_metrics_and_readiness_tell_of_both(pair: Pair) -> None:
    pair.wait_for("engine-1", "engine-2")
    assert pair.stack.readiness() == (200, [])
    _, metrics = pair.stack.get("/metrics")
    assert b"hearth_engines 2.0" in metrics
    for name in (b"engine-1", b"engine-2"):
        assert b'engine="%s"' % name in metrics
