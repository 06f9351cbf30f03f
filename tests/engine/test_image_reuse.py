"""What is kept of prompts with images: found where the same is shown, never where another is."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from engine import wire
from engine.core.blocks import Chain, token_bytes
from engine.core.images import named_tokens
from engine.warmth import Warmth
from tests.engine.image_prompts import Prompt, picture, prompt_of
from tests.engine.test_prefix_reuse import Engine
from tests.fakes import make_work
from tests.tiny_models import SEEING

QUESTION, IMAGE_TOKENS = 40, 16


def shown(seed: int, *, after: int = 250, question: int = 300) -> Prompt:
    """An image that lies across the end of a block, and a question."""
    return prompt_of(after, picture(seed), question)


def ask(engine: Engine, prompt: Prompt, **wishes: Any) -> tuple[list[int], wire.Usage]:
    fields = dict(prompt.fields)
    token_ids = list(fields.pop("prompt_token_ids"))
    return engine.answer(token_ids, **fields, **wishes)


@pytest.fixture(scope="module")
def alone() -> Any:
    """What is answered without anything kept."""
    known: dict[str, list[int]] = {}

    def ask_alone(prompt: Prompt) -> list[int]:
        key = repr((prompt.token_ids, prompt.fields["images"]))
        if key not in known:
            known[key] = ask(Engine(SEEING), prompt)[0]
        return known[key]

    return ask_alone


def test_the_same_image_is_found_again(alone: Any) -> None:
    engine = Engine(SEEING)
    first, usage = ask(engine, shown(1))
    assert usage.cached_tokens == 0
    again, usage = ask(engine, shown(1))
    assert again == first == alone(shown(1))
    assert usage.cached_tokens == len(shown(1).token_ids) - 1


def test_another_image_with_the_same_text_shares_only_what_comes_before(alone: Any) -> None:
    engine = Engine(SEEING)
    ask(engine, shown(1))
    answer, usage = ask(engine, shown(2))
    assert answer == alone(shown(2)) != alone(shown(1))
    assert usage.cached_tokens <= 250


def test_an_image_in_another_conversation_of_the_same_person_is_found(alone: Any) -> None:
    engine = Engine(SEEING)
    beginning = (250, picture(1), 260)
    ask(engine, prompt_of(*beginning, [7] * 40))
    other = prompt_of(*beginning, [9] * 40)
    answer, usage = ask(engine, other)
    assert answer == alone(other)
    assert usage.cached_tokens >= 512
    _, usage = ask(engine, other, tenant="bob")
    assert usage.cached_tokens == 0


def test_a_second_turn_begins_behind_the_image(alone: Any) -> None:
    engine = Engine(SEEING)
    first, _ = ask(engine, shown(1))
    second = prompt_of(250, picture(1), 300, [*first, *range(50, 90)], picture(3), 20)
    assert second.token_ids[: len(shown(1).token_ids)] == shown(1).token_ids
    answer, usage = ask(engine, second)
    assert answer == alone(second)
    assert usage.cached_tokens >= len(shown(1).token_ids)


def test_the_disk_serves_images_after_a_restart(tmp_path: Path, alone: Any) -> None:
    engine = Engine(SEEING, directory=tmp_path)
    ask(engine, shown(1))
    engine.close()
    reopened = Engine(SEEING, directory=tmp_path)
    again, usage = ask(reopened, shown(1))
    assert again == alone(shown(1))
    assert usage.cached_tokens == len(shown(1).token_ids) - 1
    assert reopened.cache.statistics.models[SEEING].hit_disk_tokens > 0
    other, usage = ask(reopened, shown(2))
    assert other == alone(shown(2))
    assert usage.cached_tokens <= 250
    reopened.close()


def test_rows_taken_away_within_a_long_prompt_come_back_right(alone: Any) -> None:
    engine = Engine(SEEING)
    prompt = prompt_of(200, picture(1), 120, picture(2), 200, picture(3), 150)
    fields = dict(prompt.fields)
    request_id = engine.start(list(fields.pop("prompt_token_ids")), **fields)
    while not (live := engine.handle.get_live(request_id)).sequence.computed_tokens:
        engine.handle.turn()
    engine.handle.preempt(live)
    assert engine.run()[request_id][0] == alone(prompt)


def test_rows_are_copied_where_no_image_is_cut(alone: Any) -> None:
    """The grid's boundaries lie within images here, and so does where two prompts part."""
    engine = Engine(SEEING)
    prompts = [
        prompt_of(250, picture(1), 236, picture(2), 244, picture(seed), 40) for seed in (3, 4)
    ]
    for prompt in prompts:
        answer, usage = ask(engine, prompt, boundaries=(255, 260, 510))
        assert answer == alone(prompt)
    assert usage.cached_tokens >= 250


def test_no_image_is_named_like_a_token_or_another_image() -> None:
    names = [named_tokens(make_work("a", **shown(seed).fields)) for seed in (1, 2)]
    for one in names:
        assert min(one[250:266]) >= 2**31 > max(*one[:250], *one[266:])
    assert not set(names[0][250:266]) & set(names[1][250:266])


def test_a_waiting_prompt_is_warm_only_with_its_own_image() -> None:
    engine = Engine(SEEING)
    ask(engine, shown(1), tenant="user:1")
    warmth = Warmth(engine.cache)
    tokens = {
        seed: warmth.weigh(make_work("a", model=SEEING, **shown(seed).fields))() for seed in (1, 2)
    }
    assert tokens == {1: 512, 2: 0}


def test_a_chain_without_images_is_what_it_was() -> None:
    work = make_work("a", prompt=range(300))
    assert (
        Chain(b"r", token_bytes(named_tokens(work))).blocks
        == Chain(b"r", token_bytes(range(300))).blocks
    )
