"""Our engine's own loop as a source of tokens: everything of it but Redis, text included.

`python -m tests.bench.engine_loop MODEL_FOLDER`; jobs as in closed_loop.py, with "temperature".
"""

from __future__ import annotations

import contextlib
import dataclasses
import itertools
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from mlx_lm.utils import load_tokenizer

from engine import wire
from engine.assembly import build_worker
from engine.config import EngineConfig
from engine.core.delivery import Delivery
from engine.core.guests import Invitation
from engine.metrics import Vitals
from engine.model.memory import DeviceMemory
from engine.prefixes import Prefixes
from engine.worker import Received, Worker
from tests.bench.closed_loop import NewTokens, serve_jobs

MODEL_NAME = "bench"
NUM_ROWS = 32


class DirectTransport:
    """Hands over what is put in, keeps what is published."""

    def __init__(self) -> None:
        self.inbox: list[Received] = []
        self.published: list[tuple[str, wire.Event]] = []

    def receive(self, wait_seconds: float) -> list[Received]:
        received, self.inbox = self.inbox, []
        return received

    def want(self, rows: Mapping[str, int], invitations: Mapping[str, Invitation]) -> None:
        """All requests are handed over at once, whether wanted or not."""

    def publish(self, events: Sequence[tuple[str, wire.Event]]) -> None:
        self.published += events


class EngineLoop:
    """The worker with one model loaded. `temperature` is for the requests that follow."""

    def __init__(self, worker: Worker, transport: DirectTransport, model_folder: Path) -> None:
        self.temperature = 0.0
        self._keys = itertools.count()
        self._transport = transport
        self._worker = worker
        spec = wire.ModelSpec(name=MODEL_NAME, path=str(model_folder), max_rows=NUM_ROWS)
        self._transport.inbox = [wire.Configure(models=(spec,)), wire.LoadModel(name=MODEL_NAME)]

    def submit(self, prompt_token_ids: list[int], *, max_tokens: int) -> int:
        key = next(self._keys)
        work = wire.Work(
            request_id=str(key),
            model=MODEL_NAME,
            tenant="bench",
            priority=wire.Priority.API,
            submitted_at=0.0,
            accepted_at=0.0,
            sampling=wire.Sampling(seed=key, temperature=self.temperature),
            prompt_token_ids=tuple(prompt_token_ids),
            max_tokens=max_tokens,
        )
        self._transport.inbox.append(Delivery(work=work, fence=1, attempt=1, next_seq=1))
        return key

    def step(self) -> list[NewTokens]:
        self._worker.turn()
        published, self._transport.published = self._transport.published, []
        return [_new_tokens(request_id, event) for request_id, event in published]


def _new_tokens(request_id: str, event: wire.Event) -> NewTokens:
    if isinstance(event, (wire.Failed, wire.Refused)):
        raise RuntimeError(f"request {request_id}: {event.code} {event.detail}")
    count = len(event.token_ids) if isinstance(event, wire.Delta) else 0
    return NewTokens(int(request_id), count, isinstance(event, wire.Finished))


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Parts:
    """What surrounds a worker that was told no settings, in a folder of its own."""

    config: EngineConfig
    memory: DeviceMemory
    vitals: Vitals
    prefixes: Prefixes


@contextlib.contextmanager
def engine_parts() -> Iterator[Parts]:
    with tempfile.TemporaryDirectory(prefix="hearth-bench-engine-") as folder:
        config = EngineConfig(name=MODEL_NAME, redis_url="", data_dir=Path(folder))
        memory = DeviceMemory()
        prefixes = Prefixes(config, ceiling_bytes=memory.ceiling_bytes)
        vitals = Vitals(engine_name=MODEL_NAME, memory=memory)
        try:
            yield Parts(config=config, memory=memory, vitals=vitals, prefixes=prefixes)
        finally:
            prefixes.close()


@contextlib.contextmanager
def engine_loop(model_folder: Path) -> Iterator[EngineLoop]:
    with engine_parts() as parts:
        transport = DirectTransport()
        worker = build_worker(
            parts.config,
            transport=transport,
            memory=parts.memory,
            vitals=parts.vitals,
            prefixes=parts.prefixes,
        )
        yield EngineLoop(worker, transport, model_folder)


def main(model_folder: Path) -> None:
    tokenizer = load_tokenizer(model_folder)

    def tokenize(prompt: str) -> list[int]:
        message = {"role": "user", "content": prompt}
        token_ids: list[int] = tokenizer.apply_chat_template([message], add_generation_prompt=True)
        return token_ids

    with engine_loop(model_folder) as loop:

        def source_of(job: dict[str, Any]) -> EngineLoop:
            loop.temperature = job["temperature"]
            return loop

        serve_jobs(source_of, tokenize)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
