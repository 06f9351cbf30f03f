"""`python -m engine` as a process: what it learned of a model is there for the next one."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

from engine import wire
from tests.engine.transport.rig import Rig
from tests.tiny_models import tiny_model_path
from tests.waiting import wait_until

ROOT = Path(__file__).resolve().parents[2]


def test_an_engine_that_is_told_to_end_keeps_what_slices_cost(
    redis_url: str, tmp_path: Path
) -> None:
    rig = Rig(redis_url)
    path = str(tiny_model_path("tiny-qwen3"))
    rig.client.publish_models((wire.ModelSpec(name="demo", path=path),))
    environment = {**os.environ, "REDIS_URL": redis_url, "HEARTH_DATA_DIR": str(tmp_path)}
    process = subprocess.Popen([sys.executable, "-m", "engine"], cwd=ROOT, env=environment)
    try:
        for number in range(1, 6):  # each goes on where the one before ends
            rig.submit(f"r{number}", max_tokens=2)
            rig.admit_all(num_prompt_tokens=100 * number)
            wait_until(lambda: len(rig.ended()) == number)  # noqa: B023
        process.send_signal(signal.SIGTERM)
        assert process.wait(timeout=20) == 0
    finally:
        process.kill()
    (file,) = (tmp_path / "estimates").iterdir()
    (learned,) = json.loads(file.read_text())["models"].values()
    assert learned["cost"]["trusted_tokens"] > 64
