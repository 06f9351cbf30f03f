"""An engine is killed at its work, with a real Redis: who only waited in it is not to blame."""

from __future__ import annotations

import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from engine import wire
from engine.at_work import AtWork
from tests.engine.test_process import COMMAND, ROOT, environment
from tests.engine.transport.rig import Rig, pull_ids
from tests.engine.worker_rig import Engine, spec
from tests.makers import make_work
from tests.tiny_models import tiny_model_path
from tests.waiting import wait_until

KILLER_TOKENS = 12_000  # some seconds of reading
VOCABULARY = 4000
START_SECONDS = 60.0


class MortalEngine:
    """A process. Its model cannot be batched: rows come one at a time, and others wait inside."""

    def __init__(self, redis_url: str, folder: Path) -> None:
        self.rig = Rig(redis_url)
        self._settings = environment(redis_url, folder) | {"HEARTH_CACHE_MEMORY_GB": "0"}
        path = str(tiny_model_path("tiny-llama4"))
        self._spec = wire.ModelSpec(name="demo", path=path)
        self.rig.client.publish_models((self._spec,))

    def start(self) -> None:
        self.process = subprocess.Popen(COMMAND, cwd=ROOT, env=self._settings)

    def kill_at_work_on(self, request_id: str, *, life: int) -> None:
        wait_until(lambda: self._num_begun(request_id) == life, seconds=START_SECONDS)
        self.process.kill()
        self.process.wait()

    def _num_begun(self, request_id: str) -> int:
        events = self.rig.events(request_id)
        return sum(isinstance(event, wire.Started | wire.Resumed) for event in events)

    def queue(self, request_id: str, *, num_tokens: int) -> None:
        self.rig.submit(request_id, max_tokens=2)
        (entry,) = self.rig.intake.entries()
        work = make_work(wire.decode(entry.message))
        prompt = tuple(number % VOCABULARY for number in range(num_tokens))
        self.rig.intake.admit(entry, wire.replace(work, prompt_token_ids=prompt), self._spec)

    def end_of(self, request_id: str) -> wire.Event:
        wait_until(lambda: request_id in self.rig.ended(), seconds=START_SECONDS)
        return self.rig.events(request_id)[-1]


@pytest.fixture
def engine(redis_url: str, tmp_path: Path) -> Iterator[MortalEngine]:
    engine = MortalEngine(redis_url, tmp_path)
    yield engine
    engine.process.kill()
    engine.process.wait()


def test_who_waits_for_a_row_outlives_who_kills_the_engine_twice(engine: MortalEngine) -> None:
    engine.queue("killer", num_tokens=KILLER_TOKENS)
    engine.queue("waiting", num_tokens=4)
    engine.start()
    engine.kill_at_work_on("killer", life=1)
    held = engine.rig.redis.zrange(wire.Keys.LEASES, 0, -1)
    assert sorted(held) == ["killer", "waiting"]

    engine.start()
    assert isinstance(engine.end_of("waiting"), wire.Finished)
    assert engine.rig.redis.hget(wire.Keys.request("waiting"), "crashes") == "0"
    engine.kill_at_work_on("killer", life=2)

    engine.start()
    end = engine.end_of("killer")
    assert isinstance(end, wire.Failed) and end.code is wire.Code.POISON
    engine.process.send_signal(signal.SIGTERM)
    assert engine.process.wait(timeout=20) == 0


def test_who_waits_for_a_model_outlives_another_model_whose_load_kills_twice(
    redis_url: str, tmp_path: Path
) -> None:
    rig, file = Rig(redis_url), tmp_path / "e.note"
    rig.queue("waiting", model="good")
    rig.queue("asks for it", model="deadly")
    for _ in range(2):
        at_work = AtWork(file)
        exchange = rig.engine(lives=at_work.lives)
        engine = Engine(spec("deadly"), spec("good"), at_work=at_work)
        for model in ("deadly", "good"):
            (delivery,) = exchange.pull({model: 1})
            engine.transport.send(delivery)
        engine.turn(3)  # and is killed while it loads the first

    exchange = rig.engine(lives=AtWork(file).lives)
    assert pull_ids(exchange, model="deadly") == []
    end = rig.events("asks for it")[-1]
    assert isinstance(end, wire.Failed) and end.code is wire.Code.POISON
    (delivery,) = exchange.pull({"good": 1})
    assert (delivery.work.request_id, delivery.is_suspect) == ("waiting", False)
