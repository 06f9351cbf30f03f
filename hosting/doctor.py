"""Looks at this machine and this installation: what is fine, and what to do about the rest.

It changes nothing. MLX is asked in a process of its own, since no web process imports it.
"""

from __future__ import annotations

import dataclasses
import http.client
import json
import os
import platform
import resource
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import psutil
from django.conf import settings
from django.db import DatabaseError, connection
from django.db.migrations.executor import MigrationExecutor

from hosting import redis_server
from hosting.engine_client import EngineUnavailable, get_client
from hosting.management.commands.up import own_place
from hosting.models import HostedModel
from hosting.supervisor import openblas, ports
from hosting.supervisor.readiness import why_not_ready

OLDEST_PYTHON = (3, 11)
MLX_SECONDS = 120
READINESS_SECONDS = 15  # a Redis that hangs takes ten of them
MIN_FREE_BYTES = 2 * 1024**3
MIN_FREE_FRACTION = 0.02
MIN_OPEN_FILES = 4096
GIB = 1024**3
ASK_MLX = """
import json, mlx.core as mx
mx.eval(mx.ones(2) + 1)
device = mx.default_device()
info = mx.device_info(device) if hasattr(mx, "device_info") else {}
print(json.dumps({"version": mx.__version__, "device": str(device.type).split(".")[-1],
                  "name": info.get("device_name", ""), "memory": info.get("memory_size", 0)}))
"""


@dataclasses.dataclass(frozen=True, slots=True)
class Finding:
    """`text` says what is there when ok, else what to do."""

    subject: str
    is_ok: bool
    text: str


def examine() -> list[Finding]:
    checks: list[tuple[str, Callable[[], tuple[bool, str]]]] = [
        ("Python", _python),
        ("MLX", _mlx),
        ("OpenBLAS", _openblas),
        ("Redis", _redis),
        ("database", _database),
        ("port", _port),
        ("disk", _disk),
        ("models", _models),
        ("open files", _open_files),
    ]
    return [Finding(subject, *check()) for subject, check in checks]


def _python() -> tuple[bool, str]:
    found = f"{platform.python_version()} on {platform.system()} {platform.machine()}"
    if sys.version_info < OLDEST_PYTHON:
        return False, f"{found}; Hearth needs 3.11 or newer: remove .venv and run `make up` again"
    return True, found


def _mlx() -> tuple[bool, str]:
    try:
        answer = subprocess.run(
            [sys.executable, "-c", ASK_MLX], capture_output=True, text=True, timeout=MLX_SECONDS
        )
    except subprocess.TimeoutExpired:
        return False, f"gave no answer in {MLX_SECONDS} s: is the GPU driver stuck? Restart it"
    if answer.returncode != 0:
        last_line = (answer.stderr.strip().splitlines() or ["no message"])[-1]
        return False, f"does not work ({last_line}): remove .venv and run `make up` again"
    told = json.loads(answer.stdout)
    memory = told["memory"] or psutil.virtual_memory().total
    name = f" ({told['name']})" if told["name"] else ""
    return True, f"{told['version']} on {told['device']}{name}, {memory / GIB:.0f} GiB of memory"


def _openblas() -> tuple[bool, str]:
    if not openblas.is_wanted():
        return True, "not needed here"
    library = openblas.find_openblas(os.environ)
    if library is None:
        return False, f"MLX on a CPU is about 20 times slower without. {openblas.HOW_TO_GET_IT}"
    if os.sep in library and not Path(library).is_file():  # else the loader looks for it
        return False, f"{library} is not there: correct HEARTH_OPENBLAS, or unset it"
    return True, library


def _redis() -> tuple[bool, str]:
    if os.environ.get("REDIS_URL"):
        return _named_redis()
    try:
        binary = redis_server.find_redis_server(os.environ)
    except redis_server.NoRedisServer as error:
        return False, str(error)
    socket_path = redis_server.socket_path_of(settings.REDIS_URL)
    state = "running" if redis_server.is_answering(socket_path) else "not running now"
    return True, f"private, {binary}, {state}"


def _named_redis() -> tuple[bool, str]:
    try:
        policy = get_client().eviction_policy()
    except EngineUnavailable as error:
        return False, f"{error} Start the server in REDIS_URL, correct it, or unset it"
    if policy != "noeviction":
        return False, "deletes what waits when it is full: set maxmemory-policy noeviction there"
    return True, "answers at REDIS_URL"


def _database() -> tuple[bool, str]:
    try:
        executor = MigrationExecutor(connection)
    except DatabaseError as error:
        return False, f"does not answer ({error}): check DATABASE_URL"
    missing = executor.migration_plan(executor.loader.graph.leaf_nodes())
    if missing and executor.loader.applied_migrations:
        return False, f"{len(missing)} migrations are not applied: run `manage.py migrate`"
    return True, f"{connection.vendor}{', new (`make up` makes its tables)' if missing else ''}"


def _port() -> tuple[bool, str]:
    where = f"{settings.BIND}:{settings.PORT}"
    try:
        ports.check_port(settings.BIND, settings.PORT)
    except ports.BadAddress as error:
        return False, str(error)
    except ports.PortTaken as error:
        return _running_hearth(where) if _is_hearth_there() else (False, str(error))
    return True, f"{where} is free"


def _running_hearth(where: str) -> tuple[bool, str]:
    reason = why_not_ready(own_place(), seconds=READINESS_SECONDS)
    if reason is not None:
        return False, f"{where} is used by a running Hearth that is not ready: {reason}"
    return True, f"{where} is used by a running Hearth"


def _is_hearth_there() -> bool:
    host = "127.0.0.1" if settings.BIND in ("0.0.0.0", "::") else settings.BIND
    server = http.client.HTTPConnection(host, settings.PORT, timeout=2)
    try:
        server.request("GET", "/healthz", headers={"Host": "localhost"})
        return server.getresponse().read() == b"ok\n"
    except (OSError, http.client.HTTPException):
        return False
    finally:
        server.close()


def _disk() -> tuple[bool, str]:
    usage = shutil.disk_usage(settings.DATA_DIR)
    text = f"{usage.free / GIB:.1f} GiB free at {settings.DATA_DIR}"
    if usage.free < max(MIN_FREE_BYTES, usage.total * MIN_FREE_FRACTION):
        return False, f"{text}: make room, or move HEARTH_DATA_DIR to a larger disk"
    return True, text


def _models() -> tuple[bool, str]:
    try:
        models = list(HostedModel.objects.servable())
    except DatabaseError:
        return True, "none yet (`make up` registers the demo model)"
    if broken := [model for model in models if not _has_weights(Path(model.path))]:
        named = ", ".join(f"{model.name} ({model.path})" for model in broken)
        return False, f"no weights in the folder of {named}: put them back, or disable the model"
    return True, ", ".join(model.name for model in models) or "none registered"


def _has_weights(folder: Path) -> bool:
    return (folder / "config.json").is_file() and any(folder.glob("[!.]*.safetensors"))


def _open_files() -> tuple[bool, str]:
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard != resource.RLIM_INFINITY and hard < MIN_OPEN_FILES:
        return False, f"at most {hard} may be open: raise it (`ulimit -Hn {MIN_OPEN_FILES}`)"
    return True, "no limit" if hard == resource.RLIM_INFINITY else f"up to {hard}"
