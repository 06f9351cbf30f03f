"""What lies on disk, in SQLite: one row per record, so that starting reads no record file.

It does not know the files themselves. Every row is under a checksum of its own. Durability: WAL
with synchronous=OFF; a power cut may cost rows or leave rows without files, and both read as a
miss. A full disk is enough to read an index that is there. Where there is no room for a new one, or
the disk does not take it, it is one in memory until the next start: what lies on the disk is
nobody's then. Owner: the cache-io thread.
"""

from __future__ import annotations

import contextlib
import dataclasses
import sqlite3
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

import xxhash

from engine.cache.owners import OWNER_BYTES, has_publication
from engine.cache.record import Kind, RecordKey

FORMAT = 5  # of this, of whose records are, of the files' places and of what names a model
LOCKED_SECONDS = 0.25  # what another program that has it open may take
CHAIN_STEP_SECONDS = 1e-6  # so much older than its parent is a block that was used with it
_SCHEMA = """
CREATE TABLE IF NOT EXISTS record (
    key BLOB NOT NULL, kind TEXT NOT NULL, model TEXT NOT NULL, parent BLOB NOT NULL,
    tokens BLOB NOT NULL, file_bytes INTEGER NOT NULL, owners BLOB NOT NULL, checksum BLOB NOT NULL,
    is_published INTEGER NOT NULL, used_at REAL NOT NULL, PRIMARY KEY (key, kind)
) WITHOUT ROWID;
CREATE INDEX IF NOT EXISTS record_by_use ON record (is_published, used_at);
CREATE INDEX IF NOT EXISTS record_by_model ON record (model, is_published, used_at, file_bytes);
CREATE TABLE IF NOT EXISTS written (day TEXT PRIMARY KEY, bytes INTEGER NOT NULL);
"""
_COLUMNS = "key, kind, model, parent, tokens, file_bytes, owners, checksum, used_at"


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """`owners` as owners.py names them."""

    record: RecordKey
    model: str
    parent: bytes
    tokens: bytes
    file_bytes: int
    owners: frozenset[bytes]
    used_at: float


