"""What one model's requests take from the prefix cache and leave there.

    begin    a request arrives: is part of its prompt on disk? Then reading starts
    open     it gets its row: was the same prompt answered before? Then its first token is drawn
    restore  fill the row, say where slices have to end
    go_on    the disk has brought more while the row computes: put the row there
    keep_*   copy what was computed: at a boundary, when the prompt is done, when the row leaves
    persist  a turn has ended: hand its blocks to the writer, one turn later, when they are computed

A request waits for the disk a little longer than reading should take, and never a tenth of the time
that computing would; again as long while the disk brings more, for what has come need not be
computed. Then it computes while the reading goes on. So it is never slower than 1.1 times computing
all, whatever the disk does.

It does not know the scheduler's decisions nor the transport. Owner: the model thread.
"""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Callable, Sequence
from typing import Any, Protocol

from engine import wire
from engine.cache.captures import Capture, Captured, Payload
from engine.cache.owners import OwnerKind, owner_name
from engine.cache.plan import LEAST_TOKENS, Needs, Query, RestorePlan
from engine.cache.prefix import PrefixCache
from engine.core.blocks import BLOCK_TOKENS, Chain, token_bytes
from engine.core.images import outside_images
from engine.core.step import Drawn, Join
from engine.live_request import LiveRequest

PATIENCE_SHARE = 0.05  # of the time that computing takes
PATIENCE_FACTOR = 4.0  # of the time that reading should take, but
LEAST_PATIENCE_SECONDS = 0.05
READING_SECONDS = 2.0  # at least; after that nobody wants it any more
LEAST_LATE_GAIN_TOKENS = 64  # fewer are computed by the time they are put in place
MAX_TURN_BOUNDARIES = 4
LEAST_TURN_TOKENS = 32  # nearer to another copy computing them is quicker than one more slice


class RowKeeper(Protocol):
    """The rows of a model and copies of them: model/runner.py, or a fake."""

    def restore_row(
        self,
        row_id: int,
        slices: list[tuple[Any, int]],
        boundary: Any | None,
        *,
        num_tokens: int,
    ) -> None: ...
    def find_row(self, row_id: int) -> tuple[Any, int] | None: ...
    def copy_slices(self, row: Any, spans: Sequence[tuple[int, int]]) -> list[Payload]: ...
    def copy_boundary(self, row: Any) -> Payload: ...
    def copy_logits(self, row_id: int) -> Payload | None: ...
    def draw(self, join: Join, copied: Any) -> Drawn: ...


@dataclasses.dataclass(slots=True)
class _Wait:
    """For the disk, since `since`, which had brought so many tokens when it was last looked at.
    `seconds` of patience are for a disk that brings nothing; computing them takes `compute`."""

    since: float
    seconds: float
    held_tokens: int
    brought_tokens: int
    compute: Callable[[int], float]
    is_second: bool = False

    def latest(self) -> float:
        """Until when waiting costs no more than the patience, beyond what it has saved."""
        saved = self.compute(self.brought_tokens) - self.compute(self.held_tokens)
        return self.since + self.seconds + saved


