"""What must be true before the first process starts: tables, administrator, models published."""

from __future__ import annotations

import sqlite3
from pathlib import Path

from django.core.management import call_command
from django.db import DatabaseError, connection

from accounts.first_admin import ensure_admin_from_environment
from hosting.actions.hosted_models import ensure_demo_model, follow_data_folder, publish_models
from hosting.supervisor.locks import waiting_lock


class DamagedDatabase(Exception):
    """The file of the database cannot be read."""

    def __init__(self, error: DatabaseError) -> None:
        super().__init__(
            f"{connection.settings_dict['NAME']} cannot be read: {error}. "
            "Put its last backup there, or move it away to begin with an empty one."
        )


class DatabaseAway(Exception):
    """PostgreSQL does not answer, or lets nobody in."""

    def __init__(self, error: DatabaseError) -> None:
        super().__init__(f"The database in DATABASE_URL: {' '.join(str(error).split())}")


def prepare(run_folder: Path) -> None:
    """Quick when nothing is to be done. Two supervisors of one data folder take turns.

    Raises DamagedDatabase and DatabaseAway.
    """
    with waiting_lock(run_folder / "prepare.lock"):
        try:
            _prepare()
        except DatabaseError as error:
            if _is_damage(error):
                raise DamagedDatabase(error) from error
            if connection.vendor == "postgresql" and connection.connection is None:
                raise DatabaseAway(error) from error
            raise


def _prepare() -> None:
    call_command("migrate", verbosity=0, interactive=False)
    ensure_admin_from_environment()
    ensure_demo_model()
    follow_data_folder()
    publish_models()


def _is_damage(error: DatabaseError) -> bool:
    code = getattr(error.__cause__, "sqlite_errorcode", None)
    return code in (sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_CORRUPT)
