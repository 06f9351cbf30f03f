"""A whole engine on the real device, with tiny models, driven turn by turn."""

from __future__ import annotations

import base64
import itertools
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from engine import wire
from engine.assembly import build_worker
from engine.config import EngineConfig
from engine.core.delivery import VectorDelivery
from engine.handle import ModelHandle
from engine.metrics import Vitals
from engine.prefixes import Prefixes
from tests.fakes import FakeClock, FakeTransport, make_delivery, make_work
from tests.own_memory import OwnMemory
from tests.tiny_models import tiny_model_path

MODEL = "tiny-qwen3"
MOST_TURNS = 5000
PLENTY_BYTES = 8 * 1024**3


class CountingMemory(OwnMemory):
    num_clears = 0

    def clear_buffers(self) -> None:
        self.num_clears += 1
        super().clear_buffers()


class Engine:
    """`limit_bytes` counts what is allocated from now on; what came before is not this engine's."""

    def __init__(
        self,
        folder: Path,
        *,
        limit_bytes: int = PLENTY_BYTES,
        cache_memory_bytes: int | None = 0,
        cache_disk_bytes: int | None = None,
    ) -> None:
        config = EngineConfig(
            name="e",
            redis_url="",
            data_dir=folder,
            memory_limit_bytes=limit_bytes,
            cache_memory_bytes=cache_memory_bytes,
            cache_disk_bytes=cache_disk_bytes,
        )
        self.memory = CountingMemory(ceiling_bytes=limit_bytes)
        self.prefixes = Prefixes(config, ceiling_bytes=self.memory.ceiling_bytes)
        self.transport = FakeTransport(FakeClock())
        self.worker = build_worker(
            config,
            transport=self.transport,
            memory=self.memory,
            vitals=Vitals(engine_name="e", memory=self.memory),
            prefixes=self.prefixes,
        )
        self.specs: tuple[wire.ModelSpec, ...] = ()
        self.most_rows = 0
        self.most_bytes = 0
        self.most_used_bytes = 0

    def configure(self, *, model: str = MODEL, **settings: object) -> None:
        self.serve(wire.ModelSpec(name=model, path=str(tiny_model_path(model)), **settings))  # type: ignore[arg-type]

    def serve(self, *specs: wire.ModelSpec) -> None:
        self.specs = specs
        self.transport.send(wire.Configure(models=specs))

    def set_limit(self, limit_bytes: int) -> None:
        self.transport.send(wire.Configure(models=self.specs, memory_limits={"e": limit_bytes}))

    def ask(
        self,
        *names: str,
        model: str = MODEL,
        prompt_tokens: int = 3,
        first_token: int = 10,
        max_tokens: int = 4,
        **changes: object,
    ) -> None:
        for name in names:
            prompt = range(first_token, first_token + prompt_tokens)
            work = make_work(name, model=model, prompt=prompt, max_tokens=max_tokens, **changes)
            self.transport.send(make_delivery(work))

    def embed(self, name: str, *texts: tuple[int, ...], model: str) -> None:
        work = wire.VectorWork(
            request_id=name,
            model=model,
            tenant="user:1",
            priority=wire.Priority.API,
            submitted_at=1000.0,
            accepted_at=1000.0,
            inputs=texts,
        )
        self.transport.send(VectorDelivery(work=work, fence=1, attempt=1, next_seq=1))

    def finish(self, *names: str) -> None:
        self.most_rows = self.most_bytes = self.most_used_bytes = 0
        for _ in range(MOST_TURNS):
            if all(name in self.transport.ends for name in names):
                return
            self.turn()
            self._note_most()
        raise AssertionError("the answers do not come to an end")

    @property
    def num_rows(self) -> int:
        handles = (one for one in self.worker._pool.handles if isinstance(one, ModelHandle))
        return sum(len(one.scheduler.rows) for one in handles)

    def _note_most(self) -> None:
        """In a call of its own: who keeps a handle keeps the model in memory."""
        for handle in self.worker._pool.handles:
            if isinstance(handle, ModelHandle):
                self.most_rows = max(self.most_rows, len(handle.scheduler.rows))
            self.most_bytes = max(self.most_bytes, handle.weight_bytes + handle.row_bytes)

    def turn(self, times: int = 1) -> None:
        for _ in range(times):
            self.memory.peaks.forget()
            self.worker.turn()
            now = self.memory.read()
            used_bytes = max(now.peak_bytes, now.active_bytes + now.pool_bytes)
            self.most_used_bytes = max(self.most_used_bytes, used_bytes)

    def turn_until(self, holds: Callable[[], bool]) -> None:
        for _ in range(MOST_TURNS):
            if holds():
                return
            self.turn()
        raise AssertionError("it does not come to that")

    def vectors(self, name: str) -> np.ndarray[Any, Any]:
        """By place."""
        done = [one for one in self.transport.events[name] if isinstance(one, wire.Embedded)]
        packed = {one.place: base64.b64decode(one.vector) for one in done}
        return np.array([np.frombuffer(packed[place], np.float32) for place in sorted(packed)])

    def usage(self, name: str) -> wire.Usage:
        end = self.transport.ends[name]
        assert isinstance(end, wire.Finished)
        return end.usage

    def pieces(self, name: str) -> list[int]:
        """How many tokens of the prompt each slice took."""
        events = self.transport.events[name]
        done = [0, *(one.done_tokens for one in events if isinstance(one, wire.Prefilled))]
        return [after - before for before, after in itertools.pairwise(done)]

    @property
    def token_bytes(self) -> int:
        (memory,) = self.worker._pool.memories()
        assert memory.needs is not None
        return memory.needs.token_bytes

    @property
    def weight_bytes(self) -> int:
        return self.worker._pool.weight_bytes
