"""The engine's settings, from the environment and the command line; no default hides elsewhere."""

from __future__ import annotations

import argparse
import dataclasses
import os
import re
from collections.abc import Mapping, Sequence
from pathlib import Path

from engine import wire

_CHECKOUT = Path(__file__).resolve().parent.parent
_GIB = 1024**3
_DAILY_WRITE_BYTES = 200 * _GIB  # an SSD's usual endurance lasts many years at this
_NAME = re.compile(r"[A-Za-z0-9_.-]{1,64}")


class BadConfig(Exception):
    """The engine cannot start with these settings."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class EngineConfig:
    """`memory_limit_bytes` None: what the machine has. `keeps_cpu_dtype`: no cast to float32.

    Prefix cache: `cache_memory_bytes` None: a share of the memory limit; 0 turns it off.
    `cache_disk_bytes` None: 20 GB or a tenth of what is free, whichever is less; 0 turns it off.
    """

    name: str
    redis_url: str
    data_dir: Path
    memory_limit_bytes: int | None = None
    keeps_cpu_dtype: bool = False
    cache_memory_bytes: int | None = None
    cache_disk_bytes: int | None = None
    cache_daily_write_bytes: int = _DAILY_WRITE_BYTES


def read_config(arguments: Sequence[str], environment: Mapping[str, str]) -> EngineConfig:
    """Raises BadConfig."""
    parser = argparse.ArgumentParser(prog="python -m engine", description="The model worker.")
    default_name = environment.get("HEARTH_ENGINE_NAME") or "engine-1"
    parser.add_argument("--name", default=default_name, help="unique among the engines")
    name = parser.parse_args(arguments).name
    if not _NAME.fullmatch(name):
        raise BadConfig(f"--name {name!r}: letters, digits, dot, dash and underscore only")
    data_dir = environment.get("HEARTH_DATA_DIR") or str(_CHECKOUT / "data")
    daily_bytes = _gibibytes(environment, "HEARTH_CACHE_DAILY_WRITE_GB")
    return EngineConfig(
        name=name,
        redis_url=environment.get("REDIS_URL") or wire.default_redis_url(data_dir),
        data_dir=Path(data_dir),
        memory_limit_bytes=_gibibytes(environment, "HEARTH_MEMORY_LIMIT_GB", may_be_zero=False),
        cache_memory_bytes=_gibibytes(environment, "HEARTH_CACHE_MEMORY_GB"),
        cache_disk_bytes=_gibibytes(environment, "HEARTH_CACHE_DISK_GB"),
        cache_daily_write_bytes=_DAILY_WRITE_BYTES if daily_bytes is None else daily_bytes,
        keeps_cpu_dtype=environment.get("HEARTH_CPU_DTYPE", "float32") == "stored",
    )


def config_from_process(arguments: Sequence[str]) -> EngineConfig:
    return read_config(arguments, os.environ)


def _gibibytes(
    environment: Mapping[str, str], name: str, *, may_be_zero: bool = True
) -> int | None:
    text = environment.get(name, "")
    if not text:
        return None
    try:
        value = float(text)
    except ValueError as error:
        raise BadConfig(f"{name}={text!r} is not a number") from error
    if not (value > 0 or (value == 0 and may_be_zero)):
        raise BadConfig(f"{name}={text!r} must be {'0 or ' if may_be_zero else ''}above 0")
    return int(value * _GIB)
