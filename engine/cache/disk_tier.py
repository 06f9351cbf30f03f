"""The SSD tier: records as files under budgets. It does not know prompts, owners' rights or mlx.

Writing: temp file, index row, rename; in this order, so that a crash at any point leaves no file
without a row, and a row without a file is a miss. No fsync: after a power cut a file may hold
zeros, which its checksum shows, and that is a miss too.
Room: least recently used records go first, inline, at most MAX_UNLINKS for one save. A model that
fills its share of the budget evicts its own records. What a lowered limit has left above it is
trimmed, so many at a time; a save that has freed more than it writes is kept meanwhile.
A full disk or a failing one stops nothing: the save is counted as dropped and serving goes on.
Strays: files that a lost index or a dead process left are looked for by name, a few at a time.
Owner: the cache-io thread.
"""

from __future__ import annotations

import dataclasses
import itertools
import secrets
import sqlite3
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from engine.cache.disk_index import DiskIndex, Row
from engine.cache.files import Files, RealFiles
from engine.cache.record import ArrayBytes, Corrupt, RecordKey, pack, unpack
from engine.cache.strays import TEMPORARY, Strays

MAX_UNLINKS = 32
FREE_READING_SECONDS = 5.0


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class DiskLimits:
    """Bytes. The floor is what must stay free for everybody else on the disk."""

    budget_bytes: int
    free_floor_bytes: int
    daily_write_bytes: int


@dataclasses.dataclass(frozen=True, slots=True)
class SaveOutcome:
    """Whether the record is on disk now, how large its file is, and what left the disk for it."""

    is_persisted: bool
    file_bytes: int
    evicted: tuple[RecordKey, ...]


@dataclasses.dataclass(slots=True)
class DiskCounters:
    """`hindrance`: why the last record was not written; empty when it was."""

    num_evicted: int = 0
    num_corrupt: int = 0
    num_read_errors: int = 0
    num_write_errors: int = 0
    written_bytes: int = 0
    read_bytes: int = 0
    last_error: str = ""
    hindrance: str = ""

    def note(self, error: Exception) -> None:
        strerror = error.strerror if isinstance(error, OSError) else str(error)
        self.last_error = strerror or type(error).__name__


