"""Which processes an installation has and the plain command of each. Pure."""

from __future__ import annotations

import dataclasses
import os
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

from hosting import environment
from hosting.supervisor import heap, openblas
from hosting.supervisor.engines import Seat

# In the order of starting; Redis is first to come and last to go.
NAMES = ("redis", "web", "intake", "engine", "celery", "beat", "ledger")
NO_DJANGO = ("intake", "engine")
CPUS_PER_WEB = 4  # the engine and its libraries use the others
MOST_WEB = 4


class UnknownPart(Exception):
    """There is no process of this name."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """One process: `name` is its prefix in the log, `environment` is added to the supervisor's,
    `inherits` are open files that it gets under the same numbers. `engine`: an engine's name.
    """

    name: str
    command: tuple[str, ...]
    environment: Mapping[str, str] = dataclasses.field(default_factory=dict)
    inherits: tuple[int, ...] = ()
    engine: str | None = None


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """Where an installation lives and listens."""

    checkout: Path
    data_dir: Path
    redis_url: str
    bind: str
    port: int
    https_host: str | None = None

    @property
    def base_url(self) -> str:
        """As a person on this machine opens it."""
        host = {"0.0.0.0": "127.0.0.1", "::": "[::1]"}.get(self.bind, self.bind)
        host = f"[{host}]" if ":" in host and not host.startswith("[") else host
        return f"http://{host}:{self.port}"

    @property
    def public_url(self) -> str:
        """As other people open it, where a proxy in front is known by name."""
        return f"https://{self.https_host}" if self.https_host else self.base_url


def chosen_names(only: str | None) -> tuple[str, ...]:
    """The names in `--only web,engine`, or all. Raises UnknownPart."""
    if only is None:
        return NAMES
    wanted = [name.strip() for name in only.split(",") if name.strip()]
    if unknown := [name for name in wanted if name not in NAMES]:
        raise UnknownPart(f"No process is called {unknown[0]!r}; there are {', '.join(NAMES)}.")
    return tuple(name for name in NAMES if name in wanted)


def make_parts(
    names: Iterable[str],
    place: Place,
    environ: Mapping[str, str],
    *,
    num_web_processes: int,
    web_socket: int,
    seats: Sequence[Seat],
) -> list[Part]:
    """The chosen processes except Redis, each as the command that launchd or systemd could run.

    All web processes accept from `web_socket`, the number of an open file.
    """
    python = sys.executable
    commands: dict[str, tuple[str, ...]] = {
        "intake": (python, "-m", "engine.intake"),
        "celery": (
            *(python, "-m", "celery", "-A", "hosting", "--quiet", "worker"),
            *("--pool", "threads", "--concurrency", "8", "--loglevel", "WARNING"),
            *("--without-gossip", "--without-mingle"),
        ),
        "beat": (python, "-m", "hosting.beat"),
        "ledger": (python, "manage.py", "consume_ledger"),
    }
    extra = {
        # Who runs all of this as root has decided so; each start need not say it in ten lines
        "celery": {"PYTHONWARNINGS": "ignore:You're running the worker with superuser"},
    }
    shared = {"HEARTH_DATA_DIR": str(place.data_dir), "PYTHONUNBUFFERED": "1"}
    others = [
        Part(name=name, command=commands[name], environment={**shared, **extra.get(name, {})})
        for name in names
        if name in commands
    ]
    num_web = num_web_processes if "web" in names else 0
    engines = _engine_parts(seats, shared, environ) if "engine" in names else ()
    return [*_web_parts(num_web, shared, web_socket), *engines, *others]


def _engine_parts(
    seats: Sequence[Seat], shared: Mapping[str, str], environ: Mapping[str, str]
) -> Iterator[Part]:
    num_cpus = (os.cpu_count() or 1) // len(seats)
    for seat in seats:
        yield Part(
            name="engine" if len(seats) == 1 else seat.name,
            command=(sys.executable, "-m", "engine", "--name", seat.name),
            environment={
                **shared,
                **openblas.engine_environment(environ, num_cpus=num_cpus),
                **heap.engine_environment(environ),
                **seat.environment,
            },
            engine=seat.name,
        )


def _web_parts(num: int, shared: Mapping[str, str], web_socket: int) -> Iterator[Part]:
    for number in range(1, num + 1):
        yield Part(
            name="web" if number == 1 else f"web-{number}",
            command=(
                *(sys.executable, "-m", "hosting.daphne_server", "--verbosity", "0"),
                *("--fd", str(web_socket), "hosting.asgi:application"),
            ),
            environment=shared,
            inherits=(web_socket,),
        )


def find_num_web_processes(environ: Mapping[str, str], *, num_cpus: int | None) -> int:
    """As HEARTH_WEB_PROCESSES says; else one for each four processors, four at most.

    Raises ImproperlyConfigured.
    """
    usual = min(MOST_WEB, max(1, (num_cpus or 1) // CPUS_PER_WEB))
    return environment.number("HEARTH_WEB_PROCESSES", usual, least=1, most=256, environ=environ)
