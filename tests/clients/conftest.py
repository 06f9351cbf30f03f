"""The shared installation, and what each client's program reported of it."""

from __future__ import annotations

from tests.flow.conftest import client, demo, endless
from tests.stack import api_key, stack

__all__ = ["api_key", "client", "demo", "endless", "stack"]

collect_ignore = ["programs"]
