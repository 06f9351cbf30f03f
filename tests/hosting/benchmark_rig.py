"""A benchmark that is asked for, and the worker that runs it: what its tests share."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from django.db import connections

from accounts.models import User
from hosting.actions.benchmarks import NewBenchmark, Questions, start_benchmark
from hosting.actions.settling import settle_generation
from hosting.benchmarks import asking
from hosting.benchmarks.process import run_all
from hosting.models import Benchmark, Generation, HostedModel
from tests.waiting import wait_until

ITEMS = [
    {"question": "Say it.", "answer": ["Hello world"], "category": "a"},
    {"question": "Say no.", "answer": ["no"], "category": "b"},
    {"question": "Which?", "choices": ["Hello world", "x"], "answer": ["A"], "category": "a"},
]
CONFIG = '{"vocab_size": 100, "max_position_embeddings": 600, "eos_token_id": [2, 3]}'


@pytest.fixture(autouse=True)
def data_folder(tmp_path: Path, settings: Any) -> None:
    settings.DATA_DIR = tmp_path


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(asking, "POLL_SECONDS", 0.01)


@pytest.fixture(autouse=True)
def _files(model: HostedModel, tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text(CONFIG)
    (tmp_path / "generation_config.json").write_text('{"eos_token_id": 3}')
    HostedModel.objects.update(path=str(tmp_path), context_limit_tokens=None)


@pytest.fixture
def root(transactional_db: None) -> User:
    return User.objects.create_superuser("root@example.org")


def begun(user: User, **changes: Any) -> Benchmark:
    questions = Questions(name="Three", items=ITEMS)
    return start_benchmark(
        NewBenchmark(**({"model_name": "demo", "questions": questions} | changes)), user=user
    )


def settle_all() -> bool:
    """Whether all have ended."""
    for one in Generation.objects.open():
        settle_generation(str(one.pk))
    return not Generation.objects.open().exists()


class Worker:
    """What Celery's thread does, beside a ledger that the test is."""

    def __init__(self) -> None:
        self.stop = threading.Event()
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def _run(self) -> None:
        run_all(self.stop)
        connections.close_all()

    @property
    def is_running(self) -> bool:
        settle_all()
        return self._thread.is_alive()

    def finish(self) -> None:
        wait_until(lambda: not self.is_running)
        self._thread.join()


@pytest.fixture
def worker() -> Iterator[Worker]:
    made = Worker()
    yield made
    made.stop.set()
    made.finish()


def run(benchmark: Benchmark) -> Benchmark:
    Worker().finish()
    benchmark.refresh_from_db()
    return benchmark
