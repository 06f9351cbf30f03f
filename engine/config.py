"""The engine's settings, from the environment and the command line; no default hides elsewhere.

What is empty counts as not set. Intake reads from here what it shares with the engine.
"""

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
_MOST_GIB = 1_000_000
_NAME = re.compile(r"[A-Za-z0-9_.-]{1,64}")
_LOG_LEVELS = ("INFO", "DEBUG", "WARNING", "ERROR", "CRITICAL")
_CPU_DTYPES = ("float32", "stored")


class BadConfig(Exception):
    """The process cannot start with these settings."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class EngineConfig:
    """`memory_limit_bytes` None: `memory_share` of what the machine has. `model_folders`: where
    models are that do not lie where they are registered. `keeps_cpu_dtype`: no cast to float32.

    Prefix cache: `cache_memory_bytes` None: a share of the memory limit; 0 turns it off.
    `cache_disk_bytes` None: 20 GiB or a tenth of what is free, whichever is less; 0 turns it off.
    """

    name: str
    redis_url: str
    data_dir: Path
    memory_limit_bytes: int | None = None
    memory_share: float = 1.0
    model_folders: tuple[Path, ...] = ()
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
        raise BadConfig(
            f"--name, HEARTH_ENGINE_NAME or HEARTH_ENGINES {name!r}: "
            "letters, digits, dot, dash and underscore only"
        )
    daily_bytes = _gibibytes(environment, "HEARTH_CACHE_DAILY_WRITE_GB")
    return EngineConfig(
        name=name,
        redis_url=read_redis_url(environment),
        data_dir=read_data_dir(environment),
        memory_limit_bytes=_gibibytes(environment, "HEARTH_MEMORY_LIMIT_GB", may_be_zero=False),
        memory_share=_share(environment, "HEARTH_MEMORY_SHARE"),
        model_folders=read_model_folders(environment),
        cache_memory_bytes=_gibibytes(environment, "HEARTH_CACHE_MEMORY_GB"),
        cache_disk_bytes=_gibibytes(environment, "HEARTH_CACHE_DISK_GB"),
        cache_daily_write_bytes=_DAILY_WRITE_BYTES if daily_bytes is None else daily_bytes,
        keeps_cpu_dtype=_choice(environment, "HEARTH_CPU_DTYPE", _CPU_DTYPES) == "stored",
    )


def config_from_process(arguments: Sequence[str]) -> EngineConfig:
    return read_config(arguments, os.environ)


def read_data_dir(environment: Mapping[str, str]) -> Path:
    """A service's file has no shell that knows what ~ is."""
    return Path(os.path.expanduser(environment.get("HEARTH_DATA_DIR") or _CHECKOUT / "data"))


def read_model_folders(environment: Mapping[str, str]) -> tuple[Path, ...]:
    told = environment.get("HEARTH_MODEL_FOLDERS", "")
    return tuple(Path(os.path.expanduser(one)) for one in told.split(os.pathsep) if one)


def read_redis_url(environment: Mapping[str, str]) -> str:
    told = environment.get("REDIS_URL")
    return told or wire.default_redis_url(str(read_data_dir(environment)))


def read_log_level(environment: Mapping[str, str]) -> str:
    """Raises BadConfig."""
    return _choice(environment, "HEARTH_LOG_LEVEL", _LOG_LEVELS)


def _choice(environment: Mapping[str, str], name: str, choices: tuple[str, ...]) -> str:
    """The first one is the default."""
    told = environment.get(name, "").strip() or choices[0]
    if told not in choices:
        raise BadConfig(f"{name} is one of {', '.join(choices)}, not {told!r}")
    return told


def _share(environment: Mapping[str, str], name: str) -> float:
    text = environment.get(name, "").strip() or "1"
    try:
        share = float(text)
    except ValueError as error:
        raise BadConfig(f"{name}={text!r} is not a number") from error
    if not 0 < share <= 1:
        raise BadConfig(f"{name}={text!r} must be above 0, at most 1")
    return share


def _gibibytes(
    environment: Mapping[str, str], name: str, *, may_be_zero: bool = True
) -> int | None:
    text = environment.get(name, "").strip()
    if not text:
        return None
    try:
        value = float(text)
    except ValueError as error:
        raise BadConfig(f"{name}={text!r} is not a number") from error
    if not (0 < value <= _MOST_GIB or (value == 0 and may_be_zero)):
        least = "0 or " if may_be_zero else ""
        raise BadConfig(f"{name}={text!r} must be {least}above 0, at most {_MOST_GIB:,}")
    return int(value * _GIB)
