"""The loop of the intake process: take an entry, answer it, next. It does not know how to check."""

from __future__ import annotations

import contextlib
import dataclasses
import logging
import threading
import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from engine import wire
from engine.intake import refusal
from engine.intake.door import Door
from engine.intake.grammar_check import grammars_of
from engine.intake.grammar_desk import GrammarDesk
from engine.intake.heartbeats import Heartbeats
from engine.intake.images import Looking, Picture
from engine.intake.memory_check import MemoryCheck
from engine.intake.model_folder import MAX_FOLDERS
from engine.intake.panics import panics
from engine.intake.refusal import Refusal, invalid
from engine.intake.vector_door import Reading
from engine.transport import BLOCK_MS, Entry, IntakeQueue, Outage, RedisAway

MAX_TRIES = 2  # an entry that ended its intake so often is refused unseen
PLACES_SECONDS = 1.0
ROUND_SECONDS = 1.0
RETRY_SECONDS = 0.25
HELD_WAIT_MS = 10  # how long to wait for new entries while grammars are tried or texts are read
logger = logging.getLogger(__name__)


_Asked = wire.Generate | wire.CountTokens | wire.Embed | wire.Rerank


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class _Checked:
    """A request whose grammars are still being tried; all else of it is good."""

    entry: Entry
    work: wire.Work
    spec: wire.ModelSpec
    grammars: list[wire.Grammar]


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class _BeingRead:
    """A request with so many texts, or images, that others are looked after between them. `then`
    takes what was read."""

    entry: Entry
    reading: Reading | Looking
    then: Callable[[Any], None]


