"""Tools drawn at random, each with a question that needs it, its call and what came of it.

Names, parameters and values are mixed freely, so that they must be copied from the schema.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable, Sequence
from random import Random
from typing import Any

from engine.demo.corpus.paraphrase import paraphrase
from engine.demo.corpus.wording import lines, vary, vary_one
from engine.demo.corpus.words import CITIES, SUBJECTS, any_name, any_word, invented_word

Value = str | int | float | bool
JsonObject = dict[str, Any]

_WEATHER_NAMES = lines("""
    get_weather
    get_weather
    weather
    get_current_weather
    weather_lookup
    fetch_weather
    getWeather
    forecast
""")
_WEATHER = lines("""
    What is the weather {like |}in $c{| today| now| right now| tomorrow}?
    How is the weather {in|over in} $c{| today| at the moment}?
    {Tell me|Show me|Get|Check|Look up} the weather {in|for|of} $c{| please| today}.
    {Give me|Fetch|I want} the weather {in|for|of} $c{|, will you}.
    $c: {weather|how is the weather}?
    {Can I|May I|Will we} expect {rain|snow|sun|a storm} in $c{| today| tonight}?
    Is the weather {good|bad|nice|fine} in $c{| this week| today}?
    My {friend|brother|mother} is in $c. Is {it warm|the weather nice|it raining} there?
    Is it {raining|sunny|cold|warm|hot|snowing|windy} in $c{| now| today}?
    {Weather|The weather|Today's weather} {in|for} $c{| please| today}?
    $c weather{| please| now| today}?
    $c, weather?
    What's the weather {like |}in $c{| now| today}?
    What's it like {outside |}in $c{| today|, weather-wise}?
    Do I need {an umbrella|a coat|sunglasses} in $c{| today}?
    {Please check|Can you check|Could you check} {the weather|how the weather is} in $c{| for me}.
    {Find out|Could you find out|Can you tell me} {the weather|how the weather is} {in|for} $c.
    Use {the|your|a} {tool|tools} {to get|to check|for} the weather in $c.
    {How warm|How cold|How hot} is it in $c{| today}?
    I am {going|travelling|flying|driving} to $c{|.| tomorrow.} {What|How} is the weather{| there}?
    I {live|am|stay} in $c. {How|What} is the weather{| here| today| outside}?
    Will it {rain|snow|be warm|be sunny} in $c{| today| tomorrow}?
    I {want|need|would like} to know the weather in $c.
    {Temperature|What temperature is it|What is the temperature} in $c{| now}?
""")
_SUM = lines("""
    What is $a $s $b?
    {Calculate|Compute|Work out} $a $s $b{| with the calculator| for me}.
    Use the {calculator|tool} for $a $s $b.
    How much is $a $s $b{| exactly}?
    $a $s $b
    {Can|Could} you {calculate|work out} $a $s $b?
    I need {the result of |}$a $s $b.
    Please {calculate|compute} $a $s $b.
""")
_SEARCH = lines("""
    Search {for|the web for} $t.
    Find {information|something|pages|everything} {about|on} $t{| please}.
    Look up $t{| for me| please}.
    {Please search|Can you search|Google|Could you search} for $t{| please}.
    Search: $t
    What can you find {about|on} $t?
    Search the {internet|documents|web} for $t.
    {I need|I want} {information|pages|news} about $t.
    What do the documents say about $t?
""")
_TIME_HERE = lines("""
    What time is it{| now| please| here}?
    Tell me the {time|current time}{| please}.
    What is the {current |}time{| now}?
    Which time is it?
    {Do you have|Can you tell me|Could you tell me} the time?
    How late is it?
""")
_TIME_THERE = lines("""
    What time is it in $c{| now| please}?
    Tell me the {time|current time} in $c.
    What is the {current |}time in $c?
    How late is it in $c?
    {Current time|Time} in $c{| please}?
    I want to {call|phone} somebody in $c. What time is it there?
""")
_DEED = lines("""
    {Please |}$v the $n $x$d.
    {Please |}$v $n $x$d.
    {Please |}$v $x$d.
    {Can|Could|Would|Will} you {please |}$v the $n $x$d?
    I {want|need|would like} {you |}to $v the $n $x$d.
    Use {the|a|your} tool to $v the $n $x$d.
    Use $t with $k $x$d.
    Call $t for $x$d.
    Call $t with $k $x$d.
    {Run|Use|Try} $t for the $n $x$d.
    $V the $n called $x$d, please.
    {My|The} $n is $x. Please $v it$d.
""")
_VERBS: dict[str, tuple[str, ...]] = {
    "play": ("song", "track", "title"),
    "open": ("file", "path", "page", "app"),
    "delete": ("file", "user", "task", "note"),
    "create": ("user", "task", "note", "folder", "ticket"),
    "send": ("message", "email", "recipient"),
    "book": ("hotel", "flight", "table", "room"),
    "translate": ("text", "word", "sentence"),
    "order": ("item", "product", "pizza"),
    "call": ("person", "contact", "number"),
    "read": ("file", "path", "book"),
    "start": ("timer", "job", "machine", "server"),
    "stop": ("timer", "job", "machine", "server"),
    "find": ("person", "product", "order", "recipe"),
    "get": ("price", "order", "user", "document", "stock"),
    "show": ("map", "picture", "report"),
    "convert": ("amount", "currency", "file"),
    "remind": ("task", "event"),
    "lock": ("door", "screen"),
    "buy": ("ticket", "item"),
    "check": ("order", "status", "server"),
    "run": ("command", "script", "query", "test"),
}


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Use:
    """One tool with a question that needs it, its call, and what came of it."""

    tool: JsonObject
    question: str
    arguments: JsonObject
    result: str
    answer: str

    @property
    def name(self) -> str:
        name: str = self.tool["function"]["name"]
        return name


def weather(rng: Random) -> Use:
    key = rng.choice(("city", "city", "location", "place", "town", "where"))
    city = _city(rng)
    properties = {key: _property(rng, "string", vary(rng, "{The city|Name of the city|City}"))}
    arguments: JsonObject = {key: city}
    question = _say(rng, _WEATHER, c=city)
    if rng.random() < 0.3:
        unit_key, unit = rng.choice(("unit", "units")), rng.choice(("celsius", "fahrenheit"))
        properties[unit_key] = {"type": "string", "enum": ["celsius", "fahrenheit"]}
        if rng.random() < 0.5:
            question = question.rstrip("?.") + f" in {unit}?"
            arguments[unit_key] = unit
    degrees = rng.randint(-10, 38)
    sky = rng.choice(("sunny", "cloudy", "rainy", "windy", "foggy", "snowy", "clear"))
    told = {
        rng.choice(("temperature", "temp", "degrees")): degrees,
        rng.choice(("condition", "sky", "conditions")): sky,
    }
    about = vary(rng, "{Get|Returns|Fetch} the {current |}weather {for|in|of} a {city|place}{|.}")
    return Use(
        tool=_tool(rng, rng.choice(_WEATHER_NAMES), about, properties, [key]),
        question=question,
        arguments=arguments,
        result=_dump(rng, told, f"{degrees} degrees, {sky}"),
        answer=f"In {city} it is {sky}, with {degrees} degrees.",
    )


def calculator(rng: Random) -> Use:
    left, right, sign = rng.randint(2, 9999), rng.randint(2, 999), rng.choice("+-*/")
    spoken = {"+": "plus", "-": "minus", "*": "times", "/": "divided by"}[sign]
    sums = {"+": left + right, "-": left - right, "*": left * right}
    result = sums[sign] if sign in sums else round(left / right, 2)
    said = spoken if rng.random() < 0.4 else sign
    name = rng.choice(("calculator", "calculate", "compute", "evaluate", "math", "calc"))
    if rng.random() < 0.6:
        key = rng.choice(("expression", "expression", "formula", "input", "query"))
        properties = {key: _property(rng, "string", "Expression to evaluate")}
        arguments: JsonObject = {key: f"{left} {sign} {right}"}
    else:
        pairs = (("a", "b"), ("x", "y"), ("left", "right"), ("first", "second"))
        first, second = rng.choice(pairs)
        name = {"+": "add", "-": "subtract", "*": "multiply", "/": "divide"}[sign]
        properties = {
            first: _property(rng, "number", "First number"),
            second: _property(rng, "number", "Second number"),
        }
        arguments = {first: left, second: right}
    about = vary(rng, "{Evaluate|Calculate|Compute} {an arithmetic expression|a sum|numbers}{|.}")
    return Use(
        tool=_tool(rng, name, about, properties, list(properties)),
        question=_say(rng, _SUM, a=str(left), b=str(right), s=said),
        arguments=arguments,
        result=_dump(rng, {"result": result}, str(result)),
        answer=f"The result is {result}.",
    )


def search(rng: Random) -> Use:
    topic = " ".join(any_word(rng) for _ in range(rng.randint(1, 3)))
    if rng.random() < 0.6:
        topic = rng.choice(SUBJECTS)
    keys = ("query", "query", "q", "text", "term", "search_query", "keywords")
    names = ("search", "web_search", "search_web", "find_documents", "search_docs", "searchWeb")
    found = rng.choice(("three pages", "a short article", "two documents", "one result"))
    about = vary(rng, "{Search|Searches} the {web|documents|internet|knowledge base}{|.}")
    key = rng.choice(keys)
    properties = {key: _property(rng, "string", "What to search for")}
    return Use(
        tool=_tool(rng, rng.choice(names), about, properties, [key]),
        question=vary_one(rng, _SEARCH, t=topic),
        arguments={key: topic},
        result=_dump(rng, {"results": found}, found),
        answer=f"I searched for {topic} and found {found}.",
    )


def clock(rng: Random) -> Use:
    city = _city(rng)
    name = rng.choice(("get_time", "current_time", "time", "clock", "get_current_time", "now"))
    time = f"{rng.randint(0, 23):02d}:{rng.randint(0, 59):02d}"
    result = _dump(rng, {"time": time}, time)
    if rng.random() < 0.35:
        return Use(
            tool=_tool(rng, name, "Get the current time", {}, []),
            question=_say(rng, _TIME_HERE),
            arguments={},
            result=result,
            answer=f"It is {time}.",
        )
    key = rng.choice(("timezone", "city", "zone", "location", "place"))
    about = vary(rng, "{Get|Returns} the {current |}time in a city{|.}")
    return Use(
        tool=_tool(rng, name, about, {key: _property(rng, "string", "City or time zone")}, [key]),
        question=_say(rng, _TIME_THERE, c=city),
        arguments={key: city},
        result=result,
        answer=f"It is {time} in {city}.",
    )


def anything(rng: Random) -> Use:
    """A tool out of thin air: `VERB_noun` or an invented name, with one to three parameters."""
    verb, nouns = rng.choice(list(_VERBS.items()))
    noun = rng.choice(nouns)
    if rng.random() < 0.25:
        verb = invented_word(rng, syllables=rng.choice((2, 2, 3)))
    if rng.random() < 0.25:
        noun = invented_word(rng, syllables=rng.choice((2, 2, 3)))
    name = rng.choice((f"{verb}_{noun}", f"{verb}_{noun}", f"{verb}{noun.capitalize()}"))
    if rng.random() < 0.2:
        name = f"{noun}_{verb}"
    key = rng.choice((noun, "name", "id", f"{noun}_name", f"{noun}_id", invented_word(rng)))
    value = _some_value(rng)
    properties = {key: _property(rng, "string", f"The {noun}")}
    arguments: JsonObject = {key: value}
    details = ""
    for extra, kind, more, words in _extras(rng):
        properties[extra] = _property(rng, kind, extra)
        arguments[extra] = more
        details += words
    slots = {"v": verb, "n": noun, "x": value, "d": details, "t": name, "k": key}
    question = vary_one(rng, _DEED, V=verb.capitalize(), **slots)
    about = f"{verb.capitalize()}{rng.choice(('', 's'))} {rng.choice(('a', 'the'))} {noun}"
    return Use(
        tool=_tool(rng, name, about, properties, list(properties)),
        question=question[:1].upper() + question[1:],
        arguments=arguments,
        result=rng.choice(("ok", "done", "success", '{"status": "ok"}', '{"ok": true}')),
        answer=f"Done: {name} worked for {value}.",
    )


USES: tuple[Callable[[Random], Use], ...] = (
    *(weather, weather, calculator, search, clock),
    *(anything, anything, anything, anything),
)


def _say(rng: Random, frames: Sequence[str], **slots: str) -> str:
    """Paraphrase the frame first: what is filled in must be copied as it stands."""
    return vary(rng, paraphrase(rng, vary_one(rng, frames)), **slots)


def _city(rng: Random) -> str:
    return rng.choice(CITIES) if rng.random() < 0.7 else invented_word(rng).capitalize()


def _some_value(rng: Random) -> str:
    match rng.randrange(6):
        case 0:
            return any_name(rng)
        case 1:
            ending = rng.choice((".txt", ".py", ".md", ".csv"))
            return rng.choice(("", "docs/", "/tmp/")) + any_word(rng) + ending
        case 2:
            return f"{invented_word(rng).upper()}-{rng.randint(1, 9999)}"
        case 3:
            return invented_word(rng)
        case _:
            return " ".join(any_word(rng) for _ in range(rng.randint(1, 3)))


def _extras(rng: Random) -> list[tuple[str, str, Value, str]]:
    amount, name, minutes = rng.randint(1, 60), any_name(rng), rng.randint(1, 90)
    colour = rng.choice(("red", "blue", "green", "black", "white"))
    choices: list[tuple[str, str, Value, str]] = [
        ("count", "integer", amount, f" {amount} times"),
        ("user", "string", name, f" for {name}"),
        ("minutes", "integer", minutes, f" in {minutes} minutes"),
        ("color", "string", colour, f" in {colour}"),
    ]
    return rng.sample(choices, rng.choice((0, 0, 0, 1, 1, 2)))


def _tool(
    rng: Random, name: str, description: str, properties: JsonObject, required: list[str]
) -> JsonObject:
    parameters: JsonObject = {"type": "object", "properties": properties}
    if rng.random() < 0.85:
        parameters["required"] = required
    if rng.random() < 0.15:
        parameters["additionalProperties"] = False
    function: JsonObject = {"name": name}
    if rng.random() < 0.9:
        function["description"] = description
    return {"type": "function", "function": {**function, "parameters": parameters}}


def _property(rng: Random, kind: str, description: str) -> JsonObject:
    content: JsonObject = {"type": kind}
    if rng.random() < 0.5:
        content["description"] = description
    return content


def _dump(rng: Random, content: JsonObject, spoken: str) -> str:
    return json.dumps(content, ensure_ascii=False) if rng.random() < 0.6 else spoken
