"""Fakes at the seams of the engine: transport, clock, runner, text, shelf, memory."""

from __future__ import annotations

import collections
import gc
import weakref
from collections.abc import Callable, Iterator, Mapping, Sequence

from engine import wire
from engine.at_work import AtWork
from engine.core.answer import Piece, TextStream
from engine.core.constraint import Constraint, PendingGrammar
from engine.core.delivery import Delivery
from engine.core.guests import Invitation
from engine.core.pacing import TimeLedger
from engine.core.step import Drawn, Group, Join, Outcome, Slice, Step
from engine.handle import ModelHandle
from engine.metrics import Vitals
from engine.model.memory import MemoryReadings
from engine.shelf import LoadFailed
from engine.sizing.estimate import Estimate
from engine.worker import Received


class FakeClock:
    """Time that moves when told to."""

    def __init__(self, now: float = 1000.0):
        self.now = now

    def __call__(self) -> float:
        return self.now


class FakeTransport:
    """Messages put in by a test; events kept per request. Waiting moves the clock."""

    def __init__(self, clock: FakeClock) -> None:
        self._clock = clock
        self.inbox: collections.deque[Received] = collections.deque()
        self.events: dict[str, list[wire.Event]] = collections.defaultdict(list)
        self.ends: dict[str, wire.Event] = {}
        self.wanted: dict[str, int] = {}
        self.invitations: dict[str, Invitation] = {}

    def send(self, *messages: Received) -> None:
        self.inbox.extend(messages)

    def receive(self, wait_seconds: float) -> Sequence[Received]:
        messages = list(self.inbox)
        self.inbox.clear()
        if not messages:
            self._clock.now += wait_seconds
        return messages

    def want(self, rows: Mapping[str, int], invitations: Mapping[str, Invitation]) -> None:
        self.wanted, self.invitations = dict(rows), dict(invitations)

    def publish(self, events: Sequence[tuple[str, wire.Event]]) -> None:
        for request_id, event in events:
            assert request_id not in self.ends, "nothing follows the end"
            self.events[request_id].append(event)
            if isinstance(event, wire.TERMINAL_EVENTS):
                self.ends[request_id] = event

    def tokens(self, request_id: str) -> list[int]:
        deltas = (one for one in self.events[request_id] if isinstance(one, wire.Delta))
        return [token_id for delta in deltas for token_id in delta.token_ids]

    def text(self, request_id: str, channel: wire.Channel = wire.Channel.CONTENT) -> str:
        deltas = (one for one in self.events[request_id] if isinstance(one, wire.Delta))
        return "".join(delta.text for delta in deltas if delta.channel is channel)


class FakeMemory:
    device = "fake"
    ceiling_bytes = 1 << 40
    together_bytes = 0

    def __init__(self) -> None:
        self.num_clears = 0
        self.active_bytes = 0
        self.limit_bytes = 0

    def set_limit(self, limit_bytes: int) -> None:
        self.limit_bytes = limit_bytes

    def bound_buffers(self, most_bytes: int) -> None:
        self.most_pool_bytes = most_bytes

    def read(self) -> MemoryReadings:
        return MemoryReadings(active_bytes=self.active_bytes)

    def read_device(self) -> MemoryReadings:
        return self.read()

    def clear_buffers(self) -> None:
        self.num_clears += 1


FAKE_VOCAB = 97
FAKE_END_TOKEN_ID = 0


class FakeContext:
    """A model whose next token is a hash of its whole context."""

    def __init__(self, token_ids: Sequence[int], seed: int):
        self.num_tokens = len(token_ids)
        self._value = seed & 0xFFFFFFFF
        for token_id in token_ids:
            self._take(token_id)

    def draw(self) -> int:
        token_id = (self._value >> 7) % FAKE_VOCAB
        self._take(token_id)
        self.num_tokens += 1
        return token_id

    def _take(self, token_id: int) -> None:
        self._value = (self._value * 1000003 ^ token_id) & 0xFFFFFFFF


class FakeFailure(Exception):
    """The fake model was told to fail."""


