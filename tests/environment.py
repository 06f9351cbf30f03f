"""Cuts the tests off from whatever Hearth runs on this machine: their own data folder, no settings.

Loaded by pytest before Django reads its settings (`-p tests.environment` in pyproject.toml). The
database is the one that DATABASE_URL names, if it does.
"""

from __future__ import annotations

import atexit
import os
import shutil
import tempfile

_KEPT = ("HEARTH_TEST_MODELS_DIR", "HEARTH_OPENBLAS", "HEARTH_SIMULATION_SEEDS")


def clear_settings(environ: dict[str, str]) -> dict[str, str]:
    """`environ` without any setting of a Hearth, as a child process of the tests should have it."""
    ours = ("REDIS_URL", "PORT", "DJANGO_SETTINGS_MODULE")
    return {
        name: value
        for name, value in environ.items()
        if name in _KEPT or not (name.startswith("HEARTH_") or name in ours)
    }


def _compute_in_whole_float32() -> None:
    """CUDA would round what is multiplied to ten bits; mlx reads it when it first computes."""
    os.environ.setdefault("MLX_ENABLE_TF32", "0")


def _use_own_data_folder() -> None:
    kept = clear_settings(dict(os.environ))
    for name in set(os.environ) - set(kept):
        if name != "DJANGO_SETTINGS_MODULE":
            del os.environ[name]
    folder = tempfile.mkdtemp(prefix="hearth-tests-")
    os.environ["HEARTH_DATA_DIR"] = folder
    atexit.register(shutil.rmtree, folder, ignore_errors=True)


_use_own_data_folder()
_compute_in_whole_float32()
