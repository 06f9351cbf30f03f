"""Which requests something is being computed for, where the next life of this engine finds it.

    data folder / at_work / <engine>.note     [ length, checksum | life, "loading" or "", ids... ]

The file lies in memory, so a note costs neither a call to the system nor a wait for the disk, and
outlives the process however that is killed. It says nothing of a machine that has started anew,
for which pages were written nobody knows: lives are named after the machine's. What is torn, too
long, absent or cannot be read is no word at all. Owner: the model thread.
"""

from __future__ import annotations

import ctypes
import logging
import mmap
import os
import struct
import sys
import uuid
import weakref
import zlib
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

from engine.config import EngineConfig
from engine.core.lives import UNKNOWN_LIVES, Lives
from engine.core.sequence import Sequence
from engine.core.step import Step

_BYTES = 1 << 16  # some 1,700 requests
_HEADER = struct.Struct("<II")
_LOADING = "loading"
_BOOT_ID = Path("/proc/sys/kernel/random/boot_id")
_MAC_BOOT = b"kern.bootsessionuuid"
_NOBODY: frozenset[str] = frozenset()
logger = logging.getLogger(__name__)


class AtWork:
    """`file` None: nothing is noted. `boot` names the machine's life; None: this one's. `lives`: of
    the engine, this one and the one that left the file."""

    def __init__(self, file: Path | None = None, *, boot: str | None = None):
        self._of_models: weakref.WeakKeyDictionary[object, frozenset[str]]
        self._of_models = weakref.WeakKeyDictionary()
        self._awaiting_load: frozenset[str] | None = None
        self._map: mmap.mmap | None = None
        self.lives = UNKNOWN_LIVES
        if file is not None:
            self._life = f"{boot or _boot()} {uuid.uuid4().hex}"
            self.lives = _read(file, own=self._life)
            self._open(file)

    def _open(self, file: Path) -> None:
        """Anew: nothing that another process has in memory may become shorter."""
        temporary = file.with_suffix(".tmp")
        try:
            file.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            with open(temporary, "w+b", opener=_open_for_owner) as opened:
                opened.write(bytes(_BYTES))  # a page that the disk has no room for would kill
                opened.flush()
                self._map = mmap.mmap(opened.fileno(), _BYTES)
            self._write()
            os.replace(temporary, file)
        except OSError as error:
            self._map = None
            logger.warning("who is worked on is not noted", extra={"error": str(error)})

    def note(self, model: object, request_ids: frozenset[str]) -> None:
        """All that `model`, which is held weakly, is at work on now."""
        if self._of_models.get(model, _NOBODY) != request_ids:
            self._of_models[model] = request_ids
            self._write()

    def note_load(self, request_ids: frozenset[str] | None) -> None:
        """Who waits for the model that is being loaded; None while none is."""
        if self._awaiting_load != request_ids:
            self._awaiting_load = request_ids
            self._write()

    def _write(self) -> None:
        if self._map is None:
            return
        request_ids = _NOBODY.union(*self._of_models.values(), self._awaiting_load or ())
        doing = _LOADING if self._awaiting_load is not None else ""
        text = "\n".join((self._life, doing, *request_ids)).encode()
        if _HEADER.size + len(text) > _BYTES:
            text = b""
        record = _HEADER.pack(len(text), zlib.crc32(text)) + text
        self._map[: len(record)] = record


class StepNotes:
    """Of one model, whose device works one step ahead: a step may be under way until the next but
    one is begun."""

    def __init__(self, at_work: AtWork, find_request_id: Callable[[int], str | None]):
        self._at_work = at_work
        self._find_request_id = find_request_id
        self.clear()

    def clear(self) -> None:
        self._row_ids: tuple[int, ...] = ()
        self._last = self._noted = self._filled = self._compiled = _NOBODY
        self._is_settled = True
        self._at_work.note(self, _NOBODY)

    def begin(self, step: Step) -> None:
        """Before a step is run. Where the same rows go on there is nothing to do."""
        row_ids = step.computed_row_ids
        if self._is_settled and row_ids == self._row_ids:
            return
        self._row_ids = row_ids
        found = map(self._find_request_id, row_ids)
        rows = self._filled.union(self._compiled, filter(None, found))
        self._noted = self._last | rows
        self._is_settled = self._last == rows
        self._last, self._filled = rows, _NOBODY
        self._at_work.note(self, self._noted)

    def compile(self, request_ids: Iterable[str]) -> None:
        """Their grammars are being compiled, from the next step on."""
        compiled = frozenset(request_ids)
        if compiled != self._compiled:
            self._compiled = compiled
            self._is_settled = False

    @contextmanager
    def taking_in(self, request_id: str) -> Iterator[None]:
        """Something is done with it beside the steps."""
        self._at_work.note(self, self._noted | self._filled | {request_id})
        yield
        self._at_work.note(self, self._noted | self._filled)

    @contextmanager
    def filling(self, sequence: Sequence) -> Iterator[None]:
        """Its row gets what is kept. Where nothing is, it has yet to begin."""
        with self.taking_in(sequence.request_id):
            yield
            if sequence.computed_tokens > 0:
                self._filled |= {sequence.request_id}
                self._is_settled = False


def at_work_file(config: EngineConfig) -> Path:
    return config.data_dir / "at_work" / f"{config.name}.note"


def _boot() -> str:
    """Not the time when it started: macOS moves that when its clock is set."""
    try:
        return _mac_boot() if sys.platform == "darwin" else _BOOT_ID.read_text().strip()
    except OSError:  # no life has this name again
        return uuid.uuid4().hex


def _mac_boot() -> str:
    name = ctypes.create_string_buffer(37)  # a UUID and the end
    size = ctypes.c_size_t(len(name))
    library = ctypes.CDLL(None, use_errno=True)
    none = ctypes.c_size_t(0)
    if library.sysctlbyname(_MAC_BOOT, name, ctypes.byref(size), None, none) != 0:
        raise OSError(ctypes.get_errno(), _MAC_BOOT.decode())
    return name.value.decode()


def _read(file: Path, *, own: str) -> Lives:
    try:
        content = file.read_bytes()
        length, checksum = _HEADER.unpack_from(content)
        text = content[_HEADER.size : _HEADER.size + length]
        if zlib.crc32(text) != checksum:
            return Lives(own=own)
        former, doing, *request_ids = text.decode().split("\n")
    except (OSError, ValueError, struct.error):
        return Lives(own=own)
    if former.split(" ")[0] != own.split(" ")[0]:  # before the machine's last start
        return Lives(own=own)
    return Lives(
        own=own, former=former, at_work=frozenset(request_ids), was_loading=doing == _LOADING
    )


def _open_for_owner(path: str, flags: int) -> int:
    return os.open(path, flags, 0o600)
