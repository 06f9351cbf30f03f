"""What must be true before the first process starts: tables, administrator, models published."""

from __future__ import annotations

import sqlite3
from pathlib import Path

from django.core.management import call_command
from django.db import DatabaseError, connection
from django.db.migrations.loader import MigrationLoader

from accounts.first_admin import ensure_admin_from_environment
from hosting.actions.hosted_models import ensure_demo_model, follow_data_folder, publish_models
from hosting.supervisor.locks import waiting_lock

_OWN_APPS = ("accounts", "hosting")


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


class NewerDatabase(Exception):
    """Its tables are of a later Hearth: this one would fail here and there at what it writes."""

    def __init__(self, migration: str) -> None:
        super().__init__(
            f"The database is a newer Hearth's: {migration} is unknown here. Start that one again, "
            "or put back the backup from before the upgrade."
        )


def prepare(run_folder: Path) -> None:
    """Quick when nothing is to be done. Two supervisors of one data folder take turns.

    Raises DamagedDatabase, DatabaseAway and NewerDatabase.
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
    _check_age()
    call_command("migrate", verbosity=0, interactive=False)
    ensure_admin_from_environment()
    ensure_demo_model()
    follow_data_folder()
    publish_models()


def _check_age() -> None:
    loader = MigrationLoader(connection)
    unknown = loader.applied_migrations.keys() - loader.disk_migrations.keys()
    own = sorted(f"{app}.{name}" for app, name in unknown if app in _OWN_APPS)
    if own:
        raise NewerDatabase(own[-1])


def _is_damage(error: DatabaseError) -> bool:
    code = getattr(error.__cause__, "sqlite_errorcode", None)
    return code in (sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_CORRUPT)
