"""Payloads that say which tokens they stand for: a test sees what a plan would restore."""

from __future__ import annotations

import random
from collections.abc import Iterable, Sequence
from pathlib import Path

from engine.cache.captures import Captured, Contents, Payload
from engine.cache.disk_index import Row
from engine.cache.disk_tier import DiskLimits, DiskTier
from engine.cache.files import Files
from engine.cache.memory_tier import MemoryTier
from engine.cache.owners import OwnerKind, owner_name
from engine.cache.plan import Needs, Query, RestorePlan
from engine.cache.prefix import PrefixCache
from engine.cache.record import ArrayBytes, Kind, Readout, RecordKey
from engine.core.blocks import Chain, root_key, token_bytes

ROOT = root_key({"model": "toy"})
ATTENTION = Needs(has_slices=True, has_boundaries=False)
HYBRID = Needs(has_slices=True, has_boundaries=True)
RECURRENT = Needs(has_slices=False, has_boundaries=True)
PAYLOAD_BYTES = 3000
UNLIMITED = DiskLimits(budget_bytes=1 << 40, free_floor_bytes=0, daily_write_bytes=1 << 40)


def tenant(name: str) -> bytes:
    return owner_name(OwnerKind.PERSON, name)


def query(
    tokens: Sequence[int],
    *,
    of: str = "ann",
    needs: Needs = ATTENTION,
    owners: Iterable[bytes] | None = None,
    model: str = "toy",
) -> Query:
    """A request of `of`, or of whoever `owners` are."""
    root = ROOT if model == "toy" else root_key({"model": model})
    chain = Chain(root, token_bytes(tokens))
    names = frozenset([tenant(of)] if owners is None else owners)
    return Query(model=model, chain=chain, num_tokens=len(chain), owners=names, needs=needs)


def dump(content: bytes) -> Readout:
    return readout_of([ArrayBytes("bytes", (len(content),), content)])


def readout_of(arrays: Sequence[ArrayBytes]) -> Readout:
    return Readout(sum(len(one.data) for one in arrays), lambda: arrays)


def revive(arrays: Sequence[ArrayBytes]) -> Payload:
    content = bytes(arrays[0].data)
    return Payload(content, len(content))


CONTENTS = Contents(compute=lambda contents: None, dump=dump, revive=revive)


def make_cache(*, budget_bytes: int = 1 << 40, contents: Contents = CONTENTS) -> PrefixCache:
    """`contents`: those of a real model's rows, where there is one."""
    memory = MemoryTier(budget_bytes=budget_bytes)
    return PrefixCache(memory, None, contents=contents)


def make_disk(
    directory: Path, *, limits: DiskLimits = UNLIMITED, files: Files | None = None
) -> DiskTier:
    return DiskTier(directory, limits, now=lambda: 0.0, today=lambda: "today", files=files)


def compute(cache: PrefixCache, asked: Query, *, boundaries: Sequence[int] = ()) -> None:
    """What the model side does after computing a whole prompt: capture what is missing."""
    wanted = cache.missing(asked, boundaries=frozenset({*boundaries, asked.num_tokens}))
    captured = []
    for capture in wanted:
        captured.append(
            Captured(
                capture.span,
                _payload(capture.span.token_bytes) if capture.wants_slice else None,
                _payload(asked.chain.tokens[: capture.span.stop * 4])
                if capture.wants_boundary
                else None,
            )
        )
    cache.store(asked, captured)


def _payload(content: bytes) -> Payload:
    return Payload(content, len(content))


def restored_tokens(cache: PrefixCache, asked: Query, plan: RestorePlan) -> None:
    """Assert that the plan restores exactly the beginning of the prompt it was made for."""
    slices, boundary = cache.payloads(plan)
    prefix = asked.chain.tokens[: plan.num_tokens * 4]
    if asked.needs.has_slices:
        assert b"".join(content[: n * 4] for content, n in slices) == prefix
    if asked.needs.has_boundaries and plan.num_tokens:
        assert boundary == prefix
    assert plan.num_tokens < asked.num_tokens


def make_rows(count: int, *, first_token: int = 0) -> list[Row]:
    tokens = token_bytes(range(first_token, first_token + 256 * count))
    return [
        Row(
            record=RecordKey(span.key, Kind.SLICE),
            model="toy",
            parent=span.parent,
            tokens=span.token_bytes,
            file_bytes=0,
            owners=frozenset([tenant("ann")]),
            used_at=float(span.start),
        )
        for span in Chain(ROOT, tokens).spans(256 * count)
    ]


def arrays_of(row: Row) -> list[ArrayBytes]:
    content = random.Random(row.record.block).randbytes(PAYLOAD_BYTES)
    return [ArrayBytes("f", (10, 100), content[:1000]), ArrayBytes("f", (2000,), content[1000:])]


def content_of(arrays: Iterable[ArrayBytes]) -> list[bytes]:
    return [bytes(array.data) for array in arrays]


def record_files(directory: Path) -> list[Path]:
    return sorted(path for path in directory.rglob("*.slice"))


def num_forgotten(cache: PrefixCache, owner: bytes) -> int:
    """How many records of few leave memory with this owner."""
    before = len(cache.memory)
    cache.forget_owner(owner)
    return before - len(cache.memory)
