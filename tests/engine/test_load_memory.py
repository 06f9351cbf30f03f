"""Loading and unloading a real model leaves the memory as it was, also when loading fails."""

from __future__ import annotations

import gc
import json
import shutil
from collections.abc import Iterator
from pathlib import Path

import mlx.core as mx
import pytest

from engine import wire
from engine.assembly import build_worker
from engine.cache.record import Kind, RecordKey
from engine.config import EngineConfig
from engine.metrics import Vitals
from engine.model.loader import stored_weight_bytes
from engine.model.memory import DeviceMemory
from engine.prefixes import Prefixes
from tests.fakes import FakeClock, FakeTransport, make_delivery, make_work
from tests.tiny_models import tiny_model_path

MIB = 1024**2
MODEL = "small-llama"  # 62 MB


class Engine:
    def __init__(self, folder: Path, *, cache_bytes: int = 0) -> None:
        config = EngineConfig(
            name="e", redis_url="", data_dir=folder, cache_memory_bytes=cache_bytes
        )
        memory = DeviceMemory()
        self.prefixes = Prefixes(config, ceiling_bytes=memory.ceiling_bytes)
        self.vitals = Vitals(engine_name="e", memory=memory)
        self.transport = FakeTransport(FakeClock())
        self.worker = build_worker(
            config,
            transport=self.transport,
            memory=memory,
            vitals=self.vitals,
            prefixes=self.prefixes,
        )

    def serve(self, path: Path) -> None:
        self.transport.send(wire.Configure(models=(wire.ModelSpec(name="m", path=str(path)),)))

    def answer(self, request_id: str) -> wire.Event:
        self.transport.send(make_delivery(make_work(request_id, model="m", prompt=range(10, 60))))
        for _ in range(2000):
            self.worker.turn()
            if request_id in self.transport.ends:
                return self.transport.ends[request_id]
        raise AssertionError("no end")

    def turn(self, times: int = 20) -> None:
        for _ in range(times):
            self.worker.turn()


@pytest.fixture
def engine(tmp_path: Path) -> Iterator[Engine]:
    gc.collect()
    mx.clear_cache()
    engine = Engine(tmp_path / "data")
    yield engine
    engine.prefixes.close()


def in_use() -> int:
    return mx.get_active_memory() + mx.get_cache_memory()


def test_an_unloaded_model_leaves_nothing_behind(engine: Engine) -> None:
    path = tiny_model_path(MODEL)
    before_bytes = in_use()
    engine.serve(path)
    assert isinstance(engine.answer("a"), wire.Finished)
    assert in_use() - before_bytes > 0.9 * stored_weight_bytes(path)
    engine.transport.send(wire.UnloadModel(name="m"))
    engine.turn()
    assert in_use() - before_bytes < 0.05 * stored_weight_bytes(path)


def test_a_load_that_fails_leaves_nothing_behind(engine: Engine, tmp_path: Path) -> None:
    """The weights are in memory when the tokenizer turns out to be broken."""
    folder = tmp_path / "model"
    shutil.copytree(tiny_model_path(MODEL), folder)
    (folder / "tokenizer.json").write_text("{}")
    before_bytes = in_use()
    engine.serve(folder)
    end = engine.answer("a")
    assert isinstance(end, wire.Failed) and end.code is wire.Code.MODEL_LOAD_FAILED
    engine.turn()
    assert in_use() - before_bytes < 0.05 * stored_weight_bytes(folder)


def test_the_prefix_cache_gives_way_to_a_model_that_is_to_be_loaded(tmp_path: Path) -> None:
    path = tiny_model_path(MODEL)
    engine = Engine(tmp_path / "data", cache_bytes=100 * MIB)
    tier = engine.prefixes.cache.memory
    for number in range(4):
        payload = mx.zeros(25 * MIB // 4)
        mx.eval(payload)
        record = RecordKey(number.to_bytes(32, "big"), Kind.SLICE)
        tier.put(record, payload, num_bytes=payload.nbytes, model="m")
    del payload
    limit_bytes = mx.get_active_memory() + stored_weight_bytes(path)
    limits = {"e": limit_bytes}
    engine.transport.send(
        wire.Configure(models=(wire.ModelSpec(name="m", path=str(path)),), memory_limits=limits)
    )
    try:
        assert isinstance(engine.answer("a"), wire.Finished)
        assert 0 < tier.used_bytes < 100 * MIB
        assert mx.get_active_memory() <= limit_bytes
    finally:
        engine.prefixes.close()


def test_sixteen_bit_weights_count_as_what_they_become(tmp_path: Path) -> None:
    header = {"a": {"dtype": "BF16", "data_offsets": [0, 10]}}
    header |= {"b": {"dtype": "F32", "data_offsets": [10, 30]}}
    text = json.dumps(header).encode()
    content = len(text).to_bytes(8, "little") + text + bytes(30)
    (tmp_path / "model.safetensors").write_bytes(content)
    assert stored_weight_bytes(tmp_path) == 30
    assert stored_weight_bytes(tmp_path, casts_to_float32=True) == 40
