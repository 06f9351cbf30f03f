"""Who is forgotten while their requests are worked on leaves nothing behind."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from engine import wire
from engine.cache.owners import OwnerKind, owner_name
from tests.engine.cache.toys import record_files
from tests.engine.device_rig import PLENTY_BYTES, Engine

PROMPT_TOKENS = 700
PERSON, PUBLICATION = "user:1", "17"


@pytest.fixture(params=["tiny-qwen3", "tiny-gemma3"])
def model(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def engine(tmp_path: Path, model: str) -> Iterator[Engine]:
    engine = Engine(tmp_path, cache_memory_bytes=PLENTY_BYTES)
    engine.configure(model=model)
    yield engine
    engine.prefixes.close()


def settle(engine: Engine) -> None:
    """What was kept is written, what was deleted is gone."""
    engine.turn(3)
    engine.prefixes.cache.hurry_writes()
    engine.turn_until(lambda: engine.prefixes.cache.io.is_idle)  # type: ignore[union-attr]


def has_begun(engine: Engine, name: str, event: type[wire.Event] = wire.Started) -> bool:
    """Its row is computed, or has said so much already."""
    return any(isinstance(one, event) for one in engine.transport.events[name])


def owned(engine: Engine, owner: bytes) -> int:
    return sum(owner in node.owners for node in engine.prefixes.cache.nodes)


@pytest.mark.parametrize("turns_between", [0, 1])
@pytest.mark.parametrize("is_answered", [True, False])
def test_a_person_who_is_deleted_leaves_nothing_of_what_was_being_computed(
    engine: Engine, tmp_path: Path, model: str, is_answered: bool, turns_between: int
) -> None:
    engine.ask("a", model=model, prompt_tokens=PROMPT_TOKENS, max_tokens=200, tenant=PERSON)
    engine.turn_until(lambda: has_begun(engine, "a", wire.Delta if is_answered else wire.Started))
    engine.transport.send(wire.Cancel(request_id="a"))
    engine.turn(turns_between)
    engine.transport.send(wire.ForgetTenant(tenant=PERSON))
    engine.finish("a")
    settle(engine)
    assert owned(engine, owner_name(OwnerKind.PERSON, PERSON)) == 0
    assert not record_files(tmp_path / "cache" / "e")


def test_who_clears_their_cache_has_only_later_answers_in_it(
    engine: Engine, tmp_path: Path, model: str
) -> None:
    engine.ask("a", model=model, prompt_tokens=PROMPT_TOKENS, max_tokens=40, tenant=PERSON)
    engine.turn_until(lambda: has_begun(engine, "a"))
    engine.transport.send(wire.ForgetTenant(tenant=PERSON))
    engine.finish("a")
    settle(engine)
    assert not record_files(tmp_path / "cache" / "e")
    engine.ask("b", model=model, prompt_tokens=PROMPT_TOKENS, tenant=PERSON)
    engine.finish("b")
    assert engine.usage("b").cached_tokens == 0
    settle(engine)
    assert record_files(tmp_path / "cache" / "e")


def test_who_clears_their_cache_has_nothing_in_it_of_a_request_whose_model_leaves_meanwhile(
    engine: Engine, model: str
) -> None:
    engine.configure(model=model, max_rows=1)
    engine.ask("b", model=model, prompt_tokens=3, max_tokens=200, tenant="user:2")
    engine.turn_until(lambda: has_begun(engine, "b", wire.Delta))
    engine.ask("a", model=model, prompt_tokens=PROMPT_TOKENS, tenant=PERSON)
    engine.turn()
    engine.transport.send(wire.ForgetTenant(tenant=PERSON))
    engine.turn()
    engine.worker._pool.cancel("b")
    assert engine.worker._pool.set_aside()
    engine.finish("a")
    settle(engine)
    assert owned(engine, owner_name(OwnerKind.PERSON, PERSON)) == 0


def test_others_keep_what_is_being_computed_for_them(engine: Engine, model: str) -> None:
    engine.ask("a", model=model, prompt_tokens=PROMPT_TOKENS, tenant="user:2")
    engine.turn_until(lambda: has_begun(engine, "a"))
    engine.transport.send(wire.ForgetTenant(tenant=PERSON))
    engine.finish("a")
    assert owned(engine, owner_name(OwnerKind.PERSON, "user:2")) > 1


def test_a_prompt_that_is_published_no_more_leaves_nothing(
    engine: Engine, tmp_path: Path, model: str
) -> None:
    engine.ask("a", model=model, prompt_tokens=PROMPT_TOKENS, publication=PUBLICATION)
    engine.turn_until(lambda: has_begun(engine, "a"))
    engine.transport.send(wire.Unpublish(publication=PUBLICATION))
    engine.finish("a")
    settle(engine)
    assert owned(engine, owner_name(OwnerKind.PUBLICATION, PUBLICATION)) == 0
    assert not record_files(tmp_path / "cache" / "e")
