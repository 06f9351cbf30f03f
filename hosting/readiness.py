"""Whether a request sent now would be answered: disk, database, Redis, intake, a moving engine.

It looks and judges; it changes nothing and caches nothing.
"""

from __future__ import annotations

import shutil
import time

from django.conf import settings
from django.db import DatabaseError, connection

from engine import wire
from hosting.engine_client import EngineUnavailable, get_client
from hosting.engine_patience import SILENT_RED_SECONDS, STALLED_RED_SECONDS

MIN_FREE_BYTES = 8 * 2**20


def reasons_not_ready() -> list[str]:
    """Empty when ready; else one sentence for each thing that is missing."""
    return [*_disk_reasons(), *_database_reasons(), *_transport_reasons()]


def _disk_reasons() -> list[str]:
    """The database, Redis' log and the ledger all need to write."""
    free = shutil.disk_usage(settings.DATA_DIR).free
    if free < MIN_FREE_BYTES:
        return [f"the disk of the data folder is full: {free / 2**20:.0f} MiB are free"]
    return []


def _database_reasons() -> list[str]:
    try:
        with connection.cursor() as cursor:
            cursor.execute("SELECT 1")
    except DatabaseError as error:
        return [f"the database does not answer: {type(error).__name__}"]
    return []


def _transport_reasons() -> list[str]:
    client = get_client()
    try:
        client.ping()
        is_intake_alive = client.is_intake_alive()
        engines = client.engines()
    except EngineUnavailable:
        return ["Redis does not answer"]
    intake = [] if is_intake_alive else ["no intake process is alive"]
    return [*intake, *engine_reasons(engines, now=time.time())]


def engine_reasons(engines: list[wire.EngineStatus], *, now: float) -> list[str]:
    """None when at least one engine beats and moves."""
    if not engines:
        return ["no engine is alive"]
    faults = [_engine_fault(engine, now=now) for engine in engines]
    return [] if None in faults else [fault for fault in faults if fault is not None]


def _engine_fault(engine: wire.EngineStatus, *, now: float) -> str | None:
    beat_age = beat_age_seconds(engine, now=now)
    if beat_age > SILENT_RED_SECONDS:
        return f"{engine.engine}: no heartbeat for {beat_age:.1f} s"
    stalled = engine.stalled_seconds + (beat_age if engine.stalled_seconds else 0.0)
    if stalled > STALLED_RED_SECONDS:
        return f"{engine.engine}: has work and computed nothing for {stalled:.1f} s"
    return None


def beat_age_seconds(engine: wire.EngineStatus, *, now: float) -> float:
    return max(0.0, now - engine.beat_at)
