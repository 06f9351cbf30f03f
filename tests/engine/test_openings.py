"""Exact repeats: the first token is drawn from logits that are kept; no step is run before."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import mlx.core as mx
import pytest

from engine import wire
from engine.cache.owners import OwnerKind, owner_name
from engine.cache.record import Kind
from engine.core.blocks import Chain, root_key, token_bytes
from engine.core.step import Step
from engine.handle import Events
from engine.model.runner import Runner
from tests.engine.test_prefix_reuse import GREEDY, KINDS, Engine, prompt_of, tokens_of
from tests.tiny_models import IM_END_ID
from tests.waiting import wait_until

NAME = "tiny-qwen3"
WITH_BOUNDARIES = [name for name in KINDS if name != NAME]
PROMPT = prompt_of(300)
SAMPLINGS = {
    "greedy": GREEDY,
    "seeded": wire.Sampling(seed=7, temperature=0.9, top_p=0.9),
    "penalised": wire.Sampling(seed=3, temperature=0.5, repetition_penalty=1.5, top_k=20),
    "logged": wire.Sampling(seed=5, temperature=0.6, top_logprobs=3),
}


@dataclasses.dataclass
class Told:
    """What one request said: in the first turn, and altogether."""

    at_once: list[wire.Event]
    events: list[wire.Event]

    @property
    def tokens(self) -> list[int]:
        return tokens_of([("", event) for event in self.events])

    @property
    def first_tokens(self) -> list[int]:
        return tokens_of([("", event) for event in self.at_once])

    @property
    def logprobs(self) -> list[float]:
        deltas = [one for one in self.events if isinstance(one, wire.Delta)]
        return [one.token.logprob for delta in deltas for one in delta.logprobs]

    @property
    def end(self) -> wire.Finished:
        assert isinstance(self.events[-1], wire.Finished)
        return self.events[-1]


def turn_without_a_step(engine: Engine) -> Events:
    """What is said in a turn in which the model cannot compute."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Runner, "run", refuse)
        return engine.handle.turn()


def refuse(runner: Runner, step: Step) -> None:
    raise RuntimeError("not in this turn")


def ask(engine: Engine, prompt: list[int] = PROMPT, **wishes: Any) -> Told:
    """Alone, until the engine is idle."""
    engine.start(prompt, **wishes)
    return run(engine, engine.handle.turn())


def repeat(engine: Engine, **wishes: Any) -> Told:
    """The same, its first turn without a step."""
    engine.start(PROMPT, **wishes)
    return run(engine, turn_without_a_step(engine))


def run(engine: Engine, first_turn: Events) -> Told:
    at_once = [event for _, event in first_turn]
    events = list(at_once)
    while not engine.handle.is_idle:
        events += [event for _, event in engine.handle.turn()]
        engine.handle.persist()
    assert engine.handle.row_bytes == 0
    return Told(at_once, events)


@pytest.mark.parametrize("sampling", SAMPLINGS)
@pytest.mark.parametrize("name", KINDS)
def test_a_repeat_says_its_first_token_at_once(name: str, sampling: str) -> None:
    engine = Engine(name)
    ask(engine)
    expected = ask(Engine(name), sampling=SAMPLINGS[sampling])
    found = repeat(engine, sampling=SAMPLINGS[sampling])
    assert isinstance(found.at_once[0], wire.Started)
    assert found.first_tokens == expected.tokens[:1]
    assert found.tokens == expected.tokens
    assert found.logprobs == pytest.approx(expected.logprobs, abs=1e-3)
    assert found.end.usage.cached_tokens == len(PROMPT) - 1
    assert found.end.usage.completion_tokens == 8


def test_nothing_of_the_prompt_is_computed_where_all_of_it_is_held() -> None:
    engine = Engine(NAME)
    ask(engine)
    assert not [one for one in ask(engine).events if isinstance(one, wire.Prefilled)]


def test_an_answer_of_one_token_is_over_at_once() -> None:
    engine = Engine(NAME)
    expected = ask(engine, max_tokens=1)
    found = repeat(engine, max_tokens=1)
    assert found.tokens == expected.tokens == found.first_tokens
    assert found.at_once[-1] == found.end
    assert found.end.reason is wire.FinishReason.LENGTH
    assert ask(engine).tokens == ask(Engine(NAME)).tokens


def test_an_answer_that_ends_before_it_begins() -> None:
    engine = Engine(NAME)
    ask(engine)
    ends = wire.Sampling(seed=1, temperature=0.0, logit_bias=((IM_END_ID, 100.0),))
    found = repeat(engine, sampling=ends)
    assert found.at_once[-1] == found.end
    assert found.end.reason is wire.FinishReason.STOP


