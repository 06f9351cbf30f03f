"""The disk's writer waits while requests run, and writes when the engine has nothing to do."""

from __future__ import annotations

from pathlib import Path

from engine import wire
from tests.engine.cache.toys import record_files
from tests.engine.device_rig import PLENTY_BYTES, Engine
from tests.waiting import wait_until


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
