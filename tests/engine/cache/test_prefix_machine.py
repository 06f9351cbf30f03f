"""Random histories of the whole cache, tiers, restarts and damage included, against a dictionary.

The dictionary knows every prefix that was ever computed and by whom. What the cache restores must
be in it, for somebody whose prefixes the request may use; in a cache without limits and damage it
must also be all of it.
"""

from __future__ import annotations

import itertools
import tempfile
import time
from pathlib import Path

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
)

from engine.cache.disk_tier import DiskLimits
from engine.cache.io_thread import CacheIO
from engine.cache.memory_tier import MemoryTier
from engine.cache.owners import OwnerKind, are_enough, has_publication, is_nobodys, owner_name
from engine.cache.plan import Needs, Query
from engine.cache.prefix import ModelRules, PrefixCache
from engine.core.blocks import BLOCK_TOKENS

from .toys import (
    ATTENTION,
    CONTENTS,
    HYBRID,
    RECURRENT,
    UNLIMITED,
    compute,
    make_disk,
    query,
    restored_tokens,
    tenant,
)

SMALL = DiskLimits(budget_bytes=30_000, free_floor_bytes=0, daily_write_bytes=1 << 40)
SMALL_MEMORY_BYTES = 8_000
PERSONS = [tenant(name) for name in ("ann", "bob", "cleo", "dan")]
TEAM = owner_name(OwnerKind.TEAM, "tigers")
PUBLICATION = owner_name(OwnerKind.PUBLICATION, "rules")
WAIT_SECONDS = 10.0

prompts = st.tuples(
    st.lists(st.integers(0, 1), max_size=3),
    st.integers(0, 1),
    st.sampled_from([1, 33, 100, 255, BLOCK_TOKENS]),
).map(lambda shape: _tokens(*shape))
askers = st.sampled_from([*([one] for one in PERSONS), [PERSONS[0], TEAM], [PERSONS[1], TEAM]])


def _tokens(blocks: list[int], tail: int, tail_tokens: int) -> list[int]:
    """Blocks of two kinds, so that prompts share beginnings, and a part of a third."""
    full = [1000 * block + place for block in blocks for place in range(BLOCK_TOKENS)]
    return [*full, *(5000 + 1000 * tail + place for place in range(tail_tokens))]


