"""Says the same question in other words: synonyms, fillers, lead-ins and left-out small words.

Words that begin with `$` are slots and stay as they are. It does not know what is asked.
"""

from __future__ import annotations

import re
from random import Random

from engine.demo.corpus.wording import lines, vary_one

_SYNONYM_RATE = 0.3
_GROUPS = lines("""
    get|obtain|receive|have
    make|create|generate
    how do i|how can i|how would i|how could i|how might i|what do i do to|what is the way to
    how do you|how can one|how would you
    what is|what's|what exactly is|what would be|what does one mean by
    show me|give me|let me see|please show me|i'd like to see|could you show me
    tell me|explain to me|can you tell me|could you tell me|let me know|i want to know
    answer|reply|response
    answers|replies|responses
    question|request|message
    crashes|dies|breaks down|goes down|falls over|is killed|suddenly stops
    crash|failure|breakdown
    lose|miss
    lost|gone
    happens|will happen|would happen
    if|when|in case|suppose
    wait|be patient
    big|large|huge
    larger|bigger|better|stronger
    fast|quick|speedy
    faster|quicker
    slow|sluggish
    start|launch|run|bring up
    stop|halt|end
    install|set up|deploy
    use|work with|make use of
    call the api|query the api|reach the api|use the api
    change|modify|set|adjust
    delete|remove|throw away
    find|look up|locate|see
    see|view|look at
    machine|computer|laptop|server
    page|web page|site
    browser|web browser
    script|program|app|code
    example|sample|snippet
    people|users|persons
    everybody|everyone
    team|group|company
    administrator|admin
    model|language model
    need|require
    want to|would like to|wish to|wanna
    can i|may i|could i|am i able to|is it possible to
    can you|could you|are you able to|would you|will you
    possible|allowed
    explain|describe|clarify
    works|functions
    work|function
    why|for what reason|how come
    many|lots of
    kept|stored|saved
    private|confidential
    hello|hi|hey
    please|kindly
    good|useful|helpful
    a little|a bit
""")
_LEADS = lines("""
    I just installed Hearth.
    I'm new here.
    I am a beginner.
    My boss wants to know:
    A colleague asked me:
    In plain terms,
    In short:
    Simply put,
    By the way,
    Mind telling me this?
    Excuse me,
    Help me out:
    One thing I don't get:
    I was wondering:
    Maybe a silly question:
    For my notes:
    Good day,
    Just to be sure,
    To begin with,
    First of all,
    Next question:
    Something else:
    Thanks for that.
    Let me ask you something.
    I read about Hearth yesterday.
    We use this in our team.
""")
_TAILS = lines("""
    if I may ask
    if you don't mind
    exactly
    in a few words
    for me
    for a beginner
    right now
    today
    here
    in general
    in practice
    I wonder
    I don't get it
    can you help
    do you know
    any idea
    in detail please
    then
    anyway
    actually
    in Hearth
    with Hearth
""")
_FILLERS = ("really", "actually", "just", "simply", "maybe", "exactly", "now", "kind of", "please")
_SMALL_WORDS = frozenset(
    ("a", "an", "the", "do", "does", "is", "are", "can", "to", "of", "for", "in", "my", "me", "it")
)
_SYNONYMS = {group.split("|")[0]: tuple(group.split("|")) for group in _GROUPS}
_KNOWN = re.compile(
    r"(?<![\w$'])("
    + "|".join(sorted(map(re.escape, _SYNONYMS), key=len, reverse=True))
    + r")(?![\w'])",
    re.IGNORECASE,
)


def paraphrase(rng: Random, question: str) -> str:
    """Often the question itself; else with other words around and inside."""
    if rng.random() < 0.35:
        return question
    question = _KNOWN.sub(lambda match: _other_word(rng, match.group(0)), question)
    if rng.random() < 0.12:
        question = _add_filler(rng, question)
    if rng.random() < 0.10:
        question = _leave_out(rng, question)
    if rng.random() < 0.14:
        question = _add_tail(rng, question)
    if rng.random() < 0.14:
        question = f"{vary_one(rng, _LEADS)} {question}"
    return question


def _other_word(rng: Random, word: str) -> str:
    if rng.random() > _SYNONYM_RATE:
        return word
    other = rng.choice(_SYNONYMS[word.lower()])
    return other[:1].upper() + other[1:] if word[:1].isupper() else other


def _add_filler(rng: Random, question: str) -> str:
    words = question.split(" ")
    words.insert(rng.randint(1, len(words)), rng.choice(_FILLERS))
    return " ".join(words)


def _leave_out(rng: Random, question: str) -> str:
    words = question.split(" ")
    places = [index for index, word in enumerate(words) if word.lower() in _SMALL_WORDS]
    if len(words) > 3 and places:
        del words[rng.choice(places)]
    return " ".join(words)


def _add_tail(rng: Random, question: str) -> str:
    mark = question[-1] if question[-1:] in "?.!" else ""
    joint = rng.choice((" ", ", "))
    return f"{question.rstrip('?.!')}{joint}{vary_one(rng, _TAILS)}{mark}"
