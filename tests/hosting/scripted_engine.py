"""A fake at the wire: intake and engine in one, on the real Redis scripts, saying as it is told."""

from __future__ import annotations

import threading
import time
from typing import Any

import redis

from engine import wire
from engine.transport.connection import connect
from engine.transport.exchange import Exchange
from engine.transport.intake_queue import IntakeQueue
from tests.makers import make_status, make_work

POLL_SECONDS = 0.01
NAME = "engine-test"
TIMINGS = wire.Timings(queued_seconds=0.25, ttft_seconds=0.5, decode_seconds=1.5)


def delta(text: str, channel: wire.Channel = wire.Channel.CONTENT, **fields: Any) -> wire.Delta:
    return wire.Delta(channel=channel, text=text, token_ids=(1,), **fields)


def finished(reason: wire.FinishReason = wire.FinishReason.STOP, **usage: int) -> wire.Finished:
    spent = wire.Usage(prompt_tokens=9, cached_tokens=4, **{"completion_tokens": 2, **usage})
    return wire.Finished(reason=reason, usage=spent, timings=TIMINGS)


NO_VECTORS = wire.Refused(code=wire.Code.INVALID_VALUE, detail="The model answers.", param="model")
HELLO = (wire.Started(cached_tokens=4), delta("Hello"), delta(" world"), finished())
ENDLESS = HELLO[:-1]


class ScriptedEngine:
    """`script` is emitted for each request; one without a terminal event runs until cancelled."""

    def __init__(self, redis_url: str) -> None:
        self.script: tuple[wire.Event, ...] = HELLO
        self.refusal: wire.Refused | None = None
        self.is_silent = False  # takes requests and says nothing
        self._is_busy = False
        self._working = threading.RLock()  # tests emit, too
        self.num_forgotten = 0  # so many requests are lost, as by a Redis that starts empty
        self.generates: list[wire.Generate] = []
        self.counted: list[wire.Generate] = []
        self.begun: list[str] = []
        self.cancelled: list[str] = []
        self._redis = redis.Redis.from_url(redis_url)  # of all threads
        self._intake = IntakeQueue(redis_url, name="intake-test")
        self._exchange = Exchange(connect(redis_url), engine_name=NAME)
        self._is_closing = threading.Event()
        self._threads = [
            threading.Thread(target=run, name=f"scripted-{run.__name__}")
            for run in (self._run_intake, self._run_engine)
        ]

    @property
    def is_busy(self) -> bool:
        """Requests wait, and what runs does not go on."""
        return self._is_busy

    @is_busy.setter
    def is_busy(self, value: bool) -> None:
        """From here on: what a turn under way would still tell Redis, it has told."""
        with self._working:
            self._is_busy = value

    def start(self) -> None:
        self._beat()
        for thread in self._threads:
            thread.start()

    def close(self) -> None:
        self._is_closing.set()
        self._redis.xadd(wire.Keys.INTAKE, {"id": "end", "m": ""})  # wakes the intake
        for thread in self._threads:
            thread.join()

    def _run_intake(self) -> None:
        while not self._is_closing.is_set():
            for entry in self._intake.entries():
                if self._is_closing.is_set():
                    return
                self._answer(entry)

    def _answer(self, entry: Any) -> None:
        command = wire.decode(entry.message)
        is_count = isinstance(command, wire.CountTokens)
        generate = command.generate if is_count else command
        (self.counted if is_count else self.generates).append(generate)
        if self.is_silent:
            return
        if self.num_forgotten:
            self.num_forgotten -= 1
            wholly = (wire.Keys.request(generate.request_id), wire.Keys.events(generate.request_id))
            self._redis.delete(*wholly)
            return
        refusal = self.refusal
        if not isinstance(generate, wire.Generate):
            refusal = refusal or NO_VECTORS
        if refusal is not None:
            self._intake.conclude(entry, refusal)
            return
        if is_count:
            self._intake.conclude(entry, wire.Counted(prompt_tokens=7))
            return
        spec = wire.ModelSpec(name=generate.model, path="/")
        self._intake.admit(entry, make_work(generate), spec)

    def _run_engine(self) -> None:
        while not self._is_closing.wait(POLL_SECONDS):
            with self._working:
                if not self.is_busy:
                    self._work()
            self._beat()

    def _work(self) -> None:
        for name in {generate.model for generate in self.generates}:
            for delivery in self._exchange.pull({name: 8}):
                self.emit(delivery.work.request_id, *self.script)
                self.begun.append(delivery.work.request_id)
        for message in self._exchange.renew():
            if isinstance(message, wire.Cancel):
                self._cancel(message.request_id)

    def _cancel(self, request_id: str) -> None:
        if request_id not in self.cancelled:
            self.cancelled.append(request_id)
            self.emit(request_id, finished(wire.FinishReason.CANCELLED))

    def emit(self, request_id: str, *events: wire.Event) -> None:
        with self._working:
            self._exchange.add((request_id, event) for event in events)
            self._exchange.send()

    def _beat(self) -> None:
        models = (wire.ModelStatus(name="loaded-model", state="loaded"),)
        beat = make_status(NAME, beat_at=time.time(), models=models)
        self._redis.set(wire.Keys.engine(NAME), wire.encode(beat), ex=5)
        self._redis.sadd(wire.Keys.ENGINES, NAME)