class CacheMachine(RuleBasedStateMachine):
    @initialize(
        needs=st.sampled_from([ATTENTION, HYBRID, RECURRENT]),
        is_small=st.booleans(),
        share_after=st.sampled_from([None, 2, 3]),
    )
    def begin(self, needs: Needs, is_small: bool, share_after: int | None) -> None:
        self._folder = tempfile.TemporaryDirectory(prefix="hearth-machine-")
        self._needs, self._is_small = needs, is_small
        self._rules = ModelRules(share_after=share_after)
        self._owners: dict[tuple[int, ...], set[bytes]] = {}  # prefix -> who computed it
        self._is_complete = not is_small
        self._ids = itertools.count()
        self._open()

    @rule(tokens=prompts, owners=askers)
    def answer(self, tokens: list[int], owners: list[bytes]) -> None:
        """A request from its plan to what it leaves."""
        asked = query(tokens, owners=owners, needs=self._needs)
        self._restore(asked, tokens)
        compute(self._cache, asked)
        self._cache.persist(asked)
        self._note(asked, tokens)
        self._settle()

    @rule(tokens=prompts)
    def publish(self, tokens: list[int]) -> None:
        asked = query(tokens, owners=[PUBLICATION], needs=self._needs)
        compute(self._cache, asked)
        self._cache.persist(asked)
        self._note(asked, tokens)
        self._settle()

    @rule(owner=st.sampled_from([*PERSONS, PUBLICATION]))
    def forget(self, owner: bytes) -> None:
        self._cache.forget_owner(owner)
        self._cache.go_on_clearing()
        for node in self._cache.nodes:
            assert not any(is_nobodys(node.owners_of(one.kind)) for one in node.records())
        for prefix, owners in list(self._owners.items()):
            owners.discard(owner)
            if is_nobodys(owners):
                del self._owners[prefix]
        self._settle()

    @rule()
    def restart(self) -> None:
        assert self._io.close(wait_seconds=WAIT_SECONDS)
        self._open()

    @rule(share=st.floats(0, 1))
    def shrink(self, share: float) -> None:
        self._cache.shrink(int(self._cache.memory.used_bytes * share))

    @rule(number=st.integers(0, 1000), position=st.integers(0, 100_000), bit=st.integers(0, 7))
    @precondition(lambda self: self._files())
    def damage(self, number: int, position: int, bit: int) -> None:
        files = self._files()
        path = files[number % len(files)]
        content = bytearray(path.read_bytes())
        content[position % len(content)] ^= 1 << bit
        path.write_bytes(content)
        self._is_complete = False

    @rule()
    def clear(self) -> None:
        self._cache.clear("toy")
        self._cache.go_on_clearing()
        self._settle()
        self._owners = {}
        assert not self._files()

    @invariant()
    def sizes_agree(self) -> None:
        if not hasattr(self, "_cache"):
            return
        memory, nodes = self._cache.memory, list(self._cache.nodes)
        in_memory = {node.record(kind) for node in nodes for kind in node.in_memory}
        assert len(memory) == len(in_memory)
        assert all(record in memory for record in in_memory)
        assert 0 <= memory.pinned_bytes <= memory.used_bytes <= memory.budget_bytes
        statistics = self._cache.statistics
        assert statistics.num_saved == statistics.num_persisted + statistics.num_dropped
        on_disk = sum(size for node in nodes for size in node.on_disk.values())
        assert on_disk == sum(self._cache.nodes.disk_bytes.values()) == self._io.disk.used_bytes

    def teardown(self) -> None:
        if hasattr(self, "_io"):
            self._io.close(wait_seconds=WAIT_SECONDS)
            self._folder.cleanup()

    # --- inside

    def _open(self) -> None:
        disk = make_disk(Path(self._folder.name), limits=SMALL if self._is_small else UNLIMITED)
        rows = disk.index.take_rows()
        self._io = CacheIO(disk, max_queued_bytes=1 << 30)
        budget = SMALL_MEMORY_BYTES if self._is_small else 1 << 40
        memory = MemoryTier(budget_bytes=budget)
        self._cache = PrefixCache(memory, self._io, contents=CONTENTS, rows=rows)
        self._cache.set_rules("toy", self._rules)

    def _restore(self, asked: Query, tokens: list[int]) -> None:
        request_id = str(next(self._ids))
        plan = self._cache.plan(asked)
        if plan.from_disk:
            self._cache.fetch(request_id, plan, deadline_at=time.monotonic() + WAIT_SECONDS)
            self._wait_for(request_id)
            plan = self._cache.plan_in_memory(asked)
        restored_tokens(self._cache, asked, plan)
        expected = self._expected(asked, tokens)
        assert plan.num_tokens <= expected
        if self._is_complete:
            assert plan.num_tokens == expected or expected < 32
        self._cache.used(asked, plan, request_id=request_id)
        self._cache.release(request_id)

    def _expected(self, asked: Query, tokens: list[int]) -> int:
        """The longest beginning whose every block somebody of use has computed."""
        usable = [
            prefix
            for prefix, owners in self._owners.items()
            if not owners.isdisjoint(asked.owners)
            or has_publication(owners)
            or are_enough(owners, share_after=self._rules.share_after)
        ]
        longest = 0
        for prefix in usable:
            common = _common(prefix, tokens[:-1])
            is_whole = common == len(prefix)
            if is_whole or not asked.needs.has_boundaries:
                longest = max(longest, common)
        return longest

    def _note(self, asked: Query, tokens: list[int]) -> None:
        """A prefix counts as computed where every layer kind has something to restore from, by
        those who kept that: who only came past does not own where others ended."""
        spans = list(asked.spans())
        kept = spans[-1:] if asked.needs.has_boundaries else spans
        for span in kept:
            owners = self._owners.setdefault(tuple(tokens[: span.stop]), set())
            owners |= asked.owners

    def _settle(self) -> None:
        self._wait_for(None)

    def _wait_for(self, request_id: str | None) -> None:
        """Until a restore has ended, or (None) until nothing is left to be written."""
        give_up_at = time.monotonic() + WAIT_SECONDS
        statistics = self._cache.statistics
        while time.monotonic() < give_up_at:
            if request_id in self._cache.take_fetched():
                return
            is_written = statistics.num_saved == statistics.num_persisted + statistics.num_dropped
            if request_id is None and is_written and self._io.is_idle:
                return
            time.sleep(0.0005)
        raise AssertionError("the cache's thread did not answer")

    def _files(self) -> list[Path]:
        folder = Path(self._folder.name)
        return sorted(path for path in folder.glob("?/*") if path.suffix != ".tmp")


def _common(left: tuple[int, ...], right: list[int]) -> int:
    pairs = zip(left, right, strict=False)
    return sum(1 for _ in itertools.takewhile(lambda pair: pair[0] == pair[1], pairs))


CacheMachine.TestCase.settings = settings(max_examples=40, stateful_step_count=15, deadline=None)
TestCache = CacheMachine.TestCase