def test_others_go_on_beside_it() -> None:
    engine = Engine(NAME)
    ask(engine)
    other = engine.start(prompt_of(200, salt=4), max_tokens=20)
    begun = tokens_of(engine.handle.turn())
    while not begun:
        begun += tokens_of(engine.handle.turn())
    repeat = engine.start(PROMPT)
    opened = turn_without_a_step(engine)
    assert [one for one, event in opened if isinstance(event, wire.Delta)] == [repeat]
    answers = engine.run()
    fresh = Engine(NAME)
    assert tokens_of(opened) + answers[repeat][0] == fresh.answer(PROMPT)[0]
    alone = fresh.start(prompt_of(200, salt=4), max_tokens=20)
    assert begun + answers[other][0] == fresh.run()[alone][0]


def test_a_row_goes_on_however_many_repeats_come() -> None:
    engine = Engine(NAME)
    ask(engine)
    running = engine.start(prompt_of(200, salt=4), max_tokens=20)
    num_tokens, num_turns = 0, 0
    while engine.handle.get_live(running) is not None:
        engine.start(PROMPT, max_tokens=1)
        events = [event for one, event in engine.handle.turn() if one == running]
        num_tokens += len(tokens_of([("", event) for event in events]))
        num_turns += 1
        assert num_turns < 60
    assert num_tokens == 20


def test_a_row_that_begins_at_a_chunks_end_can_be_kept() -> None:
    engine, prompt = Engine("tiny-llama4"), prompt_of(320)
    expected = ask(engine, prompt).tokens
    request_id = engine.start(prompt)
    begun = tokens_of(turn_without_a_step(engine))
    engine.cache.shrink(0)
    live = engine.handle.get_live(request_id)
    assert live is not None
    engine.handle.preempt(live)
    assert begun + engine.run()[request_id][0] == expected
    assert engine.cache.statistics.models["tiny-llama4"].misses["fault"] == 0


@pytest.mark.parametrize("name", KINDS)
def test_a_row_that_is_taken_away_behind_its_first_token(name: str) -> None:
    engine = Engine(name)
    expected = ask(engine).tokens
    request_id = engine.start(PROMPT)
    begun = tokens_of(turn_without_a_step(engine))
    assert len(begun) == 1
    live = engine.handle.get_live(request_id)
    assert live is not None
    engine.handle.preempt(live)
    assert begun + engine.run()[request_id][0] == expected


def test_a_cancel_behind_the_first_token_leaves_nothing() -> None:
    engine = Engine(NAME)
    ask(engine)
    request_id = engine.start(PROMPT)
    assert tokens_of(turn_without_a_step(engine))
    ((_, end),) = engine.handle.cancel(request_id)
    assert isinstance(end, wire.Finished) and end.reason is wire.FinishReason.CANCELLED
    assert end.usage.completion_tokens == 1
    engine.run()
    assert engine.handle.row_bytes == 0


def test_only_the_very_same_prompt_is_opened() -> None:
    engine = Engine(NAME)
    ask(engine)
    for other in (PROMPT[:-1], [*PROMPT, 5], [*PROMPT[:-1], 5], [5, *PROMPT[1:]]):
        found = ask(engine, other)
        assert found.tokens == Engine(NAME).answer(other)[0]


def test_another_persons_repeat_is_computed() -> None:
    engine = Engine(NAME)
    ask(engine)
    assert ask(engine, tenant="bob").end.usage.cached_tokens == 0
    assert ask(engine, tenant="bob").end.usage.cached_tokens == len(PROMPT) - 1


def openings(engine: Engine) -> list:
    """The kept logits of each prompt, as they lie in memory."""
    nodes = [one for one in engine.cache.nodes if Kind.OPENING in one.in_memory]
    return [engine.cache.memory.get(one.record(Kind.OPENING)) for one in nodes]


def test_clearing_and_forgetting_takes_them_too() -> None:
    engine = Engine(NAME)
    ask(engine)
    ask(engine, prompt_of(300, salt=2), tenant="bob")
    assert len(openings(engine)) == 2
    engine.cache.forget_owner(owner_name(OwnerKind.PERSON, "ann"))
    assert len(openings(engine)) == 1
    engine.cache.clear(NAME)
    assert not openings(engine)
    assert engine.cache.memory.used_bytes == 0


def test_a_short_prompt_is_not_worth_it() -> None:
    engine = Engine(NAME)
    ask(engine, PROMPT[:32])
    assert not openings(engine)


def test_a_grammar_decides_first() -> None:
    engine = Engine(NAME)
    ask(engine)
    digits = wire.Grammar(kind=wire.GrammarKind.REGEX, param="p", source="[0-9]{4}")
    expected = Engine(NAME).answer(PROMPT, grammar=digits)[0]
    assert engine.answer(PROMPT, grammar=digits)[0] == expected


