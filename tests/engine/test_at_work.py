"""What an engine that dies leaves word of: whom its models were at work on, and nobody else."""

from __future__ import annotations

import resource
import shutil
import signal
import subprocess
import sys
import uuid
from pathlib import Path
from typing import Any

import pytest

from engine import wire
from engine.at_work import AtWork, StepNotes
from engine.core.lives import Lives
from engine.core.sequence import Sequence
from engine.core.step import Drawn, Outcome, Slice, Step
from engine.handle import ModelHandle
from engine.live_request import LiveRequest
from tests.engine import test_vector_handle as vectors
from tests.engine.test_failed_rows import Told, handle_of
from tests.engine.worker_rig import Engine, spec
from tests.fakes import (
    FakeFailure,
    FakeRunner,
    make_delivery,
    make_work,
)

POISON = 66
NAMES = frozenset(["a", "b"])
ENDLESS_GRAMMAR = wire.Grammar(kind=wire.GrammarKind.REGEX, param="regex", source="a")


class Death(BaseException):
    """Nothing in the engine catches it."""


class MortalRunner(FakeRunner):
    def run(self, step: Step) -> tuple[Outcome, ...]:
        try:
            return super().run(step)
        except FakeFailure as error:
            raise Death from error


class DeadlyReuse(Told):
    def __init__(self, deadly: str) -> None:
        super().__init__()
        self._deadly = deadly

    def begin(self, live: LiveRequest, **_: object) -> float | None:
        return self._do("begin", live)

    def open(self, live: LiveRequest) -> Drawn | None:
        return self._do("open", live)

    def restore(self, live: LiveRequest) -> None:
        self._do("restore", live)

    def _do(self, what: str, live: LiveRequest) -> None:
        if (what, live.request_id) == (self._deadly, "killer"):
            raise Death


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "at_work" / "e.note"


@pytest.fixture
def at_work(file: Path) -> AtWork:
    return AtWork(file)


def word_in(file: Path, *, boot: str | None = None) -> Lives:
    """As the next life would read it, were this the last moment."""
    copy = file.with_suffix(".copy")
    copy.unlink(missing_ok=True)
    if file.exists():
        shutil.copy(file, copy)
    return AtWork(copy, boot=boot).lives


def die(engine: Engine) -> None:
    with pytest.raises(Death):
        engine.turn(200)


# --- who is at work


def test_who_waits_for_a_row_is_not_at_work(file: Path, at_work: AtWork) -> None:
    engine = Engine(spec("fake", max_rows=1), at_work=at_work, runner=MortalRunner)
    engine.ask("killer", prompt=[POISON, 1, 2])
    engine.ask("waiting")
    die(engine)
    assert word_in(file).at_work == {"killer"}


def test_who_waits_for_a_slice_is_not_at_work(file: Path, at_work: AtWork) -> None:
    engine = Engine(at_work=at_work, runner=MortalRunner)
    engine.ask("waiting", prompt=range(1, 5000))
    engine.ask("killer", prompt=[POISON, 1, 2])
    die(engine)
    assert word_in(file).at_work == {"killer"}


def test_whose_grammar_is_compiled_is_at_work_until_it_is(file: Path, at_work: AtWork) -> None:
    engine = Engine(at_work=at_work)
    engine.ask("compiled", grammar=ENDLESS_GRAMMAR)
    engine.turn(12)
    engine.ask("a", max_tokens=500)
    engine.turn(12)
    assert word_in(file).at_work == {"compiled", "a"}
    engine.transport.send(wire.Cancel(request_id="compiled"))
    engine.turn(12)
    assert word_in(file).at_work == {"a"}


def test_who_is_taken_in_is_at_work(file: Path, at_work: AtWork) -> None:
    handle = handle_of(DeadlyReuse("begin"), at_work=at_work)
    handle.add(make_delivery(make_work("before")))
    assert word_in(file).at_work == frozenset()
    with pytest.raises(Death):
        handle.add(make_delivery(make_work("killer")))
    assert word_in(file).at_work == {"killer"}


def test_all_that_decode_are_at_work_with_who_joins(file: Path, at_work: AtWork) -> None:
    engine = Engine(at_work=at_work, runner=MortalRunner)
    for name in NAMES:
        engine.ask(name, max_tokens=500)
    engine.turn(12)
    assert word_in(file).at_work == NAMES
    engine.ask("killer", prompt=[POISON])
    die(engine)
    assert word_in(file).at_work == {*NAMES, "killer"}


def test_a_step_that_the_device_has_not_finished_counts(file: Path, at_work: AtWork) -> None:
    engine = Engine(at_work=at_work, runner=MortalRunner)
    engine.ask("decodes", max_tokens=500)
    engine.turn(12)
    engine.ask("killer", prompt=[POISON, *range(1, 2000)])
    die(engine)
    assert word_in(file).at_work == {"decodes", "killer"}


