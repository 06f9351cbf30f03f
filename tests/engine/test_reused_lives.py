"""Repeats on real models with memory and disk, at random: cancelled, taken away, restarted, their
copies lost. Each answer is what it is alone, however its row began."""

from __future__ import annotations

import functools
import random
from collections.abc import Callable
from pathlib import Path

import pytest

from engine import wire
from engine.cache.record import Kind
from engine.handle import Events
from tests.engine.test_prefix_reuse import GREEDY, KINDS, Engine, prompt_of, tokens_of

NUM_ACTS = 200
MOST_TOKENS = 6
LENGTHS = (33, 64, 65, 128, 255, 256, 257, 300, 320, 512, 513, 640)  # around windows and blocks
DIGITS = wire.Grammar(kind=wire.GrammarKind.REGEX, param="p", source="[0-9]{4}")
SEEDED = wire.Sampling(seed=7, temperature=0.9, top_p=0.9)

Question = tuple[int, bool, bool]  # tokens, seeded, held by a grammar


class Lives:
    """An engine and all that it was asked. A restart waits for what runs."""

    def __init__(
        self, name: str, directory: Path, chooser: random.Random, *, runs_ahead: bool
    ) -> None:
        self._name, self._directory, self._chooser = name, directory, chooser
        self._runs_ahead = runs_ahead
        self._running: dict[str, tuple[Question, int, list[int]]] = {}
        self.told: list[tuple[Question, int, list[int], bool]] = []  # bool: to its end
        self.engine = self._open()

    def _open(self) -> Engine:
        engine = Engine(self._name, directory=self._directory)
        engine.handle._runner._runs_ahead = self._runs_ahead
        return engine

    def act(self) -> None:
        acts: dict[Callable[[], None], int] = {
            self._ask: 35,
            self._turn: 45,
            self._cancel: 4,
            self._preempt: 6,
            self._lose_memory: 3,
            self._lose_opening: 4,
            self.restart: 3,
        }
        self._chooser.choices([*acts], weights=[*acts.values()])[0]()

    def restart(self) -> None:
        while not self.engine.handle.is_idle:
            self._turn()
        assert self.engine.handle.row_bytes == 0
        self.engine.close()
        assert not self.engine.cache.statistics.models[self._name].misses["fault"]
        self.engine = self._open()

    def _ask(self) -> None:
        if len(self._running) >= 5:
            return
        choose = self._chooser.choice
        question = (choose(LENGTHS), choose([False, True]), choose([False] * 5 + [True]))
        max_tokens = choose([1, 2, MOST_TOKENS])
        request_id = start(self.engine, question, max_tokens, tenant=choose(["ann", "bob"]))
        self._running[request_id] = question, max_tokens, []

    def _turn(self) -> None:
        if self._chooser.random() < 0.5:
            for request_id in self.engine.cache.take_fetched():
                self._note(self.engine.handle.fetched(request_id))
        self._note(self.engine.handle.turn())
        self.engine.handle.persist()

    def _cancel(self) -> None:
        if self._running:
            self._note(self.engine.handle.cancel(self._chooser.choice([*self._running])))

    def _preempt(self) -> None:
        if (live := self.engine.handle.newest_row) is not None:
            self._note(self.engine.handle.preempt(live))

    def _lose_memory(self) -> None:
        self.engine.cache.shrink(self._chooser.choice([0, 200_000]))

    def _lose_opening(self) -> None:
        nodes = [one for one in self.engine.cache.nodes if one.has(Kind.OPENING)]
        if nodes:
            record = self._chooser.choice(nodes).record(Kind.OPENING)
            self.engine.cache._records.remove([record])

    def _note(self, events: Events) -> None:
        for request_id, event in events:
            question, max_tokens, tokens = self._running[request_id]
            tokens += tokens_of([(request_id, event)])
            assert not isinstance(event, wire.Failed), event
            if isinstance(event, wire.Finished):
                is_whole = event.reason is not wire.FinishReason.CANCELLED
                self.told.append((question, max_tokens, tokens, is_whole))
                del self._running[request_id]


def start(engine: Engine, question: Question, max_tokens: int, *, tenant: str = "ann") -> str:
    length, is_seeded, is_held = question
    return engine.start(
        prompt_of(640)[:length],
        tenant=tenant,
        max_tokens=max_tokens,
        sampling=SEEDED if is_seeded else GREEDY,
        grammar=DIGITS if is_held else None,
    )


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize("name", KINDS)
def test_however_a_row_began_its_answer_is_the_same(name: str, seed: int, tmp_path: Path) -> None:
    lives = Lives(name, tmp_path, random.Random(f"{name} {seed}"), runs_ahead=bool(seed))
    for _ in range(NUM_ACTS):
        lives.act()
    lives.restart()
    lives.engine.close()
    alone = Engine(name)

    @functools.cache
    def expected(question: Question) -> list[int]:
        alone.cache.clear(name)
        request_id = start(alone, question, MOST_TOKENS)
        return alone.run()[request_id][0]

    assert len(lives.told) > 15
    for question, max_tokens, tokens, is_whole in lives.told:
        wanted = expected(question)[:max_tokens]
        assert tokens == (wanted if is_whole else wanted[: len(tokens)]), question
