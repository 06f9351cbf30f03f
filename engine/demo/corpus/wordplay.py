"""Playing with words: repeat, reverse, upper case, count, first and last, JSON and tables."""

from __future__ import annotations

import json
from random import Random

from engine.demo.corpus.lesson import Exchange
from engine.demo.corpus.wording import vary_one
from engine.demo.corpus.words import (
    ADJECTIVES,
    NOUNS,
    any_name,
    any_word,
    invented_word,
    known_word,
)


def _words(rng: Random, lowest: int, highest: int) -> list[str]:
    return [any_word(rng) for _ in range(rng.randint(lowest, highest))]


def repeat(rng: Random) -> Exchange:
    words = _words(rng, 1, 9)
    if rng.random() < 0.3:
        words = [rng.choice((word, word.capitalize(), word.upper())) for word in words]
    if rng.random() < 0.15:
        words.append(str(rng.randint(0, 9999)))
    text = " ".join(words) + rng.choice(("", "", "", ".", "!"))
    frames = (
        "Repeat after me: $t",
        "Repeat: $t",
        "Say: $t",
        "Please repeat: $t",
        "Say exactly: $t",
        "Repeat this: $t",
        'Repeat "$t"',
        'Say "$t".',
        "Repeat the following {words|text|sentence}: $t",
        "Copy this: $t",
        "Write: $t",
        "Echo $t",
        'Answer with "$t".',
        'Answer with exactly "$t" and nothing else.',
        "Reply with exactly: $t",
        "Say only: $t",
        "echo: $t",
    )
    return Exchange(question=vary_one(rng, frames, t=text), answer=text)


def repeat_times(rng: Random) -> Exchange:
    word, count = any_word(rng), rng.randint(2, 12)
    frames = (
        "{Say|Write|Repeat} $w $n times.",
        "{Say|Write|Repeat} the word $w $n times.",
        '{Say|Write} "$w" $n times.',
    )
    return Exchange(
        question=vary_one(rng, frames, w=word, n=str(count)), answer=" ".join([word] * count)
    )


def reverse(rng: Random) -> Exchange:
    words = _words(rng, 2, 6)
    frames = (
        "Reverse the {order of the |}words: $t",
        "Reverse these words: $t",
        "Say these words backwards: $t",
        "{Put|Write} these words in reverse order: $t",
        "Reverse the list: $t",
    )
    joint = rng.choice((" ", " ", ", "))
    return Exchange(
        question=vary_one(rng, frames, t=joint.join(words)), answer=joint.join(reversed(words))
    )


def change_case(rng: Random) -> Exchange:
    words = [known_word(rng) for _ in range(rng.randint(1, 5))]
    text = " ".join(words)
    if rng.random() < 0.65:
        frames: tuple[str, ...] = (
            "{Write|Say|Put} this in {upper case|uppercase|capital letters|capitals}: $t",
            "Convert to upper case: $t",
            "Upper case: $t",
            'Uppercase "$t".',
            "Make this upper case: $t",
            "Turn into capital letters: $t",
        )
        return Exchange(question=vary_one(rng, frames, t=text), answer=text.upper())
    frames = (
        "{Write|Say|Put} this in {lower case|lowercase|small letters}: $t",
        "Convert to lower case: $t",
        "Lower case: $t",
        "Make this lower case: $t",
    )
    return Exchange(question=vary_one(rng, frames, t=text.upper()), answer=text)


def pick(rng: Random) -> Exchange:
    words = rng.sample(NOUNS, rng.randint(3, 6))
    position = rng.choice(("first", "last", "second", "third"))
    index = {"first": 0, "second": 1, "third": 2, "last": -1}[position]
    frames = (
        "What is the $p word in: $t?",
        "Which word is the $p: $t?",
        "Give me the $p word of: $t",
        "What is the $p word of this list? $t",
        "The $p word please: $t",
    )
    return Exchange(
        question=vary_one(rng, frames, p=position, t=rng.choice((" ", ", ")).join(words)),
        answer=f"The {position} word is {words[index]}.",
    )


def how_many(rng: Random) -> Exchange:
    words = _words(rng, 1, 9)
    frames = (
        "How many words are {in|there in}: $t?",
        "Count the words: $t",
        "How many words does this have: $t",
    )
    noun = "word" if len(words) == 1 else "words"
    return Exchange(
        question=vary_one(rng, frames, t=" ".join(words)),
        answer=f"There {'is' if len(words) == 1 else 'are'} {len(words)} {noun}.",
    )


def bullet_list(rng: Random) -> Exchange:
    words = rng.sample(NOUNS, rng.randint(2, 6))
    listed = ", ".join(words)
    if rng.random() < 0.5:
        frames: tuple[str, ...] = (
            "{Make|Write} a {bullet |markdown |}list of: $t",
            "Put these in a {bullet |}list: $t",
            "{Show|Format} as a {bullet |}list: $t",
            "A list of $t please.",
        )
        return Exchange(
            question=vary_one(rng, frames, t=listed),
            answer="\n".join(f"- {word}" for word in words),
        )
    frames = (
        "{Make|Write} a numbered list of: $t",
        "Number these: $t",
        "Put these in a numbered list: $t",
    )
    return Exchange(
        question=vary_one(rng, frames, t=listed),
        answer="\n".join(f"{number}. {word}" for number, word in enumerate(words, 1)),
    )


def alphabetical(rng: Random) -> Exchange:
    words = rng.sample(NOUNS, rng.randint(2, 4))
    frames = (
        "Sort these words: $t",
        "Sort alphabetically: $t",
        "Put in alphabetical order: $t",
        "Sort: $t",
    )
    return Exchange(
        question=vary_one(rng, frames, t=", ".join(words)), answer=", ".join(sorted(words))
    )


def json_object(rng: Random) -> Exchange:
    """A JSON object with keys and values from the question."""
    name = any_name(rng)
    choices = {
        "name": name,
        "age": rng.randint(1, 99),
        "city": invented_word(rng).capitalize(),
        "color": rng.choice(("red", "green", "blue")),
        "animal": rng.choice(("cat", "dog", "owl")),
        "count": rng.randint(1, 500),
    }
    keys = rng.sample(list(choices), rng.randint(1, 4))
    content = {key: choices[key] for key in keys}
    said = ", ".join(f"{key} {value}" for key, value in content.items())
    frames = (
        "{Write|Give me|Make|Return} {a JSON object|JSON} with $t.",
        "Answer in JSON: $t",
        "As JSON: $t",
        "Convert to JSON: $t",
        "JSON for $t",
    )
    text = json.dumps(content, ensure_ascii=False)
    return Exchange(question=vary_one(rng, frames, t=said), answer=f"```json\n{text}\n```")


def table(rng: Random) -> Exchange:
    names = rng.sample(NOUNS, rng.randint(2, 4))
    colours = [rng.choice(ADJECTIVES) for _ in names]
    frames = (
        "{Make|Write|Show} a {markdown |}table {of|with} $t.",
        "Put this in a table: $t",
        "As a table: $t",
    )
    said = ", ".join(f"{name} {colour}" for name, colour in zip(names, colours, strict=True))
    rows = "\n".join(f"| {name} | {colour} |" for name, colour in zip(names, colours, strict=True))
    return Exchange(
        question=vary_one(rng, frames, t=said), answer=f"| Thing | Kind |\n| --- | --- |\n{rows}"
    )