@pytest.mark.parametrize("deadly", ["open", "restore"])
def test_a_row_that_is_filled_from_the_cache_is_at_work(
    file: Path, at_work: AtWork, deadly: str
) -> None:
    handle = handle_of(DeadlyReuse(deadly), at_work=at_work)
    for name in ("before", "killer"):
        handle.add(make_delivery(make_work(name)))
    with pytest.raises(Death):
        handle.turn()
    assert word_in(file).at_work == {"killer"}


def test_what_was_filled_counts_until_the_steps_that_may_wait_for_it_are_over(
    file: Path, at_work: AtWork
) -> None:
    names = {1: "decodes", 2: "filled"}
    notes = StepNotes(at_work, names.get)
    for _ in range(3):
        notes.begin(Step(decodes=(1,)))
    filled = Sequence(make_work("filled"), delivered_token_ids=(), arrived_at=0.0)
    with notes.filling(filled):
        filled.computed_tokens = 2
    told = []
    for _ in range(4):
        told.append(word_in(file).at_work)
        notes.begin(Step(decodes=(1,)))
    both = {"decodes", "filled"}
    assert told == [both, both, both, {"decodes"}]


def test_a_bundle_of_vectors_is_at_work_and_no_other_request(file: Path, at_work: AtWork) -> None:
    rig = vectors.Rig(at_work=at_work)
    rig.computer.failure = Death()
    rig.add("computed", (1, 2, 3))
    rig.turn()
    assert word_in(file).at_work == frozenset()
    rig.add("killer", (vectors.POISON, 2))
    rig.add("beside it", (1, 2))
    rig.add("waiting", tuple(range(100, 9000)))
    with pytest.raises(Death):
        rig.turn()
    assert word_in(file).at_work == {"killer", "beside it"}


def test_a_bundle_that_failed_is_at_work_no_more(file: Path, at_work: AtWork) -> None:
    rig = vectors.Rig(at_work=at_work)
    rig.add("bad", (vectors.POISON, 2))
    rig.add("beside it", (1, 2))
    rig.turn()
    assert word_in(file).at_work == frozenset()


def test_a_model_that_goes_is_at_work_on_nothing(file: Path, at_work: AtWork) -> None:
    engine = Engine(at_work=at_work)
    engine.ask("a", max_tokens=500)
    engine.turn(12)
    (handle,) = engine.pool.handles
    handle.give_back()
    assert word_in(file).at_work == frozenset()


def test_who_waits_for_the_model_that_is_loaded_is_at_work(file: Path, at_work: AtWork) -> None:
    """The load may be what kills."""
    engine = Engine(spec("first"), spec("second"), at_work=at_work)
    engine.ask("a", model="first")
    engine.ask("other", model="second")
    engine.turn(2)
    assert (word_in(file).was_loading, word_in(file).at_work) == (True, {"a"})
    engine.ask("b", model="first")
    engine.turn()
    assert (word_in(file).was_loading, word_in(file).at_work) == (True, NAMES)
    engine.run("a", "b", "other")
    assert not word_in(file).was_loading


def test_a_load_that_fails_is_over(file: Path, at_work: AtWork) -> None:
    engine = Engine(spec("fake", path="broken"), at_work=at_work)
    engine.ask("a")
    engine.run("a")
    assert (word_in(file).was_loading, word_in(file).at_work) == (False, frozenset())


def test_two_models_are_at_work_side_by_side(file: Path, at_work: AtWork) -> None:
    engine = Engine(spec("first"), spec("second"), at_work=at_work)
    engine.ask("a", model="first", max_tokens=500)
    engine.ask("b", model="second", max_tokens=500)
    engine.turn(24)
    assert word_in(file).at_work == NAMES


def test_steps_of_the_same_rows_write_nothing(file: Path, at_work: AtWork) -> None:
    engine = Engine(at_work=at_work)
    engine.ask("a", max_tokens=500)
    engine.turn(12)
    file.write_bytes(b"untouched")
    engine.turn(50)
    assert isinstance(engine.pool.handles[0], ModelHandle) and "a" not in engine.transport.ends
    assert file.read_bytes() == b"untouched"


def test_slices_between_steps_of_the_same_rows_write_nothing(file: Path, at_work: AtWork) -> None:
    notes = StepNotes(at_work, {1: "a", 2: "b"}.get)
    steps = [
        Step(decodes=(1,)),
        Step(slices=(Slice(row_ids=(2,), start_tokens=0, token_ids=((5,),)),)),
    ]
    for step in steps:
        notes.begin(step)
    assert word_in(file).at_work == NAMES
    file.write_bytes(b"untouched")
    for step in steps * 3:
        notes.begin(step)
    assert file.read_bytes() == b"untouched"


# --- what becomes of the word


