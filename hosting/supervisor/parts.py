"""Which processes an installation has and the plain command of each. Pure."""

from __future__ import annotations

import dataclasses
import os
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path

from hosting.supervisor import openblas

# In the order of starting; Redis is first to come and last to go.
NAMES = ("redis", "web", "intake", "engine", "celery", "ledger")


class UnknownPart(Exception):
    """There is no process of this name."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """One process: `name` is its prefix in the log, `environment` is added to the supervisor's."""

    name: str
    command: tuple[str, ...]
    environment: Mapping[str, str] = dataclasses.field(default_factory=dict)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """Where an installation lives and listens."""

    checkout: Path
    data_dir: Path
    redis_url: str
    bind: str
    port: int

    @property
    def base_url(self) -> str:
        """As a person on this machine opens it."""
        host = {"0.0.0.0": "127.0.0.1", "::": "[::1]"}.get(self.bind, self.bind)
        host = f"[{host}]" if ":" in host and not host.startswith("[") else host
        return f"http://{host}:{self.port}"


def chosen_names(only: str | None) -> tuple[str, ...]:
    """The names in `--only web,engine`, or all. Raises UnknownPart."""
    if only is None:
        return NAMES
    wanted = [name.strip() for name in only.split(",") if name.strip()]
    if unknown := [name for name in wanted if name not in NAMES]:
        raise UnknownPart(f"No process is called {unknown[0]!r}; there are {', '.join(NAMES)}.")
    return tuple(name for name in NAMES if name in wanted)


def make_parts(names: Iterable[str], place: Place, environ: Mapping[str, str]) -> list[Part]:
    """The chosen processes except Redis, each as the command that launchd or systemd could run."""
    python = sys.executable
    # Behind a proxy the address of a person is the one that the proxy saw.
    behind_proxy = ("--proxy-headers",) if environ.get("HEARTH_HTTPS") == "1" else ()
    commands: dict[str, tuple[str, ...]] = {
        "web": (
            *(python, "-m", "daphne", "--verbosity", "0", *behind_proxy),
            *("-b", place.bind, "-p", str(place.port), "hosting.asgi:application"),
        ),
        "intake": (python, "-m", "engine.intake"),
        "engine": (python, "-m", "engine"),
        "celery": (
            *(python, "-m", "celery", "-A", "hosting", "--quiet", "worker", "-B"),
            *("--pool", "threads", "--concurrency", "4", "--loglevel", "WARNING"),
            *("--without-gossip", "--without-mingle"),
        ),
        "ledger": (python, "manage.py", "consume_ledger"),
    }
    extra = {
        "engine": openblas.engine_environment(environ, num_cpus=os.cpu_count()),
        # Who runs all of this as root has decided so; each start need not say it in ten lines
        "celery": {"PYTHONWARNINGS": "ignore:You're running the worker with superuser"},
    }
    shared = {"HEARTH_DATA_DIR": str(place.data_dir), "PYTHONUNBUFFERED": "1"}
    return [
        Part(name=name, command=commands[name], environment={**shared, **extra.get(name, {})})
        for name in names
        if name in commands
    ]
