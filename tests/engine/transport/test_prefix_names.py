"""By which names the prefixes of a prompt are remembered and found again."""

from __future__ import annotations

import msgspec

from engine.transport.prefix_names import Prefixes, prefixes_of
from tests.makers import make_generate, make_work

PROMPT = tuple(range(100_000))


def prefixes(num_tokens: int, **changes: object) -> Prefixes:
    work = make_work(make_generate("a", **changes))
    return prefixes_of(msgspec.structs.replace(work, prompt_token_ids=PROMPT[:num_tokens]))


def tokens(names: tuple[str, ...]) -> list[int]:
    return [int(name.partition("-")[0]) for name in names]


def test_few_are_kept_and_the_last_whole_block_is_one() -> None:
    assert tokens(prefixes(5000).kept) == [1024, 1536, 2048, 3072, 4096, 4864]
    assert len(prefixes(100_000).kept) < 16


def test_the_next_turn_finds_the_last_one_of_the_turn_before() -> None:
    before, after = prefixes(20_000), prefixes(26_000)
    assert next(name for name in after.looked_up if name in before.kept) == before.kept[-1]


def test_a_conversation_that_begins_alike_finds_most_of_what_they_share() -> None:
    other = msgspec.structs.replace(
        make_work(make_generate("b")), prompt_token_ids=PROMPT[:9000] + PROMPT[:3000]
    )
    found = [one for one in prefixes_of(other).looked_up if one in prefixes(20_000).kept]
    assert tokens((found[0],)) == [8192]


def test_they_are_looked_up_longest_first() -> None:
    looked_up = tokens(prefixes(50_000).looked_up)
    assert looked_up == sorted(looked_up, reverse=True)
    assert len(looked_up) < 50


def test_nobody_elses_and_no_other_models_are_met() -> None:
    own = {*prefixes(5000).kept}
    assert own.isdisjoint(prefixes(5000, tenant="user:2").kept)
    assert own.isdisjoint(prefixes(5000, model="other").kept)


def test_a_prompt_without_a_whole_block_has_no_names() -> None:
    assert prefixes(100) == Prefixes(kept=(), looked_up=())