class FakeRunner:
    """Runs steps one behind, as the device does, and checks that each step is allowed.

    It computes from nothing but what the steps bring: a token that was never computed or computed
    twice changes every token after it. A row whose prompt begins with `poison_token_id` makes its
    step raise once it has more than `poison_length` tokens.
    """

    def __init__(self, clock: FakeClock, *, poison_token_id: int = -1, poison_length: int = 0):
        self._clock = clock
        self._poison_token_id = poison_token_id
        self._poison_length = poison_length
        self.num_steps = 0
        self.growing: tuple[tuple[int, int], ...] = ()
        self.closing_bytes = 0
        self.slices_on_grid = False
        self.tower_layers = 1
        self.drawing_share: float | None = 0.1
        self.reset()

    @property
    def num_bytes(self) -> int:
        return 0

    @property
    def num_groups(self) -> int:
        return 1

    @property
    def has_moved(self) -> bool:
        return True

    @property
    def num_places(self) -> int:
        return len(self.batch)

    @property
    def held_row_ids(self) -> set[int]:
        return {*self.prefilled, *self.batch}

    def groups_after(self, step: Step) -> tuple[Group, ...]:
        """All in one."""
        staying = {key: one for key, one in self.batch.items() if key not in step.leaves}
        lengths = [one.num_tokens for one in staying.values()]
        lengths += [join.num_tokens for join in step.joins]
        if not lengths:
            return ()
        moves = bool(step.joins) or len(staying) < len(self.batch)
        return (Group(num_rows=len(lengths), num_tokens=max(lengths), moves=moves),)

    def reset(self) -> None:
        self.prefilled: dict[int, list[int]] = {}
        self.batch: dict[int, FakeContext] = {}
        self._poisoned: set[int] = set()
        self._before: Outcome | None = None

    def run(self, step: Step) -> tuple[Outcome, ...]:
        self.num_steps += 1
        for row_id in step.leaves:
            assert (self.prefilled.pop(row_id, None) is None) != (
                self.batch.pop(row_id, None) is None
            ), "a row leaves from where it is"
        before, self._before = self._before, None
        is_measured = before is None or not before.step.slices
        assert is_measured or not step.slices, "a slice is decided when the last one is measured"
        if step.computed_row_ids:
            self._before = self._compute(step)
        self._clock.now += self.seconds_of(step)
        return (before,) if before is not None else ()

    def _compute(self, step: Step) -> Outcome:
        assert not (step.slices and step.decodes)
        firsts = [self._draw_first(join) for one in step.slices for join in self._slice(one)]
        for join in step.joins:
            self._join(join)
        drawn = tuple(self._draw(row_id) for row_id in step.decodes)
        return Outcome(step=step, seconds=self.seconds_of(step), drawn=(*firsts, *drawn))

    def _slice(self, one: Slice) -> tuple[Join, ...]:
        for row_id, token_ids in zip(one.row_ids, one.token_ids, strict=True):
            tokens = self.prefilled.setdefault(row_id, [])
            assert len(tokens) == one.start_tokens, "slices come in order"
            tokens.extend(token_ids)
            self._check_poison(row_id, tokens[0], len(tokens))
        return one.draws

    def _draw_first(self, join: Join) -> Drawn:
        known = [*join.prompt_token_ids, *join.output_token_ids]
        assert self.prefilled[join.row_id] == known, (
            "a slice draws when all its row has is computed"
        )
        token_id = FakeContext(known, join.sampling.seed).draw()
        return Drawn(row_id=join.row_id, token_id=token_id)

    def seconds_of(self, step: Step) -> float:
        return 0.001 + 0.0005 * sum(one.num_tokens for one in step.slices)

    def _join(self, join: Join) -> None:
        known = [*join.prompt_token_ids, *join.output_token_ids]
        tokens = self.prefilled.pop(join.row_id, [])
        assert tokens == known[:-1], "a row joins when all but its last token is computed"
        self._check_poison(join.row_id, known[0], len(known))
        self.batch[join.row_id] = FakeContext(known, join.sampling.seed)

    def _draw(self, row_id: int) -> Drawn:
        context = self.batch[row_id]
        if row_id in self._poisoned and context.num_tokens > self._poison_length:
            raise FakeFailure
        return Drawn(row_id=row_id, token_id=context.draw())

    def _check_poison(self, row_id: int, first_token_id: int, num_tokens: int) -> None:
        if first_token_id == self._poison_token_id:
            self._poisoned.add(row_id)
            if num_tokens > self._poison_length:
                raise FakeFailure


