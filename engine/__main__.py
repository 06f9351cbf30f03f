"""`python -m engine`: read the settings, build the objects, hand them to each other, run.

Exit codes: 0 after SIGTERM or SIGINT, 2 for settings that cannot work or a name that is taken.
"""

from __future__ import annotations

import contextlib
import gc
import logging
import os
import resource
import signal
import sys
import threading
from collections.abc import MutableMapping
from importlib.metadata import version
from pathlib import Path

from engine.config import BadConfig, EngineConfig, config_from_process, read_log_level
from engine.transport import NameTaken, Transport, check_name

_OPEN_FILES = 4096  # importing mlx_lm lowers the limit to this, for good


def main() -> int:
    try:
        logging.basicConfig(
            level=read_log_level(os.environ),
            format="%(asctime)s %(levelname)s %(name)s %(message)s",
        )
        config = config_from_process(sys.argv[1:])
        _check_limits()
        keep_kernels(config.data_dir, os.environ)
        _serve(config, _stopping_by_signal())
    except (BadConfig, NameTaken) as error:
        print(f"engine: {error}", file=sys.stderr)
        return 2
    return 0


def _stopping_by_signal() -> threading.Event:
    stopping = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stopping.set())
    return stopping


def _serve(config: EngineConfig, stopping: threading.Event) -> None:
    # Only now: mlx_lm changes the process's limits when it is imported.
    from engine.assembly import build_worker
    from engine.at_work import AtWork, at_work_file
    from engine.metrics import Vitals
    from engine.model.memory import DeviceMemory
    from engine.prefixes import Prefixes
    from engine.warmth import Warmth

    _raise_open_files()
    check_name(config.redis_url, config.name)
    memory = DeviceMemory(
        explicit_ceiling_bytes=config.memory_limit_bytes, share=config.memory_share
    )
    prefixes = Prefixes(config, ceiling_bytes=memory.ceiling_bytes)
    vitals = Vitals(engine_name=config.name, memory=memory)
    at_work = AtWork(at_work_file(config))
    transport = Transport(
        redis_url=config.redis_url,
        engine_name=config.name,
        status=vitals.status,
        is_clearing=prefixes.is_clearing,
        lives=at_work.lives,
        weigh=Warmth(prefixes.cache).weigh,
    )
    worker = build_worker(
        config,
        transport=transport,
        memory=memory,
        vitals=vitals,
        prefixes=prefixes,
        at_work=at_work,
    )
    # What is imported stays: looking through it for garbage held up steps for 40 ms.
    gc.collect()
    gc.freeze()
    transport.start()
    if memory.is_cpu:
        _compute_undisturbed()
    try:
        worker.run(stopping)
    finally:
        transport.close()
        prefixes.close()
        worker.close()


def _compute_undisturbed() -> None:
    """MLX hands each operation on a CPU to a thread of its own, and where cores are few the two
    interrupt each other at every one: 60 times a token. Threads of Linux's batch class do not; they
    give way to all others. It counts for this thread and those that it starts from now on."""
    if sys.platform == "linux":
        with contextlib.suppress(OSError):  # a sandbox may not let it
            os.sched_setscheduler(0, os.SCHED_BATCH, os.sched_param(0))


def keep_kernels(data_dir: Path, environ: MutableMapping[str, str]) -> None:
    """What MLX compiles for CUDA outlives the machine's next start: by itself it lies in /tmp, in a
    folder of whoever of all users made it first. It is read when mlx first compiles."""
    environ.setdefault("MLX_PTX_CACHE_DIR", str(data_dir / "kernels" / version("mlx")))


def _check_limits() -> None:
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard != resource.RLIM_INFINITY and hard < _OPEN_FILES:
        raise BadConfig(f"the limit of open files is {hard}; mlx_lm needs {_OPEN_FILES}")


def _raise_open_files() -> None:
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


if __name__ == "__main__":
    sys.exit(main())
