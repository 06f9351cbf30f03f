"""`manage.py up`: the whole installation under one supervisor, until Ctrl-C."""

from __future__ import annotations

import asyncio
import os
import sys
from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand, CommandError, CommandParser

from accounts.first_admin import new_setup_url
from engine.config import BadConfig, read_config
from hosting import redis_server
from hosting.supervisor.engines import Seat, find_seats, usable_gpus
from hosting.supervisor.limits import raise_file_limit
from hosting.supervisor.locks import AlreadyRunning, PartLocks
from hosting.supervisor.log import CombinedLog
from hosting.supervisor.parts import (
    NAMES,
    Place,
    UnknownPart,
    chosen_names,
    find_num_web_processes,
)
from hosting.supervisor.ports import BadAddress, PortTaken, check_port
from hosting.supervisor.supervisor import Plan, Supervisor


class Command(BaseCommand):
    help = "Start everything: Redis, web, intake, engine, Celery, beat, ledger. Ctrl-C ends it all."
    requires_system_checks: list[str] = []  # `check` and `doctor` tell; starting should be quick

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--only", metavar="NAMES", help=f"Some of {','.join(NAMES)}")

    def handle(self, *args: Any, only: str | None, **options: Any) -> None:
        raise_file_limit()
        try:
            plan, locks = self._plan(only)
        except (UnknownPart, AlreadyRunning, PortTaken, BadAddress, BadConfig) as error:
            raise CommandError(str(error)) from error
        log = CombinedLog(
            path=settings.DATA_DIR / "logs" / "hearth.log",
            terminal=sys.stdout,
            is_json=settings.LOG_FORMAT == "json",
        )
        try:
            returncode = asyncio.run(self._run(plan, log))
        finally:
            log.close()
            locks.release()
        sys.exit(returncode)

    async def _run(self, plan: Plan, log: CombinedLog) -> int:
        return await Supervisor(plan, log).run()

    def _plan(self, only: str | None) -> tuple[Plan, PartLocks]:
        names = chosen_names(only)
        seats = _find_seats() if "engine" in names else []
        place = own_place()
        locks = PartLocks(place.data_dir / "run")
        for name in names:
            locks.take(name)
        if "web" in names:
            check_port(place.bind, place.port)
        plan = Plan(
            names=names,
            place=place,
            environ=os.environ,
            num_web_processes=find_num_web_processes(os.environ, num_cpus=os.cpu_count()),
            seats=seats,
            is_redis_private=_starts_redis(names, locks, place),
            setup_url=new_setup_url,
        )
        return plan, locks


def _find_seats() -> list[Seat]:
    """Raises BadConfig for what an engine would tell, again and again."""
    seats = find_seats(os.environ, gpus=usable_gpus(os.environ))
    for seat in seats:
        read_config(["--name", seat.name], os.environ)
    return seats


def own_place() -> Place:
    """This installation, as its settings have it."""
    return Place(
        checkout=settings.BASE_DIR,
        data_dir=settings.DATA_DIR,
        redis_url=settings.REDIS_URL,
        bind=settings.BIND,
        port=settings.PORT,
        https_host=settings.PUBLIC_HOST if settings.IS_HTTPS else None,
    )


def _starts_redis(names: tuple[str, ...], locks: PartLocks, place: Place) -> bool:
    """Not when one was named, nor when another supervisor of this folder has it."""
    if os.environ.get("REDIS_URL"):
        return False
    if "redis" in names:
        return True
    if redis_server.is_answering(redis_server.socket_path_of(place.redis_url)):
        return False
    locks.take("redis")
    return True