class FakeTextStream:
    """One short word per token."""

    channel = wire.Channel.CONTENT
    has_tool_calls = False
    has_finished_call = False

    def add(self, token_id: int) -> list[Piece]:
        return [Piece(channel=wire.Channel.CONTENT, text=f"{token_id} ")]

    def finish(self, *, is_cut: bool) -> list[Piece]:
        return []


class FakeGrammar:
    """One that is being compiled for ever."""

    is_ready = False
    rejection = None

    def start(self, output_token_ids: Sequence[int]) -> Constraint:
        raise AssertionError("it is not ready")


class FakeVoice:
    end_token_ids = frozenset({FAKE_END_TOKEN_ID})

    def stream(self, work: wire.Work) -> TextStream:
        return FakeTextStream()

    def grammar(self, work: wire.Work) -> PendingGrammar | None:
        return None if work.grammar is None else FakeGrammar()


class FakeShelf:
    """Models that load in four portions. Paths tell what to do: `broken`, or a size in bytes."""

    def __init__(
        self,
        clock: FakeClock,
        vitals: Vitals,
        *,
        make_runner: Callable[[FakeClock], FakeRunner] = FakeRunner,
        at_work: AtWork | None = None,
    ):
        self._clock = clock
        self._vitals = vitals
        self._make_runner = make_runner
        self._at_work = at_work
        self._ledger = TimeLedger()
        self.num_loads = 0
        self.runners: weakref.WeakKeyDictionary[ModelHandle, FakeRunner]
        self.runners = weakref.WeakKeyDictionary()

    def weight_bytes(self, spec: wire.ModelSpec) -> int:
        return int(spec.path) if spec.path.isdigit() else 1

    def estimate(self, spec: wire.ModelSpec) -> Estimate | None:
        if spec.path == "unreadable":
            raise LoadFailed("its config.json does not tell its sizes")
        return None

    def lasting_bytes(self) -> int:
        """Of the handles that nobody has let go of."""
        return sum(handle.weight_bytes for handle in self.runners)

    def shrink_cache(self, most_bytes: int) -> None: ...

    def load(self, spec: wire.ModelSpec) -> Iterator[float | ModelHandle]:
        self.num_loads += 1
        yield from (0.0, 0.25, 0.5, 0.75)
        if spec.path == "broken":
            raise LoadFailed("the folder is broken")
        runner = self._make_runner(self._clock)
        handle = self._handle(spec, runner)
        self.runners[handle] = runner
        yield handle

    def _handle(self, spec: wire.ModelSpec, runner: FakeRunner) -> ModelHandle:
        return ModelHandle(
            spec,
            runner=runner,
            voice=FakeVoice(),
            ledger=self._ledger,
            vitals=self._vitals,
            weight_bytes=self.weight_bytes(spec),
            at_work=self._at_work,
            clock=self._clock,
            wall_clock=self._clock,
        )

    def give_memory_back(self) -> None:
        gc.collect()

    def keep_learned(self) -> None: ...


def make_work(
    request_id: str,
    *,
    prompt: Sequence[int] = (1, 2, 3),
    max_tokens: int = 8,
    model: str = "fake",
    sampling: wire.Sampling | None = None,
    **changes: object,
) -> wire.Work:
    values: dict[str, object] = {
        "request_id": request_id,
        "model": model,
        "tenant": "user:1",
        "priority": wire.Priority.INTERACTIVE,
        "submitted_at": 1000.0,
        "accepted_at": 1000.0,
        "sampling": sampling or wire.Sampling(seed=1, temperature=0.0),
        "prompt_token_ids": tuple(prompt),
        "max_tokens": max_tokens,
    }
    return wire.Work(**{**values, **changes})  # type: ignore[arg-type]


def make_delivery(
    work: wire.Work,
    *,
    delivered: Sequence[int] = (),
    attempt: int = 1,
    is_suspect: bool = False,
) -> Delivery:
    return Delivery(
        work=work,
        fence=attempt,
        attempt=attempt,
        next_seq=1 + len(delivered),
        delivered_token_ids=tuple(delivered),
        is_suspect=is_suspect,
    )