def test_word_outlives_a_process_that_is_killed(file: Path) -> None:
    told = (
        "import os, pathlib, sys; from engine.at_work import AtWork\n"
        "at_work = AtWork(pathlib.Path(sys.argv[1])); at_work.note_load(frozenset('ab'))\n"
        "os.kill(os.getpid(), 9)"
    )
    assert subprocess.run([sys.executable, "-c", told, file]).returncode == -signal.SIGKILL
    lives = AtWork(file).lives
    assert (lives.at_work, lives.was_loading) == (NAMES, True)


def test_the_disk_has_given_its_room_before_the_first_word(file: Path, at_work: AtWork) -> None:
    """A page without room would kill the engine when something is noted."""
    assert file.stat().st_blocks * 512 >= file.stat().st_size >= 1 << 16


def test_each_life_reads_of_the_one_before(file: Path) -> None:
    first = AtWork(file)
    first.note_load(NAMES)
    second = AtWork(file)
    assert second.lives.former == first.lives.own != second.lives.own
    assert AtWork(file).lives == Lives(own=AtWork(file).lives.former, former=second.lives.own)


@pytest.mark.parametrize("place", range(0, 60, 7))
def test_torn_word_is_none(file: Path, at_work: AtWork, place: int) -> None:
    at_work.note_load(NAMES)
    content = bytearray(file.read_bytes())
    content[place] ^= 0x40
    file.write_bytes(content)
    assert_unknown(word_in(file))


@pytest.mark.parametrize("num_bytes", [0, 5, 8, 40])
def test_word_that_is_cut_off_is_none(file: Path, at_work: AtWork, num_bytes: int) -> None:
    at_work.note_load(NAMES)
    file.write_bytes(file.read_bytes()[:num_bytes])
    assert_unknown(word_in(file))


def test_word_from_before_the_machine_started_is_none(file: Path, at_work: AtWork) -> None:
    """Its last pages may never have been written."""
    at_work.note_load(NAMES)
    assert word_in(file).at_work == NAMES
    assert_unknown(word_in(file, boot="another"))


class MacLibrary:
    """macOS's, as it names the life of a machine, or does not."""

    def __init__(self, session: str, result: int = 0) -> None:
        self._session, self._result = session, result

    def sysctlbyname(self, name: bytes, value: Any, size: Any, _new: None, _new_size: Any) -> int:
        assert (name, len(value), size._obj.value) == (b"kern.bootsessionuuid", 37, 37)
        value.value = self._session.encode()
        return self._result


def on_a_mac(monkeypatch: pytest.MonkeyPatch, library: MacLibrary) -> None:
    monkeypatch.setattr("sys.platform", "darwin")
    monkeypatch.setattr("ctypes.CDLL", lambda *_, **__: library)
    monkeypatch.setattr("engine.at_work._BOOT_ID", Path("/nonexistent"))


def test_word_outlives_a_macs_clock_that_is_set(
    file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Which moves the time when it started by as much."""
    on_a_mac(monkeypatch, MacLibrary(str(uuid.uuid4()).upper()))
    monkeypatch.setattr("psutil.boot_time", lambda: 1_700_000_000.0)
    AtWork(file).note_load(NAMES)
    monkeypatch.setattr("psutil.boot_time", lambda: 1_700_000_001.0)
    assert word_in(file).at_work == NAMES
    on_a_mac(monkeypatch, MacLibrary(str(uuid.uuid4()).upper()))
    assert_unknown(word_in(file))


def test_where_a_mac_does_not_name_its_life_nothing_is_known(
    file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    on_a_mac(monkeypatch, MacLibrary("", result=-1))
    AtWork(file).note_load(NAMES)
    assert_unknown(word_in(file))


def test_without_a_file_nothing_is_known(file: Path) -> None:
    assert_unknown(AtWork(file).lives)


def test_more_requests_than_the_file_holds_are_no_word(file: Path, at_work: AtWork) -> None:
    at_work.note_load(frozenset(f"{number:036}" for number in range(2000)))
    assert_unknown(word_in(file))
    at_work.note_load(NAMES)
    assert word_in(file).at_work == NAMES


def test_where_no_file_can_be_made_an_engine_works_all_the_same(tmp_path: Path) -> None:
    (tmp_path / "at_work").write_text("in the way")
    engine = Engine(at_work=AtWork(tmp_path / "at_work" / "e.note"))
    engine.ask("a")
    engine.run("a")
    assert isinstance(engine.transport.ends["a"], wire.Finished)


def test_a_full_disk_leaves_word_that_no_life_will_take_for_its_own(file: Path) -> None:
    AtWork(file).note_load(NAMES)
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1000, limits[1]))
    try:
        without = AtWork(file)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    without.note_load(frozenset(["c"]))
    assert word_in(file).at_work == NAMES
    assert word_in(file).former != without.lives.own


def assert_unknown(lives: Lives) -> None:
    assert lives.own
    assert lives == Lives(own=lives.own)