class Doorman:
    def __init__(self, queue: IntakeQueue, door: Door, desk: GrammarDesk) -> None:
        self._queue = queue
        self._door = door
        self._desk = desk
        self._heartbeats = Heartbeats(queue.beats)
        self._memory_check = MemoryCheck(self._heartbeats.get)
        self._on_trial: dict[str, _Checked] = {}  # by entry_id
        self._being_read: dict[str, _BeingRead] = {}  # by entry_id, whose turn is next first
        self._models_line: str | None = None
        self._models: dict[str, wire.ModelSpec] = {}
        self._next_places = 0.0
        self._next_round = 0.0

    def run(self, closing: threading.Event) -> None:
        """Until `closing` is set; Redis may be away meanwhile."""
        outage = Outage()
        while not closing.is_set():
            try:
                self._turn(closing)
                outage.end()
            except RedisAway as error:
                outage.note(error)
                closing.wait(RETRY_SECONDS)

    def _turn(self, closing: threading.Event) -> None:
        held = self._on_trial.keys() | self._being_read.keys()
        wait_ms = HELD_WAIT_MS if held else BLOCK_MS
        for entry in self._queue.entries(held=held, wait_ms=wait_ms):
            self._answer(entry, partial(self._check, entry))
            self._refresh_places()
            if closing.is_set():
                return
        for checked in list(self._on_trial.values()):
            self._answer(checked.entry, partial(self._admit_tried, checked))
        for one in list(self._being_read.values())[:1]:
            self._answer(one.entry, partial(self._read_on, one))
        self._refresh_places()
        self._make_round()

    def _make_round(self) -> None:
        """What need not be done for each request: an engine may be waiting for the processor."""
        if time.monotonic() < self._next_round:
            return
        self._next_round = time.monotonic() + ROUND_SECONDS
        self._door.forget_texts(at_once=self._queue.is_anything_to_be_forgotten())
        self._heartbeats.prepare()
        if self._learn_models():
            self._warm_up()

    def _refresh_places(self) -> None:
        if time.monotonic() >= self._next_places:
            self._next_places = time.monotonic() + PLACES_SECONDS
            self._queue.refresh_places()

    def _answer(self, entry: Entry, act: Callable[[], None]) -> None:
        """One request ends here at the worst, never the loop."""
        try:
            act()
        except Refusal as refused:
            self._refuse(entry, refused.refused)
        except RedisAway:
            raise
        except (MemoryError, RecursionError):
            self._refuse(entry, _too_large().refused)
        except panics():
            logger.exception("a library gave up", extra={"request_id": entry.request_id})
            self._refuse(entry, _own_fault())
        except Exception:
            logger.exception("a check failed", extra={"request_id": entry.request_id})
            self._refuse(entry, _own_fault())

    def _refuse(self, entry: Entry, refused: wire.Refused) -> None:
        self._queue.conclude(entry, refused)
        self._on_trial.pop(entry.entry_id, None)
        self._being_read.pop(entry.entry_id, None)

    def _check(self, entry: Entry) -> None:
        if entry.num_tries > MAX_TRIES:
            raise _too_large()
        command = _decode(entry.message)
        if isinstance(command, wire.Embed | wire.Rerank):
            self._check_vectors(entry, command)
            return
        is_count = isinstance(command, wire.CountTokens)
        generate = command.generate if isinstance(command, wire.CountTokens) else command
        spec = self._spec(generate.model)
        then = partial(self._count if is_count else self._check_prompt, entry, generate, spec)
        looking = self._door.look(generate, spec)
        if looking is None:
            then(())
        else:
            self._read_on(_BeingRead(entry=entry, reading=looking, then=then))

    def _check_prompt(
        self,
        entry: Entry,
        generate: wire.Generate,
        spec: wire.ModelSpec,
        pictures: Sequence[Picture],
    ) -> None:
        _check_kind(spec, wire.ModelKind.GENERATE)
        work = self._door.check(
            generate,
            spec,
            pictures=pictures,
            finds_boundaries=self._heartbeats.wants_boundaries(spec.name),
        )
        param = "messages" if generate.messages is not None else "prompt"
        work = self._memory_check.check(work, param=param)
        if grammars := grammars_of(generate):
            checked = _Checked(entry=entry, work=work, spec=spec, grammars=grammars)
            self._on_trial[entry.entry_id] = checked
            self._admit_tried(checked)
        else:
            self._admit(entry, work, spec)

    def _check_vectors(self, entry: Entry, command: wire.Embed | wire.Rerank) -> None:
        spec = self._spec(command.model)
        is_embed = isinstance(command, wire.Embed)
        _check_kind(spec, wire.ModelKind.EMBED if is_embed else wire.ModelKind.RERANK)
        reading = self._door.check_vectors(command, spec)
        param = "input" if is_embed else "documents"

        def admit(work: wire.VectorWork) -> None:
            self._admit(entry, self._memory_check.check_vectors(work, param=param), spec)

        self._read_on(_BeingRead(entry=entry, reading=reading, then=admit))

    def _read_on(self, one: _BeingRead) -> None:
        """One slice; then it is the others' turn."""
        self._being_read.pop(one.entry.entry_id, None)
        try:
            next(one.reading)
        except StopIteration as end:
            one.then(end.value)
        else:
            self._being_read[one.entry.entry_id] = one

    def _count(
        self,
        entry: Entry,
        generate: wire.Generate,
        spec: wire.ModelSpec,
        pictures: Sequence[Picture],
    ) -> None:
        num_tokens = self._door.count(generate, spec, pictures=pictures)
        self._queue.conclude(entry, wire.Counted(prompt_tokens=num_tokens))

    def _admit_tried(self, checked: _Checked) -> None:
        if self._desk.check(checked.grammars):
            self._admit(checked.entry, checked.work, checked.spec)
            self._on_trial.pop(checked.entry.entry_id, None)

    def _admit(self, entry: Entry, work: wire.Work | wire.VectorWork, spec: wire.ModelSpec) -> None:
        is_routed = len(self._heartbeats.get()) > 1
        admission = self._queue.admit(entry, work, spec, is_routed=is_routed)
        match admission.outcome:
            case "queue_full":
                code, limit = wire.Code.QUEUE_FULL, spec.max_queue
            case "tenant_queue_full":
                code, limit = wire.Code.TENANT_QUEUE_FULL, spec.max_queue_per_tenant
            case _:
                return
        raise refusal.queue_full(
            code,
            num_waiting=admission.num_waiting,
            limit=limit,
            room_seconds=admission.room_seconds,
        )

    def _learn_models(self) -> bool:
        """Whether they have changed."""
        line = self._queue.models_line
        # Redis may have lost it; the web side publishes it again soon.
        if line is None or line == self._models_line:
            return False
        self._models_line = line
        self._models = {spec.name: spec for spec in wire.decode(line).models}
        return True

    def _warm_up(self) -> None:
        """Read the models' folders now, so that the first request need not wait for it."""
        for spec in list(self._models.values())[:MAX_FOLDERS]:
            with contextlib.suppress(Refusal):
                self._door.open_folder(spec)

    def _spec(self, name: str) -> wire.ModelSpec:
        self._learn_models()
        if name not in self._models:
            raise refusal.model_not_found(name)
        return self._models[name]


def _check_kind(spec: wire.ModelSpec, wanted: wire.ModelKind) -> None:
    if spec.kind is not wanted:
        raise refusal.wrong_kind(spec.name, wanted=wanted, kind=spec.kind)


def _decode(message: str) -> _Asked:
    try:
        command = wire.decode(message)
    except wire.WireError as error:
        raise invalid(None, "The request is malformed.") from error
    if not isinstance(command, _Asked):
        raise invalid(None, "The request is malformed.")
    return command


def _too_large() -> Refusal:
    return invalid(None, "The request is too large or too deeply nested to be checked.")


def _own_fault() -> wire.Refused:
    return wire.Refused(code=wire.Code.ENGINE_ERROR, detail="The request could not be checked.")
