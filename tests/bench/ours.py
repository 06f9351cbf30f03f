"""Our whole service, started and set up as an administrator does it: by `manage.py` alone."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from tests.bench.exchange import Target
from tests.bench.processes import Child, free_port
from tests.bench.report import REPOSITORY

HEARTH = "hearth"
ADMIN_EMAIL = "bench@example.org"
_INHERITED_ADDRESSES = ("REDIS_URL", "DATABASE_URL")  # of another installation, perhaps

_SET_FIELDS = """
from hosting.actions.hosted_models import publish_models
from hosting.models import HostedModel
HostedModel.objects.filter(name={name!r}).update(**{fields!r})
publish_models()
"""


class Service:
    """A running installation in a folder of its own."""

    def __init__(self, *, port: int, environment: dict[str, str]) -> None:
        self._port = port
        self._environment = environment
        self._api_key = self._manage("create_api_key", ADMIN_EMAIL, "bench").splitlines()[-1]

    def serve(self, name: str, model_path: Path, **fields: int | float) -> Target:
        """Register a model; `fields` are columns of its registration, such as max_rows."""
        self._manage("add_model", str(model_path), "--name", name)
        if fields:
            self._manage("shell", "-c", _SET_FIELDS.format(name=name, fields=fields))
        return Target(name=HEARTH, port=self._port, model=name, api_key=self._api_key)

    def _manage(self, *arguments: str) -> str:
        done = subprocess.run(
            [sys.executable, "manage.py", *arguments],
            cwd=REPOSITORY,
            env=self._environment,
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode != 0:
            raise RuntimeError(f"manage.py {' '.join(arguments[:2])}: {done.stderr[-2000:]}")
        return done.stdout.strip()


@contextlib.contextmanager
def hearth_service(logs: Path) -> Iterator[Service]:
    """`manage.py up` on a free port with an empty data folder, until the block is left."""
    port = free_port()
    with tempfile.TemporaryDirectory(prefix="hearth-bench-") as data_dir:
        environment = _environment(Path(data_dir), port)
        command = [sys.executable, "manage.py", "up"]
        with Child(command, log=logs / "hearth.log", environment=environment) as child:
            child.wait_until_ready(f"http://127.0.0.1:{port}/readyz")
            yield Service(port=port, environment=environment)


def _environment(data_dir: Path, port: int) -> dict[str, str]:
    inherited = {
        name: value
        for name, value in os.environ.items()
        if name not in _INHERITED_ADDRESSES and not name.startswith("HEARTH_")
    }
    return {
        **inherited,
        "HEARTH_DATA_DIR": str(data_dir),
        "PORT": str(port),
        "HEARTH_ADMIN_EMAIL": ADMIN_EMAIL,
        "HEARTH_ADMIN_PASSWORD": "only for this benchmark 1",
    }
