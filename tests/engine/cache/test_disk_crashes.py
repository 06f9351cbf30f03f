"""Every file operation of the SSD tier's writer is recorded, and every beginning of them replayed.

    events   [ log grows | temp file | log grows | rename | log grows | unlink | ... ]
    crash    anywhere between two of them, and at several places inside each

The log is SQLite's: here it only grows, and a killed process leaves some beginning of it.
"""

from __future__ import annotations

import dataclasses
import random
from collections.abc import Iterable, Iterator
from pathlib import Path

from engine.cache.disk_index import Row
from engine.cache.disk_tier import DiskLimits, DiskTier
from engine.cache.files import RealFiles
from engine.cache.record import RecordKey

from .toys import arrays_of, content_of, make_disk, make_rows, record_files, tenant

LIMITS = DiskLimits(budget_bytes=20_000, free_floor_bytes=0, daily_write_bytes=1 << 40)
INDEX, LOG = "index.sqlite3", "index.sqlite3-wal"
NUM_HISTORIES, NUM_ACTIONS = 7, 14
CUTS = 9  # inside an event
LEAST_STATES = 2_000


@dataclasses.dataclass(frozen=True)
class Event:
    """The file at `path` gets this content, is moved, or (neither) removed."""

    path: Path
    content: bytes | None = None
    moves_to: Path | None = None


class History(RealFiles):
    """What a writer did. `held[n]`: the records that were on disk while n events were over."""

    def __init__(self, directory: Path) -> None:
        self.events: list[Event] = []
        self.held: dict[int, set[RecordKey]] = {}
        self._log = directory / LOG
        self._log_bytes = 0

    def write_new(self, path: Path, pieces: Iterable[bytes | memoryview]) -> None:
        content = b"".join(bytes(piece) for piece in pieces)
        self._note(Event(path, content=content))
        super().write_new(path, [content])

    def rename(self, source: Path, target: Path) -> None:
        """One that fails, as its folder is not there yet, leaves nothing."""
        self.note_log()
        super().rename(source, target)
        self.events.append(Event(source, moves_to=target))

    def unlink(self, path: Path) -> None:
        self._note(Event(path))
        super().unlink(path)

    def note_log(self) -> None:
        log = self._log.read_bytes()
        if len(log) > self._log_bytes:
            self.events.append(Event(self._log, content=log))
            self._log_bytes = len(log)

    def _note(self, event: Event) -> None:
        self.note_log()
        self.events.append(event)


def test_after_a_kill_at_any_point_every_record_is_whole_or_absent(tmp_path: Path) -> None:
    num_states = 0
    for seed in range(NUM_HISTORIES):
        directory = tmp_path / str(seed)
        rows = make_rows(8)
        history = _live_through(directory, rows, random.Random(seed))
        for at, state in _crashed_states(history, directory, tmp_path / "crashed"):
            _check_after_restart(state, rows, must_have=_held_at(history, at))
            num_states += 1
    assert num_states >= LEAST_STATES, num_states


def _live_through(directory: Path, rows: list[Row], dice: random.Random) -> History:
    history = History(directory)
    disk = make_disk(directory, limits=LIMITS, files=history)
    start = (directory / INDEX).read_bytes()
    for _ in range(NUM_ACTIONS):
        _act(disk, dice.choice(rows), dice)
        history.note_log()
        history.held[len(history.events)] = {row.record for row in disk.index.oldest(1000)}
    assert (directory / INDEX).read_bytes() == start  # all that was written went to the log
    return history


def _act(disk: DiskTier, row: Row, dice: random.Random) -> None:
    """Saves, which evict, for the most part."""
    if not disk.index.has(row.record):
        assert disk.save(row, arrays_of(row)).is_persisted
    elif (what := dice.randrange(3)) == 0:
        disk.remove([row.record])
    elif what == 1:
        disk.set_owners({row.record: frozenset([tenant("bob")])})
    else:
        disk.touch([row.record], dice.random())


def _crashed_states(history: History, origin: Path, directory: Path) -> Iterator[tuple[int, Path]]:
    """Folders as a crash leaves them, each with how many events were over by then."""
    files: dict[Path, bytes] = {origin / INDEX: (origin / INDEX).read_bytes()}
    for at, event in enumerate(history.events):
        for beginning in _beginnings(event, files.get(event.path, b"")):
            yield at, _lay_out(files | {event.path: beginning}, origin, directory)
        if event.content is not None:
            files[event.path] = event.content
        elif (content := files.pop(event.path, None)) is not None and event.moves_to is not None:
            files[event.moves_to] = content
    yield len(history.events), _lay_out(files, origin, directory)


def _beginnings(event: Event, before: bytes) -> list[bytes]:
    """Of what an event writes. Moving and removing happen at once: before them is one state."""
    if event.content is None:
        return [before] if before else []
    first, length = len(before), len(event.content) - len(before)
    return [event.content[: first + length * cut // CUTS] for cut in range(CUTS)]


def _lay_out(files: dict[Path, bytes], origin: Path, directory: Path) -> Path:
    for path in directory.rglob("*.*"):
        path.unlink()
    for path, content in files.items():
        copy = directory / path.relative_to(origin)
        copy.parent.mkdir(parents=True, exist_ok=True)
        copy.write_bytes(content)
    return directory


def _held_at(history: History, num_events: int) -> set[RecordKey]:
    """The records that were on disk before and after what was being done then."""
    before = max((at for at in history.held if at <= num_events), default=None)
    after = min((at for at in history.held if at >= num_events), default=None)
    if before is None or after is None:
        return set()
    return history.held[before] & history.held[after]


def _check_after_restart(directory: Path, rows: list[Row], *, must_have: set[RecordKey]) -> None:
    disk = make_disk(directory, limits=LIMITS)
    while not disk.sweep():
        pass
    assert not list(directory.glob("*.tmp"))
    indexed = {row.record for row in disk.index.take_rows()}
    files = record_files(directory)
    assert {path.name for path in files} <= {record.file_name for record in indexed}
    for row in (row for row in rows if row.record in indexed):
        found = disk.load(row.record, row.tokens)
        assert found is not None or row.record not in must_have
        assert found is None or content_of(found) == content_of(arrays_of(row))
    assert must_have <= indexed
    assert disk.used_bytes == sum(path.stat().st_size for path in files)
    disk.close()
