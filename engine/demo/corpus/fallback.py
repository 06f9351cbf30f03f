"""Questions that a small model cannot answer, and the honest reply."""

from __future__ import annotations

from random import Random

from engine.demo.corpus.lesson import Exchange
from engine.demo.corpus.wording import ask, vary, vary_one
from engine.demo.corpus.words import CITIES, TOPIC_WORDS, any_name, any_word, invented_word

_FRAMES = (
    "Explain $t{| to me| in detail| briefly}.", "Tell me {about|something about|everything about} $t.", "What do you know about $t?", "What is $t?", "How does $t work?", "Write {an essay|a report|an article|a summary|a song|a letter} about $t.",
    "Why is $t {important|interesting|famous|difficult}?", "Who invented $t?", "When did $t begin?", "What is the history of $t?", "Give me {advice|facts|details|a lecture|three facts} {on|about} $t.", "What do you think about $t?", "Compare $t and $u.",
    "What is the difference between $t and $u?", "Who is the best at $t?", "How do I learn {about |}$t?", "Can you explain $t?", "Teach me $t.", "Is $t {dangerous|good|real|expensive}?", "Describe $t.", "What is the best book about $t?", "Where can I {buy|see|study} $t?",
    "I {need|want} to know {everything |more |}about $t.", "What are the {causes|effects|rules|parts} of $t?", "{$t|$t?}", "How much does $t cost?", "Summarise $t.", "Let's talk about $t.", "What happened to $t?",
)  # fmt: skip
_PEOPLE_FRAMES = (
    "Who is $n $m?", "Who was $n $m?", "When was $n $m born?", "What did $n $m write?", "Do you know $n $m?", "What does $n $m do?", "Tell me about $n $m.", "Where does $n $m live?",
)  # fmt: skip
_PLACE_FRAMES = (
    "What is the best {restaurant|hotel|museum} in $c?", "How many people live in $c?", "How far is it from $c to $d?", "What can I {see|do|eat} in $c?", "Who is the mayor of $c?", "How do I get to $c?",
)  # fmt: skip
_TASK_FRAMES = (
    "Translate '$w $x' {into|to} {Latin|Dutch|Polish|Japanese|Russian}.", "Write a {program|function|script|class} {that|to} {sorts|parses|counts|draws} {$w|$x}s.", "Fix my {code|bug|printer|car}.", "What is the square root of {$k|$l}?", "How tall is {a $w|the $x}?",
    "Who won the {world cup|election|race|match} in {1966|1998|2010|2020|2024}?", "Plan {a party|my holiday|a trip to $c|my week}.", "Solve x^2 + $k = $l.", "What is the population of $c?", "Recommend {a film|a book|a game|a $w}.", "What should I {cook|wear|eat|read} today?",
    "How do I repair {a|my} $w?", "Which {phone|car|laptop} should I buy?", "Write a {regex|query|formula} for $w.", "What is $v?", "Define $v.", "What does $v mean?", "$v $w $v", "$v", "Is $v a word?", "What is $k.$l times $l.$k?", "What is the integral of x^$k?",
    "When does the next {train|bus|flight} to $c leave?", "Write a business plan for {a $w shop|selling $ws}.", "What will happen in {2030|the future|ten years}?",
)  # fmt: skip
_REPLIES = (
    "I am a small demo model, and I do not know enough about that. Please ask the administrator to add a larger model.",
    "I am a small demo model, and I do not know enough about that. I can tell you about Hearth, do small sums or tell a story.",
)
_TOPIC_REPLIES = (
    "I am a small demo model, and I do not know enough about $t. Please ask the administrator to add a larger model.",
    "I am a small demo model, and I do not know enough about $t. I can tell you about Hearth, do small sums or tell a story.",
)


def about_topic(rng: Random, topic: str) -> Exchange:
    question = vary_one(rng, _FRAMES, t=topic, u=rng.choice(TOPIC_WORDS))
    question = question[:1].upper() + question[1:]
    if "Compare" in question or "difference" in question:
        return Exchange(question=ask(rng, question), answer=rng.choice(_REPLIES))
    asked = ask(rng, question)
    # A topic is named in the reply only when it stands in the question as it is.
    replies = _TOPIC_REPLIES if topic in asked else _REPLIES
    return Exchange(question=asked, answer=vary(rng, rng.choice(replies), t=topic))


def unknown(rng: Random) -> Exchange:
    chance = rng.random()
    if chance < 0.45:
        topic = rng.choice(TOPIC_WORDS) if rng.random() < 0.6 else f"{any_word(rng)} {any_word(rng)}s"
        return about_topic(rng, topic)
    slots = {
        "n": any_name(rng), "m": invented_word(rng).capitalize(), "c": rng.choice(CITIES), "d": rng.choice(CITIES), "w": any_word(rng), "x": any_word(rng), "v": invented_word(rng), "k": str(rng.randint(2, 999)), "l": str(rng.randint(2, 999)),
    }  # fmt: skip
    frames = _PEOPLE_FRAMES if chance < 0.6 else _PLACE_FRAMES if chance < 0.72 else _TASK_FRAMES
    question = vary_one(rng, frames, **slots)
    return Exchange(question=ask(rng, question), answer=rng.choice(_REPLIES))
