"""The clients' environments, made by `.ci/install clients`, and programs that run in them."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import Any

from tests.stack import Stack

FOLDER = Path(__file__).resolve().parent
ENVIRONMENTS = FOLDER.parent.parent / ".venv" / "clients"
PATIENCE_SECONDS = 180.0


def run_program(
    name: str, *, environment: str, stack: Stack, api_key: str, model: str
) -> dict[str, Any]:
    """What each case of programs/`name`.py returned or raised, by its name."""
    python = ENVIRONMENTS / environment / "bin" / "python"
    assert python.exists(), f"no {python}: run .ci/install clients"
    asked = {"HEARTH_URL": stack.base_url, "HEARTH_KEY": api_key, "HEARTH_MODEL": model}
    done = subprocess.run(
        [str(python), str(FOLDER / "programs" / f"{name}.py")],
        env={"PATH": os.environ["PATH"], **asked},
        capture_output=True,
        text=True,
        timeout=PATIENCE_SECONDS,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    results: dict[str, Any] = json.loads(done.stdout.strip().splitlines()[-1])
    return results
