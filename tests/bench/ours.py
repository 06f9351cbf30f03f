"""Our whole service, started and set up as an administrator does it: by `manage.py` alone."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path

from tests.bench.exchange import Target
from tests.stack import Stack, running_stack

HEARTH = "hearth"

_SET_FIELDS = """
from hosting.actions.hosted_models import publish_models
from hosting.models import HostedModel
HostedModel.objects.filter(name={name!r}).update(**{fields!r})
publish_models()
"""


class Service:
    """A running installation in a folder of its own."""

    def __init__(self, stack: Stack) -> None:
        self._stack = stack
        self._api_key = stack.create_api_key("bench")

    def serve(self, name: str, model_path: Path, **fields: int | float) -> Target:
        """Register a model; `fields` are columns of its registration, such as max_rows."""
        self._stack.manage("add_model", str(model_path), "--name", name)
        if fields:
            self._stack.manage("shell", "-c", _SET_FIELDS.format(name=name, fields=fields))
        return Target(name=HEARTH, port=self._stack.port, model=name, api_key=self._api_key)


@contextlib.contextmanager
def hearth_service() -> Iterator[Service]:
    """`manage.py up` on a free port with an empty data folder, until the block is left."""
    os.environ.pop("DATABASE_URL", None)  # never somebody's real database
    with running_stack() as stack:
        yield Service(stack)
