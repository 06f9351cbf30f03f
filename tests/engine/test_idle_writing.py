"""The disk's writer waits while requests run, and writes when the engine has nothing to do."""

from __future__ import annotations

import threading
from pathlib import Path

from engine import wire
from engine.cache.io_thread import CacheIO
from engine.guard import CRITICAL_FRACTION, TIGHT_FRACTION
from engine.handle import ModelHandle
from tests.engine.cache.toys import record_files
from tests.engine.device_rig import MODEL, PLENTY_BYTES, Engine
from tests.waiting import wait_until


def start_two(tmp_path: Path) -> tuple[Engine, CacheIO]:
    """Two long answers; what is held is held for ever."""
    engine = Engine(tmp_path, cache_memory_bytes=PLENTY_BYTES, cache_disk_bytes=PLENTY_BYTES)
    io = engine.prefixes.cache.io
    assert io is not None
    io._held_seconds = threading.TIMEOUT_MAX / 2
    engine.configure(max_rows=2)
    for number, name in enumerate(("old", "new")):
        engine.ask(name, prompt_tokens=300, first_token=10 + 1000 * number, max_tokens=400)
        engine.turn_until(lambda name=name: bool(engine.transport.tokens(name)))  # type: ignore[misc]
    return engine, io


def handle_of(engine: Engine) -> ModelHandle:
    (handle,) = engine.worker._pool.handles
    assert isinstance(handle, ModelHandle)
    return handle


def test_what_gives_way_is_written_while_others_run(tmp_path: Path) -> None:
    engine, io = start_two(tmp_path)
    handle = handle_of(engine)
    newest = handle.newest_row
    assert newest is not None
    handle.preempt(newest)
    wait_until(lambda: io.is_idle)
    assert record_files(tmp_path) and handle.has_rows
    engine.prefixes.close()


def test_nothing_is_held_where_memory_is_short(tmp_path: Path) -> None:
    engine, io = start_two(tmp_path)
    assert io._is_holding
    used_bytes = engine.memory.read_device().active_bytes
    engine.set_limit(int(used_bytes / ((TIGHT_FRACTION + CRITICAL_FRACTION) / 2)))
    engine.turn_until(lambda: engine.worker._pool.guard.level is wire.Level.TIGHT)
    assert handle_of(engine).has_rows and not io._is_holding
    engine.prefixes.close()


def test_what_a_request_leaves_is_written_when_nobody_is_served(tmp_path: Path) -> None:
    engine = Engine(tmp_path, cache_memory_bytes=PLENTY_BYTES, cache_disk_bytes=PLENTY_BYTES)
    io = engine.prefixes.cache.io
    assert io is not None
    engine.configure(max_rows=2)
    engine.ask("short", prompt_tokens=300)
    engine.ask("long", prompt_tokens=40, max_tokens=400)
    engine.finish("short")
    engine.turn(4)  # its row has left, what it held is handed over
    assert "long" not in engine.transport.ends
    assert io.queued_bytes and not record_files(tmp_path)
    engine.transport.send(wire.Cancel(request_id="long"))
    engine.finish("long")
    engine.turn(4)
    wait_until(lambda: io.is_idle)
    assert len(record_files(tmp_path)) >= 2 and not io.queued_bytes
    engine.prefixes.close()


def test_what_a_model_computes_last_is_written_though_it_is_to_leave(tmp_path: Path) -> None:
    engine = Engine(tmp_path, cache_memory_bytes=PLENTY_BYTES, cache_disk_bytes=PLENTY_BYTES)
    io = engine.prefixes.cache.io
    assert io is not None
    engine.configure()
    engine.ask("last", prompt_tokens=300, max_tokens=40)
    engine.turn_until(lambda: bool(engine.transport.tokens("last")))
    engine.transport.send(wire.UnloadModel(name=MODEL))
    engine.finish("last")
    engine.turn_until(lambda: not engine.worker._pool.handles)
    wait_until(lambda: io.is_idle)
    assert len(record_files(tmp_path)) == 2  # a block, and the answer's tail
    engine.prefixes.close()
