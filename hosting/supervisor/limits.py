"""Open files: macOS allows 256 by default, and Redis and every open stream need some."""

from __future__ import annotations

import contextlib
import resource

WANTED_FILES = (65536, 10240, 4096)


def raise_file_limit() -> int:
    """The limit that is now in force, for this process and its children."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    for wanted in WANTED_FILES:
        limit = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
        if soft != resource.RLIM_INFINITY and limit > soft:
            with contextlib.suppress(ValueError, OSError):  # macOS: above what its kernel allows
                resource.setrlimit(resource.RLIMIT_NOFILE, (limit, hard))
                break
    return resource.getrlimit(resource.RLIMIT_NOFILE)[0]
