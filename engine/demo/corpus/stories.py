"""Stories, poems and long explanations, put together from parts that fit one another."""

from __future__ import annotations

from random import Random

from engine.demo.corpus.lesson import Exchange
from engine.demo.corpus.wording import ask, vary, vary_one
from engine.demo.corpus.words import ADJECTIVES, NOUNS, any_name

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
_LIGHTHOUSE = "a lighthouse"


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
    name, place, friend = (
        any_name(rng) if rng.random() < 0.3 else "Mara",
        rng.choice(_PLACES),
        rng.choice(_FRIENDS),
    )
    trouble, detail, word = rng.choice(_TROUBLES)
    article = "an" if thing[0] in "aeiou" else "a"
    paragraphs = [
        f"Once upon a time there was {article} {thing} {place}. It was not the largest {thing} in the world, nor the most beautiful one, but a girl called {name} loved it more than anything else. Every morning she came to see it, and every evening she said good night to it.",
        f"One day {trouble}. {detail}. The people closed their doors and waited. Only {name} could not sleep, for she thought of the {thing} out there, all alone.",
        f'So she took her lamp and her warm coat and went out. On the way she met {friend}. "Where are you going in such a night?" asked the stranger. "To the {thing}," said {name}. "It needs somebody who stays." - "Then I will come with you," said the stranger, and they went on together.',
        f"The way was long, and more than once they lost it. But the little lamp did not go out. When they were tired, they told each other stories, and when they were afraid, they sang. At last they saw the {thing} before them, dark and still.",
        f"{name} put her hand on it and sat down beside it. They lit a small fire, and its light fell on the {thing} until it shone like gold. From far away the people of the village saw the light. One after another they opened their doors, took their own lamps and followed it.",
        f'When the sun came up, the {word} was over. Around the {thing} stood the whole village, tired and happy, and everybody shared bread and tea. "A small light is enough," said {name}, "if somebody stays awake with it."',
        f"From that day on, the people lit a fire beside the {thing} every year, in the longest night. And if you pass there, you may still see the light, and hear somebody tell this story.",
    ]
    return "\n\n".join(paragraphs)


_FIRE = (
    "The fire is small, the night is deep,\nThe embers glow while others sleep.\nIt warms the hands, it lights the wall,\nA quiet friend to one and all.",
    "A little flame, a golden light,\nIt dances through the winter night.\nIt sings of wood, it sings of home,\nAnd none who sit here are alone.",
)
_POEM_LINES = (
    "The $t was there when day began,\nIt asked for nothing, made no plan.\nIt caught the light, it kept the dew,\nAnd every morning it was new.",
    "I saw the $t in morning light,\nIt stood so quiet, clear and bright.\nThe evening came, the wind was low,\nAnd still I did not want to go.",
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
            "{a|the|a warm|a small|a burning|the old} {fire|fire|fire|hearth|flame|fireplace|campfire}",
        )
        return Exchange(
            question=ask(rng, vary_one(rng, _POEM_FRAMES, t=thing)), answer=rng.choice(_FIRE)
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
        return Exchange(question=ask(rng, vary_one(rng, frames)), answer=rng.choice(_FIRE))
    thing = rng.choice(NOUNS)
    question = vary_one(rng, _POEM_FRAMES, t=vary(rng, "{a|the|my}") + " " + thing)
    return Exchange(question=ask_plainly(rng, question), answer=vary_one(rng, _POEM_LINES, t=thing))
