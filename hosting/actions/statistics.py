"""What the database knows of its long tables, so that it finds good plans when they have grown."""

from __future__ import annotations

from django.db import connection

_LONG = 10_000  # rows; of shorter tables SQLite's own guesses are good, and hold while they grow
_ROWS_LOOKED_AT = 1000  # of each index: a fraction of a second however long the table is


def refresh_statistics() -> None:
    """PostgreSQL does it by itself."""
    if connection.vendor != "sqlite":
        return
    with connection.cursor() as cursor:
        cursor.execute(f"PRAGMA analysis_limit = {_ROWS_LOOKED_AT}")
        for table in connection.introspection.django_table_names(only_existing=True):
            name = connection.ops.quote_name(table)
            cursor.execute(f"SELECT 1 FROM {name} LIMIT 1 OFFSET {_LONG - 1}")
            if cursor.fetchone():
                cursor.execute(f"ANALYZE {name}")
