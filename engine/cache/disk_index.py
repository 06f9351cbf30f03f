"""What lies on disk, in SQLite: one row per record, so that starting reads no record file.

It does not know the files themselves. Durability: WAL with synchronous=OFF; a power cut may cost
rows or leave rows without files, and both read as a miss. Owner: the cache-io thread.
"""

from __future__ import annotations

import dataclasses
import sqlite3
from collections.abc import Iterator, Sequence
from pathlib import Path

from engine.cache.record import Kind, RecordKey

FORMAT = 1
_SCHEMA = """
CREATE TABLE IF NOT EXISTS record (
    key BLOB NOT NULL, kind TEXT NOT NULL, model TEXT NOT NULL, parent BLOB NOT NULL,
    tokens BLOB NOT NULL, file_bytes INTEGER NOT NULL, owners BLOB NOT NULL,
    used_at REAL NOT NULL, PRIMARY KEY (key, kind)
) WITHOUT ROWID;
CREATE INDEX IF NOT EXISTS record_by_use ON record (used_at);
CREATE TABLE IF NOT EXISTS written (day TEXT PRIMARY KEY, bytes INTEGER NOT NULL);
"""
_COLUMNS = "key, kind, model, parent, tokens, file_bytes, owners, used_at"
OWNER_BYTES = 16


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """`owners` are the 16-byte names of the tenants that computed the block themselves."""

    record: RecordKey
    model: str
    parent: bytes
    tokens: bytes
    file_bytes: int
    owners: frozenset[bytes]
    used_at: float


class DiskIndex:
    def __init__(self, path: Path) -> None:
        """Open or make the index; one of another format or a broken one is started anew."""
        self._path = path
        try:
            self._connection = self._open()
        except sqlite3.DatabaseError:
            for leftover in path.parent.glob(path.name + "*"):
                leftover.unlink()
            self._connection = self._open()

    def _open(self) -> sqlite3.Connection:
        connection = sqlite3.connect(self._path, check_same_thread=False, isolation_level=None)
        self._path.chmod(0o600)
        (found,) = connection.execute("PRAGMA user_version").fetchone()
        if found not in (0, FORMAT):
            connection.close()
            raise sqlite3.DatabaseError("another format")
        connection.execute("PRAGMA journal_mode=WAL")
        connection.execute("PRAGMA synchronous=OFF")
        connection.executescript(_SCHEMA)
        connection.execute(f"PRAGMA user_version={FORMAT}")
        return connection

    def close(self) -> None:
        self._connection.close()

    def rows(self) -> Iterator[Row]:
        for row in self._connection.execute(f"SELECT {_COLUMNS} FROM record ORDER BY used_at"):
            yield _row(row)

    def total_bytes(self) -> int:
        (total,) = self._connection.execute("SELECT TOTAL(file_bytes) FROM record").fetchone()
        return int(total)

    def add(self, row: Row) -> None:
        self._connection.execute(
            f"INSERT OR REPLACE INTO record ({_COLUMNS}) VALUES (?,?,?,?,?,?,?,?)",
            (
                row.record.block,
                row.record.kind,
                row.model,
                row.parent,
                row.tokens,
                row.file_bytes,
                b"".join(sorted(row.owners)),
                row.used_at,
            ),
        )

    def remove(self, records: Sequence[RecordKey]) -> int:
        """Forget these; the bytes that their files held."""
        found = [self._file_bytes(record) for record in records]
        self._connection.execute("BEGIN")
        self._connection.executemany(
            "DELETE FROM record WHERE key = ? AND kind = ?",
            [(record.block, record.kind) for record in records],
        )
        self._connection.execute("COMMIT")
        return sum(found)

    def _file_bytes(self, record: RecordKey) -> int:
        query = "SELECT file_bytes FROM record WHERE key = ? AND kind = ?"
        row = self._connection.execute(query, (record.block, record.kind)).fetchone()
        return row[0] if row else 0

    def touch(self, record: RecordKey, used_at: float) -> None:
        """It was used at this Unix time: what was not used for longest leaves first."""
        query = "UPDATE record SET used_at = ? WHERE key = ? AND kind = ?"
        self._connection.execute(query, (used_at, record.block, record.kind))

    def set_owners(self, block: bytes, owners: frozenset[bytes]) -> None:
        self._connection.execute(
            "UPDATE record SET owners = ? WHERE key = ?", (b"".join(sorted(owners)), block)
        )

    def oldest(self, limit: int) -> list[Row]:
        query = f"SELECT {_COLUMNS} FROM record ORDER BY used_at LIMIT ?"
        return [_row(row) for row in self._connection.execute(query, (limit,))]

    def add_written(self, day: str, num_bytes: int) -> None:
        self._connection.execute(
            "INSERT INTO written VALUES (?, ?) ON CONFLICT (day) DO UPDATE SET bytes = bytes + ?",
            (day, num_bytes, num_bytes),
        )

    def written_bytes(self, day: str) -> int:
        row = self._connection.execute("SELECT bytes FROM written WHERE day = ?", (day,)).fetchone()
        return row[0] if row else 0


def _row(columns: tuple) -> Row:  # type: ignore[type-arg]
    key, kind, model, parent, tokens, file_bytes, owners, used_at = columns
    return Row(
        record=RecordKey(key, Kind(kind)),
        model=model,
        parent=parent,
        tokens=tokens,
        file_bytes=file_bytes,
        owners=frozenset(
            owners[at : at + OWNER_BYTES] for at in range(0, len(owners), OWNER_BYTES)
        ),
        used_at=used_at,
    )