class DiskTier:
    """Invariants: used_bytes is the sum of the index's rows; every record file has its row."""

    def __init__(
        self,
        directory: Path,
        limits: DiskLimits,
        *,
        now: Callable[[], float],
        today: Callable[[], str],
        files: Files | None = None,
    ) -> None:
        self.limits = limits
        self.counters = DiskCounters()
        self._directory = directory
        self._files: Files = files or RealFiles()
        self._now, self._today = now, today
        self._free: tuple[float, int] | None = None  # (read at, bytes)
        self._shares: dict[str, float] = {}
        own_name = secrets.token_hex(8)
        self._temp_names = (f"{own_name}-{n}{TEMPORARY}" for n in itertools.count())
        self._strays = Strays(directory, own_prefix=own_name, is_in_place=self._is_in_place)
        self._open_index()
        self.counters.num_corrupt = self.index.num_corrupt

    def close(self) -> None:
        self.index.close()

    @property
    def written_today_bytes(self) -> int:
        """Of the UTC day, restarts included."""
        day, num_bytes = self._written
        return num_bytes if day == self._today() else 0

    def save(self, row: Row, arrays: Sequence[ArrayBytes]) -> SaveOutcome:
        pieces = pack(row.record, row.tokens, arrays)
        file_bytes = sum(map(len, pieces))
        evicted: tuple[RecordKey, ...] = ()
        try:
            leaving = self._make_room(row.model, file_bytes)
            evicted = _records_of(leaving)
            freed_bytes = sum(one.file_bytes for one in leaving)
            self.counters.hindrance = self._hindrance(row.model, file_bytes, freed_bytes)
            if not self.counters.hindrance:
                self._write(dataclasses.replace(row, file_bytes=file_bytes), pieces)
                return SaveOutcome(True, file_bytes, evicted)
        except (OSError, sqlite3.Error) as error:
            self._count_write_error(error)
            self._come_back(error)
        return SaveOutcome(False, file_bytes, evicted)

    def load(self, record: RecordKey, tokens: bytes) -> list[ArrayBytes] | None:
        """The record's arrays; None when it cannot be had, and then it is no longer there."""
        try:
            data = self._files.read(self._path(record))
            arrays = unpack(data, record, tokens)
        except OSError as error:
            self.counters.num_read_errors += 1
            self.counters.note(error)
        except Corrupt as error:
            self.counters.num_corrupt += 1
            self.counters.note(error)
        else:
            self.counters.read_bytes += len(data)
            return arrays
        self.remove([record])
        return None

    def remove(self, records: Sequence[RecordKey]) -> None:
        for record in records:
            self._unlink(self._path(record))
        try:
            self.used_bytes -= self.index.remove(records)
        except sqlite3.Error as error:
            self._count_write_error(error)

    def set_owners(self, owners: Mapping[RecordKey, frozenset[bytes]]) -> None:
        """Whose these records are."""
        try:
            for record, names in owners.items():
                self.index.set_owners(record, names)
        except sqlite3.Error as error:
            self._count_write_error(error)

    def touch(self, records: Sequence[RecordKey], used_at: float) -> None:
        """These, of one chain, were used at this Unix time."""
        try:
            self.index.touch(records, used_at)
        except sqlite3.Error as error:
            self._count_write_error(error)

    def set_share(self, model: str, share: float) -> None:
        """The most of the budget that this model's records may fill."""
        self._shares[model] = share

    def trim(self) -> tuple[RecordKey, ...]:
        """Let go of some of what is above the limits; what went, nothing where they are kept."""
        try:
            leaving = self._evict_above_shares() or self._evict(self._excess_of_all(0))
        except (OSError, sqlite3.Error) as error:
            self._count_write_error(error)
            return ()
        return _records_of(leaving)

    def sweep(self) -> bool:
        """Look at some more names in the folder, unlink strays; whether all were looked at."""
        try:
            strays, is_done = self._strays.look_on()
        except (OSError, sqlite3.Error):
            return True
        for stray in strays:
            self._unlink(stray)
        return is_done

    # --- room

    def _make_room(self, model: str, file_bytes: int) -> list[Row]:
        leaving = self._evict(self._excess_bytes(model, file_bytes), model=model)
        excess = self._excess_of_all(file_bytes)
        return leaving + self._evict(excess, at_most=MAX_UNLINKS - len(leaving))

    def _evict_above_shares(self) -> list[Row]:
        for model in self._shares:
            if leaving := self._evict(self._excess_bytes(model, 0), model=model):
                return leaving
        return []

    def _excess_of_all(self, file_bytes: int) -> int:
        """What the budget, or the disk, has too little for these."""
        excess = self.used_bytes + file_bytes - self.limits.budget_bytes
        return max(excess, file_bytes + self.limits.free_floor_bytes - self._free_bytes())

    def _excess_bytes(self, model: str, file_bytes: int) -> int:
        """What the model's share has too little for these."""
        if self._shares.get(model, 1.0) >= 1.0:
            return 0
        return file_bytes + self.index.model_bytes(model) - self._share_bytes(model)

    def _share_bytes(self, model: str) -> int:
        return int(self._shares.get(model, 1.0) * self.limits.budget_bytes)

    def _evict(
        self, excess: int, *, model: str | None = None, at_most: int = MAX_UNLINKS
    ) -> list[Row]:
        if excess <= 0 or not self.used_bytes:
            return []
        leaving: list[Row] = []
        for row in self.index.oldest(at_most, model=model):
            if excess <= 0:
                break
            leaving.append(row)
            excess -= row.file_bytes
        self.remove(_records_of(leaving))
        self.counters.num_evicted += len(leaving)
        self._free = None
        return leaving

    def _hindrance(self, model: str, file_bytes: int, freed_bytes: int) -> str:
        """Why so much may not be written now, for administrators; empty if it may."""
        if self._free_bytes() < self.limits.free_floor_bytes + file_bytes:
            return f"less than {self.limits.free_floor_bytes / 2**30:.3g} GiB are free on its disk"
        if self.written_today_bytes + file_bytes > self.limits.daily_write_bytes:
            return "today's write budget is used up"
        if file_bytes <= min(freed_bytes, self._share_bytes(model)):
            return ""
        if self.used_bytes + file_bytes > self.limits.budget_bytes:
            return "its budget is full"
        if self._excess_bytes(model, file_bytes) > 0:
            return f"{model} has filled its share of the budget"
        return ""

    def _free_bytes(self) -> int:
        """Free disk, read every few seconds and after anything that changed it."""
        if self._free is None or self._now() - self._free[0] > FREE_READING_SECONDS:
            self._free = (self._now(), self._files.free_bytes(self._directory))
        return self._free[1]

    # --- files

    def _open_index(self) -> None:
        self._directory.mkdir(parents=True, exist_ok=True, mode=0o700)
        try:
            self._read_index()
        except sqlite3.DatabaseError:  # damaged where opening it did not look
            self.index.destroy()
            self._read_index()

    def _read_index(self) -> None:
        self.index = DiskIndex(self._directory / "index.sqlite3")
        if self.index.fault is not None:
            self._count_write_error(self.index.fault)
        self.used_bytes = self.index.total_bytes()
        day = self._today()
        self._written = (day, self.index.written_bytes(day))

    def _come_back(self, error: Exception) -> None:
        """Begin with an empty index where the folder was deleted or the index is damaged."""
        is_damaged = type(error) is sqlite3.DatabaseError
        if self._directory.exists() and not is_damaged:
            return
        try:
            self.index.destroy()
            self._open_index()
        except (OSError, sqlite3.Error) as another:
            self._count_write_error(another)

    def _write(self, row: Row, pieces: Sequence[bytes | memoryview]) -> None:
        temporary = self._directory / next(self._temp_names)
        try:
            self._files.write_new(temporary, pieces)
            self._count_written(row.file_bytes)
            self.used_bytes += row.file_bytes - self.index.save(row, self._today())
            self._put(temporary, self._path(row.record))
        except (OSError, sqlite3.Error):
            self._unlink(temporary)
            self.used_bytes -= self.index.remove([row.record])
            raise

    def _put(self, temporary: Path, target: Path) -> None:
        """There are 16 folders, which are there before long."""
        try:
            self._files.rename(temporary, target)
        except FileNotFoundError:
            target.parent.mkdir(exist_ok=True, mode=0o700)
            self._files.rename(temporary, target)

    def _path(self, record: RecordKey) -> Path:
        return self._directory / record.block.hex()[0] / record.file_name

    def _is_in_place(self, path: Path, record: RecordKey) -> bool:
        return path == self._path(record) and self.index.has(record)

    def _unlink(self, path: Path) -> None:
        try:
            self._files.unlink(path)
        except OSError as error:
            self._count_write_error(error)

    def _count_written(self, file_bytes: int) -> None:
        self.counters.written_bytes += file_bytes
        self._written = (self._today(), self.written_today_bytes + file_bytes)
        if self._free is not None:
            self._free = (self._free[0], self._free[1] - file_bytes)

    def _count_write_error(self, error: Exception) -> None:
        self._free = None
        self.counters.num_write_errors += 1
        self.counters.note(error)
        self.counters.hindrance = self.counters.last_error


def _records_of(rows: Sequence[Row]) -> tuple[RecordKey, ...]:
    return tuple(row.record for row in rows)
