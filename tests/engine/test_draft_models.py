"""A smaller model drafts for a larger one, on a real engine: the same answers, in fewer steps, and
its memory counts."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import mlx.core as mx
import pytest

from engine import wire
from engine.core.limits import Limits
from engine.core.sequence import Sequence
from engine.core.step import DraftMemory
from engine.handle import ModelHandle
from engine.model.draft_model import DraftModel
from engine.model.loader import load
from engine.model.sampling import SampledRow
from tests.engine.device_rig import MODEL, Engine
from tests.engine.devices import needs_quantised_caches
from tests.fakes import make_work
from tests.tiny_models import tiny_model_path

OTHER, LARGER_VOCABULARY = "tiny-deep", "small-llama"
STATE, WINDOW = "tiny-mamba", "tiny-gemma3"
LONG = 700  # read by the draft model in two portions
SAMPLINGS = [wire.Sampling(seed=1, temperature=0.0), wire.Sampling(seed=3, presence_penalty=0.5)]


def drafting(folder: Path, draft: str, *, model: str = MODEL, **settings: object) -> Engine:
    made = Engine(folder, cache_memory_bytes=None)
    made.configure(model=model, draft_tokens=8, draft_path=str(tiny_model_path(draft)), **settings)
    return made


@pytest.fixture
def plain(tmp_path: Path) -> Iterator[Engine]:
    made = Engine(tmp_path / "plain")
    made.configure()
    yield made
    made.prefixes.close()


def handle_of(engine: Engine) -> ModelHandle:
    (handle,) = engine.worker._pool.handles
    assert isinstance(handle, ModelHandle)
    return handle


def memory_of(engine: Engine) -> DraftMemory:
    memory = handle_of(engine)._runner.draft_memory
    assert memory is not None
    return memory


@pytest.mark.parametrize("sampling", SAMPLINGS)
@pytest.mark.parametrize("draft", [MODEL, OTHER])
def test_answers_are_those_without_it(
    draft: str, sampling: wire.Sampling, plain: Engine, tmp_path: Path
) -> None:
    engine = drafting(tmp_path / "drafting", draft)
    for name, prompt_tokens in (("short", 5), ("long", LONG), ("again", LONG)):
        for one in (plain, engine):
            one.ask(name, prompt_tokens=prompt_tokens, max_tokens=150, sampling=sampling)
            one.finish(name)
        assert engine.transport.tokens(name) == plain.transport.tokens(name)
    status = handle_of(engine).status
    assert status.drafted_tokens > 0
    if draft == MODEL:
        assert status.accepted_tokens > 0.9 * status.drafted_tokens  # whatever the sampling
    assert engine.usage("again").cached_tokens > 0
    engine.prefixes.close()


@needs_quantised_caches
def test_quantised_rows_draft_as_well(tmp_path: Path) -> None:
    answers = []
    for draft_tokens in (0, 8):
        engine = Engine(tmp_path / str(draft_tokens))
        engine.configure(kv_bits=8, draft_tokens=draft_tokens)
        engine.ask("row", prompt_tokens=5, max_tokens=150)
        engine.finish("row")
        answers.append(engine.transport.tokens("row"))
        assert (handle_of(engine).status.drafted_tokens > 0) is (draft_tokens > 0)
        engine.prefixes.close()
    assert answers[0] == answers[1]


def test_others_come_and_go(plain: Engine, tmp_path: Path) -> None:
    engine = drafting(tmp_path / "drafting", MODEL)
    for one in (plain, engine):
        one.ask("first", prompt_tokens=20, max_tokens=200)
        one.turn(40)
        one.ask("second", prompt_tokens=30, max_tokens=20)
        one.ask("third", prompt_tokens=9, max_tokens=60)
        one.finish("first", "second", "third")
    for name in ("first", "second", "third"):
        assert engine.transport.tokens(name) == plain.transport.tokens(name)
    engine.prefixes.close()


def test_its_weights_count_and_what_it_reads_goes_with_the_row(
    plain: Engine, tmp_path: Path
) -> None:
    engine = drafting(tmp_path / "drafting", MODEL)
    for one in (plain, engine):
        one.ask("row", prompt_tokens=40, max_tokens=100)
        one.turn_until(lambda one=one: one.num_rows == 1)  # type: ignore[misc]
    assert engine.weight_bytes == 2 * plain.weight_bytes
    engine.turn_until(lambda: memory_of(engine).held_bytes > 0)
    handle, held_bytes = handle_of(engine), memory_of(engine).held_bytes
    assert handle.row_bytes == handle._runner.num_bytes + held_bytes  # no room for other rows
    engine.finish("row")
    engine.turn(2)
    assert memory_of(engine).held_bytes == 0
    engine.prefixes.close()


def test_it_gives_way_to_who_waits_for_a_row(tmp_path: Path) -> None:
    engine = drafting(tmp_path / "drafting", MODEL, max_rows=2)
    engine.ask("row", prompt_tokens=40, max_tokens=3000)
    engine.turn_until(lambda: engine.num_rows == 1 and memory_of(engine).held_bytes > 0)
    handle = handle_of(engine)
    assert handle.memory.limit(handle.spec, Limits(), may_batch=True).may_draft
    waiting = Sequence(make_work("waits"), delivered_token_ids=(), arrived_at=0.0)
    handle.scheduler.add(waiting)
    assert not handle.memory.limit(handle.spec, Limits(), may_batch=True).may_draft
    engine.prefixes.close()


def test_what_is_held_goes_when_nothing_is_drafted_any_more(tmp_path: Path) -> None:
    engine = drafting(tmp_path / "drafting", MODEL)
    engine.ask("row", prompt_tokens=40, max_tokens=3000)
    engine.turn_until(lambda: engine.num_rows == 1 and memory_of(engine).held_bytes > 0)
    engine.configure(draft_tokens=0)
    engine.turn(3)
    assert memory_of(engine).held_bytes == 0
    assert engine.num_rows == 1
    engine.prefixes.close()


def test_a_row_that_leaves_others_behind_leaves_nothing_drafted(tmp_path: Path) -> None:
    engine = drafting(tmp_path / "drafting", MODEL)
    engine.ask("row", prompt_tokens=40, max_tokens=100)
    engine.turn_until(lambda: engine.num_rows == 1 and memory_of(engine).held_bytes > 0)
    engine.ask("first", "second", prompt_tokens=9, max_tokens=3000)
    engine.finish("row")
    engine.turn(2)
    assert engine.num_rows == 2 and memory_of(engine).held_bytes == 0
    engine.prefixes.close()


def test_tokens_that_only_the_larger_vocabulary_has_are_read_as_others(tmp_path: Path) -> None:
    class Reading:
        """A model that notes the largest token it is given."""

        largest = 0

        def __getattr__(self, name: str) -> Any:
            return getattr(loaded.model, name)

        def __call__(self, token_ids: mx.array, **named: Any) -> mx.array:
            self.largest = max(self.largest, int(token_ids.max()))
            logits: mx.array = loaded.model(token_ids, **named)
            return logits

    *_, last = load(tiny_model_path(MODEL), casts_to_float32=True)
    loaded, model = last.loaded, Reading()
    assert loaded is not None
    size = 4096
    drafting = DraftModel(model, model, vocab_size=size + 64, own_vocab_size=size)
    row = SampledRow(SAMPLINGS[0], prompt_token_ids=(), output_token_ids=())
    for known in ([5, size, 9], [5, size, 9, size + 63]):
        assert len(drafting.draft(1, known, lambda: row, at_most=4)) == 4
    assert model.largest == size - 1


def test_a_loaded_model_serves_while_what_is_to_draft_for_it_is_missing(
    plain: Engine, tmp_path: Path
) -> None:
    plain.ask("before")
    plain.finish("before")
    plain.configure(draft_path=str(tmp_path / "missing"))
    plain.turn()
    assert [one.state for one in plain.worker._pool.statuses()] == ["loaded"]


def test_it_gives_way_when_memory_gets_short(tmp_path: Path) -> None:
    engine = drafting(tmp_path / "drafting", MODEL)
    engine.ask("row", prompt_tokens=40, max_tokens=3000)
    engine.turn_until(lambda: engine.num_rows == 1)
    engine.turn_until(lambda: memory_of(engine).held_bytes > 0)
    used_bytes = engine.memory.read_device().active_bytes
    engine.set_limit(int(1.05 * (used_bytes + memory_of(engine).token_bytes * 64)))
    engine.turn(3)
    assert memory_of(engine).held_bytes == 0
    engine.turn(50)
    assert memory_of(engine).held_bytes == 0
    assert "row" not in engine.transport.ends  # it goes on
    engine.prefixes.close()


@pytest.mark.parametrize(
    ("model", "draft", "reason"),
    [
        (MODEL, LARGER_VOCABULARY, "has another vocabulary"),
        (MODEL, STATE, "cannot take tokens back"),
        (WINDOW, WINDOW, "no model can draft for it"),
    ],
)
def test_who_cannot_draft_for_it_is_named(
    model: str, draft: str, reason: str, tmp_path: Path
) -> None:
    engine = drafting(tmp_path, draft, model=model)
    engine.ask("never", model=model)
    engine.finish("never")
    engine.prefixes.close()
    end = engine.transport.ends["never"]
    assert isinstance(end, wire.Failed) and reason in end.detail


def test_a_draft_model_counts_from_the_next_load_on(tmp_path: Path) -> None:
    engine = drafting(tmp_path, MODEL)
    engine.ask("before")
    engine.finish("before")
    with_draft = engine.weight_bytes
    engine.configure()
    engine.ask("after")
    engine.finish("after")
    assert engine.weight_bytes == with_draft
    engine.worker._pool.unload(MODEL)
    engine.ask("reloaded")
    engine.finish("reloaded")
    assert engine.weight_bytes == with_draft / 2
    engine.prefixes.close()