class DiskIndex:
    def __init__(self, path: Path) -> None:
        """Open or make the index; one of another format or a broken one is started anew, and one
        that cannot be read or written: of `fault`, where not even a new one can."""
        self._path = path
        self.num_corrupt = 0
        self.fault: sqlite3.Error | None = None
        try:
            self._connection = self._open_stored()
            self._rows = self._read_rows()
        except sqlite3.DatabaseError:
            self._connection = self._begin_anew()
            self._rows = []

    def _open_stored(self) -> sqlite3.Connection:
        """A full disk has no room for what connections share: then this one has it in memory."""
        try:
            return self._open(self._path)
        except sqlite3.OperationalError:
            return self._open(self._path, is_alone=True)

    def _begin_anew(self) -> sqlite3.Connection:
        self._unlink()
        try:
            return self._open(self._path)
        except sqlite3.DatabaseError as error:
            self.fault = error
            self._unlink()
            return self._open(None)

    def _open(self, path: Path | None, *, is_alone: bool = False) -> sqlite3.Connection:
        """In memory without a path."""
        connection = sqlite3.connect(
            path or ":memory:",
            timeout=LOCKED_SECONDS,
            check_same_thread=False,
            isolation_level=None,
        )
        with contextlib.ExitStack() as failed:
            failed.callback(connection.close)
            if path is not None:
                path.chmod(0o600)
            if is_alone:
                connection.execute("PRAGMA locking_mode=EXCLUSIVE")
            (found,) = connection.execute("PRAGMA user_version").fetchone()
            if found not in (0, FORMAT):
                raise sqlite3.DatabaseError("another format")
            connection.execute("PRAGMA journal_mode=WAL")
            connection.execute("PRAGMA synchronous=OFF")
            connection.executescript(_SCHEMA)
            if found != FORMAT:  # a full disk takes no write that changes nothing either
                connection.execute(f"PRAGMA user_version={FORMAT}")
            failed.pop_all()
        return connection

    def close(self) -> None:
        self._connection.close()

    def destroy(self) -> None:
        """Close and delete it. The records' files become strays."""
        self.close()
        self._unlink()

    def _unlink(self) -> None:
        for suffix in ("", "-wal", "-shm"):
            self._path.with_name(self._path.name + suffix).unlink(missing_ok=True)

    def take_rows(self) -> list[Row]:
        """What was there when the index was opened, once."""
        rows, self._rows = self._rows, []
        return rows

    def has(self, record: RecordKey) -> bool:
        query = "SELECT 1 FROM record WHERE key = ? AND kind = ?"
        return self._connection.execute(query, (record.block, record.kind)).fetchone() is not None

    def total_bytes(self) -> int:
        (total,) = self._connection.execute("SELECT TOTAL(file_bytes) FROM record").fetchone()
        return int(total)

    def model_bytes(self, model: str) -> int:
        query = "SELECT TOTAL(file_bytes) FROM record WHERE model = ?"
        return int(self._connection.execute(query, (model,)).fetchone()[0])

    def save(self, row: Row, day: str) -> int:
        """`add`, and its bytes were written on this day: one transaction."""
        with self._transaction():
            replaced_bytes = self.add(row)
            self._connection.execute(
                "INSERT INTO written VALUES (?, ?)"
                " ON CONFLICT (day) DO UPDATE SET bytes = bytes + ?",
                (day, row.file_bytes, row.file_bytes),
            )
        return replaced_bytes

    def add(self, row: Row) -> int:
        """Know this record from now on; the bytes of an earlier row of it."""
        replaced_bytes = self._file_bytes(row.record)
        owners = b"".join(sorted(row.owners))
        self._connection.execute(
            f"INSERT OR REPLACE INTO record ({_COLUMNS}, is_published)"
            " VALUES (?,?,?,?,?,?,?,?,?,?)",
            (
                row.record.block,
                row.record.kind,
                row.model,
                row.parent,
                row.tokens,
                row.file_bytes,
                owners,
                _checksum(row, owners),
                row.used_at,
                has_publication(row.owners),
            ),
        )
        return replaced_bytes

    def remove(self, records: Sequence[RecordKey]) -> int:
        """Forget these; the bytes that their files held."""
        found = [self._file_bytes(record) for record in records]
        query = "DELETE FROM record WHERE key = ? AND kind = ?"
        self._execute_all(query, [(record.block, record.kind) for record in records])
        return sum(found)

    def _file_bytes(self, record: RecordKey) -> int:
        query = "SELECT file_bytes FROM record WHERE key = ? AND kind = ?"
        row = self._connection.execute(query, (record.block, record.kind)).fetchone()
        return row[0] if row else 0

    def touch(self, records: Sequence[RecordKey], used_at: float) -> None:
        """A chain was used at this Unix time: what was not used for longest leaves first."""
        query = "UPDATE record SET used_at = ? WHERE key = ? AND kind = ?"
        self._execute_all(
            query,
            [
                (used_at - place * CHAIN_STEP_SECONDS, record.block, record.kind)
                for place, record in enumerate(records)
            ],
        )

    def set_owners(self, record: RecordKey, owners: frozenset[bytes]) -> None:
        query = f"SELECT {_COLUMNS} FROM record WHERE key = ? AND kind = ?"
        for columns in self._connection.execute(query, (record.block, record.kind)).fetchall():
            row = _row(columns)
            if row is not None:
                self.add(dataclasses.replace(row, owners=owners))

    def oldest(self, limit: int, *, model: str | None = None) -> list[Row]:
        """What leaves first, of this model or of all; what is published comes last."""
        of_model, whose = ("WHERE model = ?", [model]) if model is not None else ("", [])
        query = f"SELECT {_COLUMNS} FROM record {of_model} ORDER BY is_published, used_at LIMIT ?"
        return list(_valid(self._connection.execute(query, (*whose, limit))))

    def written_bytes(self, day: str) -> int:
        row = self._connection.execute("SELECT bytes FROM written WHERE day = ?", (day,)).fetchone()
        return row[0] if row else 0

    @contextlib.contextmanager
    def _transaction(self) -> Iterator[None]:
        with self._connection:  # commits, or rolls back
            self._connection.execute("BEGIN")
            yield

    def _execute_all(self, query: str, parameters: Sequence[tuple[object, ...]]) -> None:
        with self._transaction():
            self._connection.executemany(query, parameters)

    def _read_rows(self) -> list[Row]:
        """In the order of their use. Rows that are not as they were written are forgotten."""
        query = f"SELECT {_COLUMNS} FROM record ORDER BY used_at"
        found = self._connection.execute(query).fetchall()
        rows = list(_valid(found))
        self.num_corrupt = len(found) - len(rows)
        if self.num_corrupt:
            with contextlib.suppress(sqlite3.OperationalError):  # of a full disk: the next time
                self._replace_all(rows)
        return rows

    def _replace_all(self, rows: Iterable[Row]) -> None:
        with self._transaction():
            self._connection.execute("DELETE FROM record")
            for row in rows:
                self.add(row)


def _valid(found: Iterable[tuple]) -> Iterable[Row]:  # type: ignore[type-arg]
    return (row for columns in found if (row := _row(columns)) is not None)


def _row(columns: tuple) -> Row | None:  # type: ignore[type-arg]
    """None for a row that is not as it was written."""
    key, kind, model, parent, tokens, file_bytes, owners, checksum, used_at = columns
    try:
        row = Row(
            record=RecordKey(key, Kind(kind)),
            model=model,
            parent=parent,
            tokens=tokens,
            file_bytes=file_bytes,
            owners=frozenset(
                owners[at : at + OWNER_BYTES] for at in range(0, len(owners), OWNER_BYTES)
            ),
            used_at=float(used_at),
        )
        return row if _checksum(row, owners) == checksum else None
    except (ValueError, TypeError, AttributeError):
        return None


def _checksum(row: Row, owners: bytes) -> bytes:
    digest = xxhash.xxh3_128()
    for part in (row.record.block, row.record.kind.encode(), row.model.encode(), row.parent):
        digest.update(len(part).to_bytes(4, "little") + part)
    digest.update(row.file_bytes.to_bytes(8, "little") + owners)
    digest.update(row.tokens)
    return digest.digest()