class PrefixReuse:
    def __init__(
        self,
        cache: PrefixCache,
        rows: RowKeeper,
        *,
        spec: wire.ModelSpec,
        root: bytes,
        needs: Needs,
        clock: Callable[[], float] = time.monotonic,
    ):
        self.spec = spec
        self._cache = cache
        self._rows = rows
        self._root = cache.roots[spec.name] = root
        self._needs = needs
        self._clock = clock
        self._ended: list[Query] = []
        self._persistable: list[Query] = []
        self._waits: dict[str, _Wait] = {}  # by request_id

    @property
    def wants_boundaries(self) -> bool:
        """Other rows are copied, and begin, wherever they are cut."""
        return self._needs.has_boundaries

    def begin(self, live: LiveRequest, *, prefill_seconds: Callable[[int], float]) -> float | None:
        """Until when (monotonic) to wait for the disk before computing; None: no need to wait.

        PrefixCache.take_fetched names the request when the reading has ended.
        """
        query = self._query(live, len(live.sequence.token_ids))
        plan = self._cache.plan(query, may_open=_may_open(live), prefill_seconds=prefill_seconds)
        live.prefix = wire.PrefixUse(nearest_tokens=plan.nearest_tokens, miss=plan.miss.value)
        if not plan.from_disk:
            return None
        seconds, now = prefill_seconds(plan.num_tokens), self._clock()
        deadline_at = now + max(READING_SECONDS, seconds)
        self._cache.fetch(live.request_id, plan, deadline_at=deadline_at)
        held = self._cache.plan_in_memory(query).num_tokens
        share = PATIENCE_SHARE * (seconds - prefill_seconds(held))
        patience = max(LEAST_PATIENCE_SECONDS, PATIENCE_FACTOR * self._cache.load_seconds(plan))
        wait = _Wait(now, min(share, patience), held, held, prefill_seconds)
        self._waits[live.request_id] = wait
        return wait.latest()

    def begin_again(
        self, live: LiveRequest, *, prefill_seconds: Callable[[int], float]
    ) -> float | None:
        """Reading has ended. Until when to wait for another way, where a part of this one could not
        be read; once."""
        wait = self._waits[live.request_id]
        if wait.is_second or not self._cache.is_unreadable(live.request_id):
            return None
        until = self.begin(live, prefill_seconds=prefill_seconds)
        self._waits[live.request_id].is_second = True
        return until

    def wait_on(self, live: LiveRequest) -> float | None:
        """It has waited until then: until when to wait further, for the disk has brought more
        meanwhile; None: not any longer."""
        wait, now = self._waits[live.request_id], self._clock()
        query = self._query(live, len(live.sequence.token_ids))
        before = wait.brought_tokens
        wait.brought_tokens = self._cache.plan_in_memory(query).num_tokens
        until = min(now + wait.seconds, wait.latest())
        return until if wait.brought_tokens > before and until > now else None

    def open(self, live: LiveRequest) -> Drawn | None:
        """The first token of a request that just got its row, from logits that are kept."""
        sequence = live.sequence
        if not _may_open(live):
            return None
        query = self._query(live, sequence.num_prompt_tokens)
        logits = self._cache.opening(query)
        if logits is None:
            return None
        drawn = self._rows.draw(sequence.join, logits)
        return None if drawn.is_undefined else drawn

    def open_late(self, live: LiveRequest) -> Drawn | None:
        """The same while the row computes, if there is much left to compute."""
        if live.sequence.slice_tokens_left < LEAST_LATE_GAIN_TOKENS:
            return None
        return self.open(live)

    def restore(self, live: LiveRequest) -> None:
        """Fill the row that the request just got with what is in memory, if there is anything."""
        sequence = live.sequence
        assert sequence.row_id is not None
        query = self._query(live, len(sequence.token_ids))
        plan = self._cache.plan_in_memory(query)
        sequence.boundaries = self._boundaries(live, query, plan)
        if self._cache.is_fetching(live.request_id):
            sequence.races_from = plan.num_tokens
        live.prefix = self._cache.used(query, plan, begun=live.prefix, request_id=live.request_id)
        live.note_cached(plan.num_tokens)
        if not plan.is_cold:
            self._fill(live, plan)

    def go_on(self, live: LiveRequest) -> None:
        """Leap over what came from disk while the row was computing it, if that is worth it."""
        sequence = live.sequence
        sequence.races_from = None
        query = self._query(live, len(sequence.token_ids))
        plan = self._cache.plan_in_memory(query)
        gained = plan.num_tokens - sequence.computed_tokens
        if (
            sequence.row_id is None
            or min(gained, sequence.slice_tokens_left) < LEAST_LATE_GAIN_TOKENS
        ):
            return
        live.prefix = self._cache.used_late(plan, gained_tokens=gained, request_id=live.request_id)
        live.note_leap(gained)
        self._fill(live, plan)

    def keep_boundary(self, live: LiveRequest) -> None:
        """The row stands at one of its boundaries."""
        self._keep(live)

    def keep_prompt(self, live: LiveRequest) -> None:
        """All slices of the prompt are computed; the batch call takes its last token.

        Its tail is only worth a copy where a restore cannot begin inside a block: the answer's
        tail will hold it too.
        """
        query = self._keep(live, whole_blocks_only=not self._needs.has_boundaries)
        if query is not None and self._needs.has_boundaries:
            self._ended.append(query)

    def keep_opening(self, live: LiveRequest) -> None:
        """The row's first token is being drawn: what from."""
        sequence = live.sequence
        is_short = sequence.num_prompt_tokens <= LEAST_TOKENS
        if sequence.row_id is None or is_short or live.is_forgotten:
            return
        logits = self._rows.copy_logits(sequence.row_id)
        if logits is not None:
            self._cache.store_opening(self._query(live, sequence.num_prompt_tokens), logits)

    def keep_row(self, live: LiveRequest) -> None:
        """The row is about to leave: the answer, or as much of the prompt as was computed."""
        live.is_kept = True
        query = self._keep(live)
        if query is not None:
            self._ended.append(query)

    def distrust(self, live: LiveRequest) -> None:
        """It failed: what its row was filled from, or what was copied on its way, may be the cause
        or be as wrong."""
        sequence = live.sequence
        ends = {len(sequence.token_ids), sequence.num_prompt_tokens, *sequence.boundaries}
        for num_tokens in ends | {sequence.num_prompt_tokens - 1} - {0}:
            self._cache.drop(self._query(live, num_tokens), request_id=live.request_id)

    def forget(self, live: LiveRequest) -> None:
        self._waits.pop(live.request_id, None)
        self._cache.release(live.request_id)

    def persist(self, *, at_once: bool = False) -> None:
        """Once a turn: what was kept in the turn before is computed by now. `at_once`: also what
        was kept since, which is waited for."""
        computed, self._persistable, self._ended = self._persistable, self._ended, []
        if at_once:
            computed, self._persistable = [*computed, *self._persistable], []
        for query in computed:
            self._cache.persist(query)
        if at_once:
            self._cache.hurry_writes()

    # --- inside

    def _fill(self, live: LiveRequest, plan: RestorePlan) -> None:
        assert live.sequence.row_id is not None
        slices, boundary = self._cache.payloads(plan)
        self._rows.restore_row(live.sequence.row_id, slices, boundary, num_tokens=plan.num_tokens)
        live.sequence.computed_tokens = plan.num_tokens
        live.sequence.looked_share = 0.0

    def _keep(self, live: LiveRequest, *, whole_blocks_only: bool = False) -> Query | None:
        """Copy what nobody has stored of what the row holds."""
        row_id = live.sequence.row_id
        found = self._rows.find_row(row_id) if row_id is not None else None
        if found is None or live.is_forgotten:
            return None
        row, held_tokens = found
        stop = min(held_tokens, len(live.sequence.token_ids))
        if whole_blocks_only and not (stop := stop - stop % BLOCK_TOKENS):
            return None
        query = self._query(live, stop)
        at_end = frozenset([stop] if stop == held_tokens else [])
        wanted = self._cache.missing(query, boundaries=at_end)
        if wanted:
            self._cache.store(query, self._copies(row, wanted))
        return query

    def _copies(self, row: Any, wanted: Sequence[Capture]) -> list[Captured]:
        """Not made yet: the tier makes room for each first."""
        spans = [(one.span.start, one.span.stop) for one in wanted if one.wants_slice]
        slices = iter(self._rows.copy_slices(row, spans))
        return [
            Captured(
                one.span,
                next(slices) if one.wants_slice else None,
                self._rows.copy_boundary(row) if one.wants_boundary else None,
            )
            for one in wanted
        ]

    def _query(self, live: LiveRequest, num_tokens: int) -> Query:
        return Query(
            model=self.spec.name,
            chain=self._chain(live),
            num_tokens=num_tokens,
            owners=owners_of(live.delivery.work),
            needs=self._needs,
        )

    def _chain(self, live: LiveRequest) -> Chain:
        if live.chain is None:
            live.chain = Chain(self._root, live.delivery.token_bytes)
        if len(live.chain) < len(live.sequence.token_ids):
            live.chain.extend(token_bytes(live.sequence.token_ids[len(live.chain) :]))
        return live.chain

    def _boundaries(self, live: LiveRequest, query: Query, plan: RestorePlan) -> tuple[int, ...]:
        """Where a windowed or recurrent model's row is worth copying on its way.

        The ends of the system prompt and of the last turns are where other prompts will leave this
        one; the last full block serves an edit of the last turn; the block where it left the known
        chains is where the next one will too; one every so often serves what nobody foresaw. What
        is near to where the row begins is not worth another copy, nor is a turn's end near to the
        prompt's: the system prompt's end is, which other turns come after. Where the same prompt
        cannot begin with an opening, it begins before its last token.
        """
        if not self._needs.has_boundaries:
            return ()
        end = query.num_tokens - 1
        last = () if _may_open(live) else (end,)
        interval = max(BLOCK_TOKENS, self.spec.boundary_interval_tokens)
        wanted = {end, plan.branch_tokens, *range(0, end, interval)}
        on_grid = {position - position % BLOCK_TOKENS for position in wanted}
        turns = live.delivery.work.boundaries
        of_turns = {one for one in turns[-MAX_TURN_BOUNDARIES:] if one <= end - LEAST_TURN_TOKENS}
        apart = range(plan.num_tokens + LEAST_TURN_TOKENS, end)
        found = on_grid | of_turns | {*turns[:-1][:1]}
        outside = {outside_images(live.sequence.images, one) for one in found}
        wanted = {one for one in outside if one in apart}
        return tuple(sorted(wanted | {*last}))


def _may_open(live: LiveRequest) -> bool:
    """Nothing has been said yet, and nothing decides what may be."""
    return not (live.sequence.num_output_tokens or live.sequence.grammar)


def owners_of(work: wire.Work) -> frozenset[bytes]:
    """Whom a request stands for in the cache."""
    if work.publication is not None:
        return frozenset([owner_name(OwnerKind.PUBLICATION, work.publication)])
    teams = (owner_name(OwnerKind.TEAM, name) for name in work.cache_teams)
    return frozenset([owner_name(OwnerKind.PERSON, work.tenant), *teams])
