"""Questions that a small model cannot answer, and the honest reply."""

from __future__ import annotations

from random import Random

from engine.demo.corpus.lesson import Exchange
from engine.demo.corpus.paraphrase import paraphrase
from engine.demo.corpus.wording import ask, lines, vary, vary_one
from engine.demo.corpus.words import CITIES, DEEDS, SUBJECTS, any_name, any_word, invented_word

_SUBJECT_FRAMES = lines("""
    Explain $t{| to me| in detail| briefly}.
    Explain the {theory|idea|history|meaning|science|basics} {of|behind} $t.
    Tell me {about|something about|everything about} $t.
    What do you know about $t?
    What is $t?
    What are $t?
    How does $t work?
    Write {an essay|a report|an article|a summary|a song|a letter|a blog post|a speech} about $t.
    Why is $t {important|interesting|famous|difficult}?
    Who invented $t?
    When did $t begin?
    What is the history of $t?
    Give me {advice|facts|details|a lecture|three facts|tips} {on|about} $t.
    What do you think about $t?
    Who is the best at $t?
    How do I learn {about |}$t?
    Can you explain $t?
    Teach me $t.
    Is $t {dangerous|good|real|expensive}?
    Describe $t.
    What is the best book about $t?
    Where can I {buy|see|study} $t?
    I {need|want} to know {everything |more |}about $t.
    What are the {causes|effects|rules|parts|dangers|kinds|lyrics|symptoms|laws} of $t?
    {$t|$t?}
    How much does $t cost?
    Summarise $t.
    Let's talk about $t.
    What happened to $t?
    What causes $t?
    What is the {plot|price|size|weight|colour|temperature|age|formula|name} of $t?
    Which {vitamins|minerals|kinds|people|animals|countries} are in $t?
    Prove {the theorem of|something about} $t.
    How do I {start|stop|deal} with $t?
    Is there {a cure|a rule|a law|a trick} for $t?
    My {friend|teacher|boss} asks about $t.
    I have {an exam|a lecture} on $t tomorrow.
    Which is better, $t or $t?
    Do you {know about|understand} $t?
    Are you good at $t?
    Can you help me with $t?
""")
_PAIR_FRAMES = lines("""
    Compare $t and $u.
    What is the difference between $t and $u?
    How are $t and $u related?
    Which is better, $t or $u?
""")
_PEOPLE_FRAMES = lines("""
    Who {is|was} $n $m?
    When was $n $m born?
    What did $n $m {write|invent|discover|paint|say}?
    Do you know $n $m?
    What does $n $m do?
    Tell me about $n $m.
    Where does $n $m live?
    Who {painted|wrote|built|invented|discovered|composed|directed} {the|a} $a $w?
    Who {painted|wrote|built|invented|discovered|composed} $m?
    How {old|tall|rich} is $n $m?
    Is $n $m {alive|married|famous}?
    Who won {the|a} $w {award|prize|match|game} {last year|this year|in 19$k}?
    Which {team|country|player} won {the $w cup|the final|last year}?
""")
_PLACE_FRAMES = lines("""
    What is the {best|oldest|cheapest} {restaurant|hotel|museum} in $c?
    How many people live in $c?
    How far {is it|away is it} from $c to $d?
    How far away is {the moon|the sun|$c|the next village}?
    What can I {see|do|eat} in $c?
    Who is the mayor of $c?
    How do I get to $c?
    What is the capital of $v?
    What is the {population|currency|area|language|flag|GDP} of {$c|$v|France|Belgium|Japan}?
    When does the next {train|bus|flight} to $c leave?
    Plan {a party|my holiday|a trip to $c|my week}.
""")
_TASK_FRAMES = lines("""
    Translate {'$w $x'|this $w|this text|my $w} {to|into} {Latin|Dutch|Polish|Japanese|Portuguese}.
    Write a {program|function|class} {that|to} {sorts|parses|counts|draws} {$w|$x}s.
    Fix my {code|bug|printer|car|$w}.
    What is the square root of $k?
    What is the {boiling|melting|highest|freezing} {point|temperature} of {$w|$v|iron|gold}?
    How {tall|heavy|old|fast|deep} is {a $w|the $x}?
    Recommend {a film|a book|a game|a $w}.
    What should I {cook|wear|eat|read|buy|name my $w} today?
    How do I $e {a|my|the} $w?
    How do you $e {a|the} $w?
    {Please |}$e {my|the|a} $w.
    Can you $e {a|my} $w?
    Why does {my|the} $w $y {so much|at night|all day}?
    Which {phone|car|laptop|$w} should I buy?
    Which $w is the {best|largest|fastest|oldest}?
    Write a {regex|query|formula|cover letter|CV} for $w.
    What is $v?
    Define $v.
    What does $v mean?
    $v $w $v
    $v
    $v $v
    {$v|$w} $v $v $x
    Is $v a word?
    What is the integral of x^$k?
    Solve x^2 + $k = $l.
    What is {sin|cos|log|the cube} of $k?
    Write a business plan for {a $w shop|selling $ws}.
    What will happen in {2030|the future|ten years}?
    Is the $w {larger|older|better} than the $x?
    What is inside a $w?
    What {kind|sort} of $w is {a|the} $v?
    Give me {some |}{stock|cooking|travel|fashion|$w} tips.
    How many $ws {are there|fit} in {the world|a $x}?
    Where {is|was} the $a $w?
    When did the $w $x?
    Why is the $w $a?
""")
_MAY_NAME_IT = (
    "Please ask the administrator to add a larger model.",
    "I can tell you about Hearth, do small sums or tell a story.",
)


def about_topic(rng: Random, topic: str) -> Exchange:
    """A question about a subject; the reply names it where it stands in the question as it is."""
    question = paraphrase(rng, vary_one(rng, _SUBJECT_FRAMES, t=topic))
    asked = ask(rng, question[:1].upper() + question[1:])
    return Exchange(question=asked, answer=_reply(rng, topic if topic in asked else "that"))


def unknown(rng: Random) -> Exchange:
    if rng.random() < 0.45:
        known = rng.random() < 0.6
        return about_topic(
            rng, rng.choice(SUBJECTS) if known else f"{any_word(rng)} {any_word(rng)}s"
        )
    frames = rng.choices((_PAIR_FRAMES, _PEOPLE_FRAMES, _PLACE_FRAMES, _TASK_FRAMES), (1, 3, 3, 6))[
        0
    ]
    question = paraphrase(rng, vary_one(rng, frames, **_slots(rng)))
    asked = ask(rng, question[:1].upper() + question[1:])
    return Exchange(question=asked, answer=_reply(rng, "that"))


def _reply(rng: Random, topic: str) -> str:
    start = f"I am a small demo model, and I do not know enough about {topic}."
    return f"{start} {rng.choice(_MAY_NAME_IT)}"


def _slots(rng: Random) -> dict[str, str]:
    return {
        "n": any_name(rng),
        "m": invented_word(rng).capitalize(),
        "c": rng.choice(CITIES),
        "d": rng.choice(CITIES),
        "w": any_word(rng),
        "x": any_word(rng),
        "y": vary(rng, "{break|stop|smell|hurt|jump|shake}"),
        "a": vary(rng, "{red|old|largest|oldest|famous|first|broken|last}"),
        "v": rng.choice((invented_word(rng), invented_word(rng).capitalize(), any_word(rng))),
        "t": rng.choice(SUBJECTS),
        "u": rng.choice(SUBJECTS),
        "e": rng.choice(DEEDS),
        "k": str(rng.randint(2, 999)),
        "l": str(rng.randint(2, 999)),
    }
