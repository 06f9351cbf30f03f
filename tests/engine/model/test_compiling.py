"""Models are served where MLX's C++ does not compile, and nothing is loaded that is another's."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import mlx.core as mx
import pytest

from engine.model import compiling
from tests.tiny_models import tiny_model_path

on_linux_processor = pytest.mark.skipif(
    sys.platform != "linux" or mx.default_device() != mx.Device(mx.cpu),
    reason="only there functions are compiled by g++",
)
LOAD_AND_CALL = """
import sys
from pathlib import Path
import mlx.core as mx
import mlx.nn as nn
from engine.model.loader import load
*_, last = load(Path(sys.argv[1]), casts_to_float32=False)
logits = last.loaded.model(mx.array([[11, 7, 5]]))
print(bool(mx.isfinite(logits).all()), bool(mx.isfinite(nn.gelu_approx(logits)).all()))
"""
# Says that it is there, and then what GCC 13 says
REFUSING = """#!/bin/sh
[ "$1" = --version ] && exit 0
echo "error: redeclaration of C++ built-in type '_Float128'"
exit 1
"""


@pytest.fixture
def refusing_compiler(tmp_path: Path) -> Path:
    program = tmp_path / "bin" / "g++"
    program.parent.mkdir()
    program.write_text(REFUSING)
    program.chmod(0o755)
    return program.parent


@on_linux_processor
@pytest.mark.parametrize("name", ["tiny-qwen3", "tiny-qwen3-next", "tiny-gemma3"])
def test_a_model_is_loaded_where_the_compiler_refuses(
    tmp_path: Path, refusing_compiler: Path, name: str
) -> None:
    path = f"{refusing_compiler}:{os.environ['PATH']}"
    done = subprocess.run(
        [sys.executable, "-c", LOAD_AND_CALL, str(tiny_model_path(name))],
        env=os.environ | {"PATH": path, "TMPDIR": str(tmp_path)},
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    assert done.stdout.split() == ["True", "True"]


@pytest.fixture
def compiles_again() -> Iterator[None]:
    compiling.compile_where_possible.cache_clear()
    yield
    mx.enable_compile()
    compiling.compile_where_possible.cache_clear()


@on_linux_processor
@pytest.mark.usefixtures("compiles_again")
def test_what_another_user_may_have_put_there_is_not_loaded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("tempfile.gettempdir", lambda: str(tmp_path))
    (tmp_path / "mlx").mkdir()
    compiling.compile_where_possible()
    assert not caplog.records
    compiling.compile_where_possible.cache_clear()
    monkeypatch.setattr(os, "getuid", lambda: (tmp_path / "mlx").stat().st_uid + 1)
    compiling.compile_where_possible()
    (record,) = caplog.records
    assert "another user's" in record.__dict__["reason"]
