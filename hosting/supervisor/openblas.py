"""OpenBLAS for MLX on a Linux CPU: float32 about 20 times faster than by the wheel's own BLAS."""

from __future__ import annotations

import os
import sys
import sysconfig
from collections.abc import Mapping
from pathlib import Path

PATTERNS = (
    "/usr/lib/*-linux-gnu/libopenblas.so.0",
    "/usr/lib/*-linux-gnu/openblas-*/libopenblas.so.0",
    "/usr/lib64/libopenblas*.so.0",
    "/usr/lib/libopenblas*.so.0",
    "/usr/local/lib/libopenblas.so.0",
)
PACKAGE_PATTERN = "opencv_python*.libs/libopenblas*.so"
HOW_TO_GET_IT = "Debian/Ubuntu: apt-get install libopenblas0-pthread; Fedora: dnf install openblas"
MAX_THREADS = 8


def find_openblas(environ: Mapping[str, str]) -> str | None:
    """A library to preload: HEARTH_OPENBLAS, the system's, or the one in OpenCV's wheel."""
    if named := environ.get("HEARTH_OPENBLAS"):
        return named
    for pattern in PATTERNS:
        if found := sorted(Path("/").glob(pattern.lstrip("/"))):
            return str(found[0])
    packaged = sorted(Path(sysconfig.get_path("purelib")).glob(PACKAGE_PATTERN))
    return str(packaged[0]) if packaged else None


def engine_environment(environ: Mapping[str, str], *, num_cpus: int | None) -> dict[str, str]:
    """What the engine's environment gains: the preload, and threads that leave room for the web."""
    if not sys.platform.startswith("linux"):
        return {}
    library = find_openblas(environ)
    if library is None:
        return {}
    preloads = [library, *filter(None, [environ.get("LD_PRELOAD")])]
    threads = str(max(1, min(MAX_THREADS, (num_cpus or 1) // 2)))
    return {
        "LD_PRELOAD": os.pathsep.join(dict.fromkeys(preloads)),
        "OPENBLAS_NUM_THREADS": environ.get("OPENBLAS_NUM_THREADS", threads),
    }


def is_wanted() -> bool:
    """Only MLX on a Linux CPU has no fast BLAS of its own."""
    return sys.platform.startswith("linux")


if __name__ == "__main__":  # for the set-up and the tests: where is it?
    library = find_openblas(os.environ)
    print(library or "")
    sys.exit(0 if library else 1)
