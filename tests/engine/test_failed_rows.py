"""What a request's row has computed is worth nothing once the request has failed."""

from __future__ import annotations

from engine import wire
from engine.at_work import AtWork
from engine.core.answer import Piece, TextStream
from engine.core.pacing import TimeLedger
from engine.core.step import Drawn
from engine.handle import ModelHandle
from engine.live_request import LiveRequest
from engine.metrics import Vitals
from tests.fakes import (
    FakeClock,
    FakeMemory,
    FakeRunner,
    FakeTextStream,
    FakeVoice,
    make_delivery,
    make_work,
)


class Told:
    """A prefix cache that is empty and notes whose rows it was given."""

    wants_boundaries = False

    def __init__(self) -> None:
        self.spec = wire.ModelSpec(name="fake", path="")
        self.kept: list[str] = []
        self.distrusted: list[str] = []

    def keep_row(self, live: LiveRequest) -> None:
        live.is_kept = True
        self.kept.append(live.request_id)

    def distrust(self, live: LiveRequest) -> None:
        self.distrusted.append(live.request_id)

    def open(self, live: LiveRequest) -> Drawn | None:
        return None

    def begin(self, live: LiveRequest, **_: object) -> float | None:
        return None

    def persist(self, *, at_once: bool = False) -> None: ...
    def restore(self, live: LiveRequest) -> None: ...

    begin_again, open_late, wait_on = begin, open, open
    go_on = keep_boundary = keep_prompt = keep_opening = forget = restore


class BreakingStream(FakeTextStream):
    def add(self, token_id: int) -> list[Piece]:
        raise ValueError


class BreakingVoice(FakeVoice):
    """It cannot make text of what `broken` says."""

    def stream(self, work: wire.Work) -> TextStream:
        return BreakingStream() if work.request_id == "broken" else super().stream(work)


def handle_of(
    cache: Told, *, voice: FakeVoice | None = None, at_work: AtWork | None = None
) -> ModelHandle:
    clock = FakeClock()
    return ModelHandle(
        cache.spec,
        runner=FakeRunner(clock),
        voice=voice or FakeVoice(),
        ledger=TimeLedger(),
        vitals=Vitals(engine_name="e", memory=FakeMemory()),
        reuse=cache,
        at_work=at_work,
        clock=clock,
    )


def test_the_row_of_a_request_that_failed_is_not_kept() -> None:
    cache = Told()
    handle = handle_of(cache, voice=BreakingVoice())
    for request_id in ("broken", "whole"):
        handle.add(make_delivery(make_work(request_id, tenant=request_id, prompt=range(1, 9))))
    ends = {}
    while not handle.is_idle:
        events = dict(handle.turn())
        ends |= {
            one: type(end) for one, end in events.items() if isinstance(end, wire.TERMINAL_EVENTS)
        }
    assert ends == {"broken": wire.Failed, "whole": wire.Finished}
    assert (cache.kept, cache.distrusted) == (["whole"], ["broken"])
