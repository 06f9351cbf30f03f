"""Images through the real processes: from what a client sends to the answer, also over a crash."""

from __future__ import annotations

import contextlib
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from engine import wire
from tests.engine.intake.test_images import asking, file_of, photo, shown, text
from tests.engine.intake.test_process import start_intake
from tests.engine.test_process import COMMAND, ROOT, environment
from tests.engine.transport.rig import Rig
from tests.tiny_models import SEEING, tiny_model_path
from tests.waiting import wait_until

MAX_TOKENS = 400
GREEDY = wire.Sampling(seed=1, temperature=0.0)
FILES = tuple(file_of(photo(seed=seed), "JPEG") for seed in (1, 2))


@contextlib.contextmanager
def running(*processes: subprocess.Popen[bytes]) -> Iterator[None]:
    try:
        yield
    finally:
        for process in processes:
            process.kill()
            process.wait()


@pytest.fixture
def rig(redis_url: str) -> Iterator[Rig]:
    rig = Rig(redis_url)
    spec = wire.ModelSpec(name="demo", path=str(tiny_model_path(SEEING)))
    rig.client.publish_models((spec,))
    with running(start_intake(redis_url)):
        yield rig


def start_engine(rig: Rig, folder: Path) -> subprocess.Popen[bytes]:
    return subprocess.Popen(COMMAND, cwd=ROOT, env=environment(rig.url, folder))


def ask(rig: Rig, request_id: str, *files: bytes, tenant: str, **changes: Any) -> None:
    parts = [part for file in files for part in (shown(file), text("and"))]
    generate = asking(
        *parts,
        files=files,
        tenant=tenant,
        max_tokens=MAX_TOKENS,
        sampling=GREEDY,
        **changes,
    )
    rig.client.submit(wire.replace(generate, request_id=request_id))


def tokens(rig: Rig, request_id: str) -> list[int]:
    deltas = (one for one in rig.events(request_id) if isinstance(one, wire.Delta))
    return [token_id for delta in deltas for token_id in delta.token_ids]


def answer(rig: Rig, request_id: str) -> list[int]:
    wait_until(lambda: request_id in rig.ended(), seconds=120)
    end = rig.events(request_id)[-1]
    assert isinstance(end, wire.Finished), end
    return tokens(rig, request_id)


def test_an_answer_about_images_outlives_a_killed_engine(rig: Rig, tmp_path: Path) -> None:
    first = start_engine(rig, tmp_path)
    with running(first):
        ask(rig, "undisturbed", *FILES, tenant="ann")
        ask(rig, "other", *FILES[::-1], tenant="ann")
        undisturbed = answer(rig, "undisturbed")
        assert len(undisturbed) == MAX_TOKENS
        assert answer(rig, "other") != undisturbed
        ask(rig, "disturbed", *FILES, tenant="bob")
        wait_until(lambda: len(tokens(rig, "disturbed")) > 20, seconds=60)
    with running(start_engine(rig, tmp_path)):
        assert answer(rig, "disturbed") == undisturbed
    assert any(isinstance(one, wire.Resumed) for one in rig.events("disturbed"))


def test_a_broken_image_is_refused_while_others_are_read(rig: Rig) -> None:
    ask(rig, "broken", FILES[0][:300], tenant="ann")
    ask(rig, "good", *FILES, tenant="ann")
    count = asking(shown(FILES[0]), text("a"), files=FILES)
    rig.client.count_tokens(wire.replace(count, request_id="count"))
    for request_id in ("broken", "good", "count"):
        wait_until(lambda name=request_id: rig.client.read_events(name) != [], seconds=60)
    (refused,), (accepted, *_), (counted,) = map(rig.events, ("broken", "good", "count"))
    assert isinstance(refused, wire.Refused)
    assert refused.param == "messages[0].content[0]"
    assert isinstance(accepted, wire.Accepted)
    assert isinstance(counted, wire.Counted)
    assert accepted.prompt_tokens > counted.prompt_tokens > 16
