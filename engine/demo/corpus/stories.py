"""Stories, poems and long explanations, put together from parts that fit one another."""

from __future__ import annotations

import tomllib
from pathlib import Path
from random import Random
from typing import Any

from engine.demo.corpus.lesson import Exchange
from engine.demo.corpus.wording import ask, vary, vary_one
from engine.demo.corpus.words import ADJECTIVES, NOUNS, any_name

_TEXTS: dict[str, Any] = tomllib.loads(
    (Path(__file__).with_name("text") / "stories.toml").read_text()
)
_STORY_FRAMES = (
    "Tell me a {story|tale} about $t.",
    "Tell a {short |long |}story about $t.",
    "Write {me |}a {story|tale|short story|long story|fairy tale} about $t.",
    "Can you tell {me |}a story about $t?",
    "I want {to hear |}a story about $t.",
    "Story about $t{| please}.",
    "Make up a story about $t.",
    "Invent a story about $t.",
    "A story about $t, please.",
    "{Please tell|Please write} a story {about|with} $t.",
)
_PLAIN_STORY = (
    "Tell me a {long |short |}story.",
    "Tell a story.",
    "Write a {long |very long |}story.",
    "Can you tell me a story?",
    "Story please.",
    "Tell me a bedtime story.",
    "I want to hear a story.",
    "Do you know a story?",
    "Tell me something long.",
    "Write several paragraphs.",
    "Write a long text.",
)
_PLACES = (
    "by the sea",
    "at the edge of a forest",
    "in a small village",
    "on a green hill",
    "beside a slow river",
    "in the mountains",
    "on a quiet island",
    "at the end of a long road",
)
_TROUBLES = (
    (
        "a great storm came over the land",
        "The wind tore at the roofs, and the rain did not stop for three days",
        "storm",
    ),
    (
        "a thick fog covered everything",
        "Nobody could see the road, and even the birds were silent",
        "fog",
    ),
    (
        "the winter came early",
        "Snow lay on every roof, and the wood for the fire was nearly gone",
        "cold",
    ),
    (
        "all the lamps went out",
        "The night was so dark that nobody dared to leave the house",
        "dark",
    ),
)
_FRIENDS = (
    "an old fox",
    "a small owl",
    "a young sailor",
    "a clever crow",
    "a kind baker",
    "a grey cat",
    "a shy boy",
    "a tired traveller",
)


def story(rng: Random) -> Exchange:
    """Five to eight paragraphs about one thing; the same thing gives much the same story."""
    if rng.random() < 0.3:
        thing, question = "lighthouse", vary_one(rng, _PLAIN_STORY)
        if rng.random() < 0.5:
            question = vary_one(
                rng, _STORY_FRAMES, t=vary(rng, "{a|the|an old|a little} lighthouse")
            )
    else:
        thing = rng.choice(NOUNS)
        article = "an" if thing[0] in "aeiou" else "a"
        described = f"{article} {thing}" if rng.random() < 0.7 else f"the {thing}"
        if rng.random() < 0.2:
            described = f"the {rng.choice(ADJECTIVES)} {thing}"
        question = vary_one(rng, _STORY_FRAMES, t=described)
    return Exchange(question=ask_plainly(rng, question), answer=tell(rng, thing))


def ask_plainly(rng: Random, question: str) -> str:
    """Without typing mistakes: the thing must be read to be told about."""
    asked = ask(rng, question)
    return question if rng.random() < 0.5 else asked


def tell(rng: Random, thing: str) -> str:
    trouble, detail, word = rng.choice(_TROUBLES)
    return vary(
        rng,
        _TEXTS["story"],
        article="an" if thing[0] in "aeiou" else "a",
        thing=thing,
        place=rng.choice(_PLACES),
        name=any_name(rng) if rng.random() < 0.3 else "Mara",
        friend=rng.choice(_FRIENDS),
        trouble=trouble,
        detail=detail,
        word=word,
    )


_POEM_FRAMES = (
    "Write {me |}a {short |little |small |}poem about $t.",
    "Write {me |}a {short |}poem on $t.",
    "{Compose|Make|Give me} a poem about $t.",
    "Can you write a {short |}poem about $t?",
    "A {short |}poem about $t{| please}.",
    "Poem about $t",
    "I {want|would like} a poem about $t.",
    "Write {some|four} {verses|lines} about $t.",
    "Tell me a poem about $t.",
)


def poem(rng: Random) -> Exchange:
    chance = rng.random()
    if chance < 0.4:
        thing = vary(
            rng,
            "{a|the|a warm|a small|the old} {fire|fire|fire|hearth|flame|fireplace|campfire}",
        )
        return Exchange(
            question=ask(rng, vary_one(rng, _POEM_FRAMES, t=thing)),
            answer=rng.choice(_TEXTS["fire_poems"]),
        )
    if chance < 0.5:
        frames = (
            "Write a {short |}poem.",
            "Can you write poems?",
            "Give me a poem.",
            "Do you know a poem?",
            "A poem please.",
            "Tell me a poem.",
            "Say a poem.",
        )
        return Exchange(
            question=ask(rng, vary_one(rng, frames)), answer=rng.choice(_TEXTS["fire_poems"])
        )
    thing = rng.choice(NOUNS)
    question = vary_one(rng, _POEM_FRAMES, t=vary(rng, "{a|the|my}") + " " + thing)
    return Exchange(
        question=ask_plainly(rng, question), answer=vary_one(rng, _TEXTS["poems"], thing=thing)
    )
