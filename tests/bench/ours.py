"""Our whole service, started and set up as an administrator does it: by `manage.py` alone."""

from __future__ import annotations

import contextlib
import dataclasses
import os
from collections.abc import Iterator
from pathlib import Path

from tests.bench.exchange import Target
from tests.bench.names import HEARTH
from tests.stack import Stack, running_stack

_NO_LIMIT = "100000"  # of requests at once: all streams of a benchmark are one person's

_SET_FIELDS = """
from hosting.actions.hosted_models import publish_models
from hosting.models import HostedModel
HostedModel.objects.filter(name={name!r}).update(**{fields!r})
publish_models()
"""
_ADD_PERSON = """
from accounts.models import User
User.objects.create_user({email!r})
"""


class Service:
    """A running installation in a folder of its own."""

    def __init__(self, stack: Stack) -> None:
        self._stack = stack
        self._api_key = stack.create_api_key("bench")

    def serve(self, name: str, model_path: Path, **fields: int | float | str) -> Target:
        """Register a model; `fields` are columns of its registration, such as max_rows."""
        self._stack.manage("add_model", str(model_path), "--name", name)
        if fields:
            self.set_fields(name, **fields)
        return Target(name=HEARTH, port=self._stack.port, model=name, api_key=self._api_key)

    def set_fields(self, name: str, **fields: int | float | str) -> None:
        """Change a registration while the engine runs."""
        self._stack.manage("shell", "-c", _SET_FIELDS.format(name=name, fields=fields))

    def for_another_person(self, target: Target) -> Target:
        """The same model, asked by somebody else."""
        email = "another@example.org"
        self._stack.manage("shell", "-c", _ADD_PERSON.format(email=email))
        api_key = self._stack.manage("create_api_key", email, "bench")
        return dataclasses.replace(target, api_key=api_key)


@contextlib.contextmanager
def hearth_service(**settings: str) -> Iterator[Service]:
    """`manage.py up` on a free port with an empty data folder, until the block is left; `settings`
    go into its environment."""
    os.environ.pop("DATABASE_URL", None)  # never somebody's real database
    with running_stack(HEARTH_MAX_CONCURRENT=_NO_LIMIT, **settings) as stack:
        yield Service(stack)