@pytest.mark.parametrize("spoiled", [[], [mx.full((1, 4096), float("nan"))]])
def test_logits_that_are_of_no_use_change_speed_only(spoiled: list[mx.array]) -> None:
    engine = Engine(NAME)
    expected = ask(engine).tokens
    (kept,) = openings(engine)
    kept.arrays[:] = spoiled
    assert ask(engine).tokens == expected


def files_of(directory: Path) -> list[Path]:
    return list(directory.rglob(f"*.{Kind.OPENING}"))


def test_they_are_not_written_to_disk_where_a_row_may_end_anywhere(tmp_path: Path) -> None:
    engine = Engine(NAME, directory=tmp_path)
    engine.answer(PROMPT)
    assert openings(engine)
    engine.close()
    reopened = Engine(NAME, directory=tmp_path)
    assert not openings(reopened)
    assert reopened.answer(PROMPT)[0] == Engine(NAME).answer(PROMPT)[0]
    assert openings(reopened)
    reopened.close()
    assert not files_of(tmp_path)


@pytest.mark.parametrize("max_tokens", [1, 8])
@pytest.mark.parametrize("name", WITH_BOUNDARIES)
def test_elsewhere_a_restart_keeps_them(name: str, max_tokens: int, tmp_path: Path) -> None:
    engine = Engine(name, directory=tmp_path)
    expected = engine.answer(PROMPT, max_tokens=max_tokens)[0]
    engine.close()
    assert len(files_of(tmp_path)) == 1
    reopened = Engine(name, directory=tmp_path)
    found, usage = reopened.answer(PROMPT, max_tokens=max_tokens)
    assert found == expected
    assert usage.cached_tokens == len(PROMPT) - 1
    reopened.close()


@pytest.mark.parametrize("name", WITH_BOUNDARIES)
def test_one_that_is_damaged_changes_speed_only(name: str, tmp_path: Path) -> None:
    engine = Engine(name, directory=tmp_path)
    expected = engine.answer(PROMPT)[0]
    engine.close()
    (file,) = files_of(tmp_path)
    damaged = bytearray(file.read_bytes())
    damaged[-3] ^= 1
    file.write_bytes(damaged)
    reopened = Engine(name, directory=tmp_path)
    found, usage = reopened.answer(PROMPT)
    assert found == expected
    assert usage.cached_tokens == 256, "the block before"
    assert repeat(reopened).tokens == expected
    reopened.close()


@pytest.mark.parametrize("name", WITH_BOUNDARIES)
def test_one_that_was_used_is_as_young_as_its_row(name: str, tmp_path: Path) -> None:
    engine = Engine(name, directory=tmp_path)
    engine.answer(PROMPT)
    engine.close()
    reopened = Engine(name, directory=tmp_path)
    assert reopened.io is not None
    written = used_at(reopened)
    reopened.answer(PROMPT)
    io = reopened.io
    wait_until(lambda: io.is_idle)
    assert used_at(reopened)[Kind.OPENING] >= used_at(reopened)[Kind.BOUNDARY] - 1
    assert used_at(reopened)[Kind.OPENING] > written[Kind.OPENING]
    reopened.close()


def used_at(engine: Engine) -> dict[Kind, float]:
    assert engine.io is not None
    return {row.record.kind: row.used_at for row in engine.io.disk.index.oldest(1000)}


@pytest.mark.parametrize("name", KINDS)
def test_a_repeat_that_may_not_open_begins_before_its_last_token(name: str, tmp_path: Path) -> None:
    digits = wire.Grammar(kind=wire.GrammarKind.REGEX, param="p", source="[0-9]{4}")
    engine = Engine(name, directory=tmp_path)
    expected = engine.answer(PROMPT, grammar=digits)[0]
    again, usage = engine.answer(PROMPT, grammar=digits)
    engine.close()
    reopened = Engine(name, directory=tmp_path)
    restarted, usage_then = reopened.answer(PROMPT, grammar=digits)
    reopened.close()
    assert expected == again == restarted
    assert usage.cached_tokens == usage_then.cached_tokens == len(PROMPT) - 1


@pytest.mark.parametrize("name", WITH_BOUNDARIES)
def test_without_one_the_end_of_the_same_prompt_is_computed_again(name: str) -> None:
    engine = Engine(name)
    expected = ask(engine).tokens
    nodes = [one for one in engine.cache.nodes if Kind.OPENING in one.in_memory]
    engine.cache._records.remove([one.record(Kind.OPENING) for one in nodes])
    again = ask(engine)
    assert again.tokens == expected
    assert again.end.usage.cached_tokens == 256


def test_an_opening_has_a_name_of_its_own() -> None:
    chain = Chain(root_key({"model": "toy"}), token_bytes(PROMPT))
    names = [chain.opening(end).key for end in (1, 63, 64, 65, 128, 300)]
    blocks = [span.key for end in (1, 63, 64, 65, 128, 300) for span in chain.spans(end)]
    assert len({*names}) == len(names)
    assert not {*names} & {*blocks}
