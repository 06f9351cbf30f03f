"""Lessons with tools: a call when one fits, none when none fits, and the answer after the result.

Tool names, parameters and values are drawn at random, so that they must be copied from the schema.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable
from random import Random
from typing import Any

from engine.demo.corpus.lesson import Lesson, Message, assistant, system, user
from engine.demo.corpus.wording import roughen, vary, vary_one
from engine.demo.corpus.words import CITIES, TOPIC_WORDS, any_name, any_word, invented_word

Value = str | int | float | bool
JsonObject = dict[str, Any]


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Use:
    """One tool with a question that needs it, its call, and what came of it."""

    tool: JsonObject
    question: str
    arguments: JsonObject
    result: str
    answer: str


def _city(rng: Random) -> str:
    return rng.choice(CITIES) if rng.random() < 0.7 else invented_word(rng).capitalize()


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


def weather(rng: Random) -> Use:
    key = rng.choice(("city", "city", "location", "place", "town", "where"))
    name = rng.choice(("get_weather", "get_weather", "weather", "get_current_weather", "weather_lookup", "fetch_weather", "getWeather", "forecast"))
    city = _city(rng)
    properties = {key: _property(rng, "string", vary(rng, "{The city|Name of the city|City name, e.g. San Francisco}"))}
    arguments: JsonObject = {key: city}
    question = vary_one(
        rng,
        ("What is the weather {like |}in $c{| today| now| right now}?", "How is the weather in $c{| today}?", "{Tell me|Show me|Get} the weather {in|for} $c.", "Is it {raining|sunny|cold|warm} in $c?",
         "Weather in $c{| please}?", "What's the weather in $c?", "Do I need an umbrella in $c{| today}?", "Please check the weather in $c.", "Use the tool to get the weather in $c.", "How warm is it in $c?"),
        c=city,
    )  # fmt: skip
    if rng.random() < 0.3:
        unit_key = rng.choice(("unit", "units"))
        unit = rng.choice(("celsius", "fahrenheit"))
        properties[unit_key] = {"type": "string", "enum": ["celsius", "fahrenheit"]}
        if rng.random() < 0.6:
            question = question.rstrip("?.") + f" in {unit}?"
            arguments[unit_key] = unit
    degrees, sky = rng.randint(-10, 38), rng.choice(("sunny", "cloudy", "rainy", "windy", "foggy", "snowy", "clear"))
    result = _dump(rng, {rng.choice(("temperature", "temp", "degrees")): degrees, rng.choice(("condition", "sky", "conditions")): sky}, f"{degrees} degrees, {sky}")
    tool = _tool(rng, name, vary(rng, "{Get|Returns|Fetch} the {current |}weather {for|in|of} a city{|.}"), properties, [key])
    return Use(tool=tool, question=question, arguments=arguments, result=result, answer=f"In {city} it is {sky}, with {degrees} degrees.")


def calculator(rng: Random) -> Use:
    left, right, sign = rng.randint(2, 9999), rng.randint(2, 999), rng.choice("+-*/")
    said = {"+": "plus", "-": "minus", "*": "times", "/": "divided by"}[sign]
    result = {"+": left + right, "-": left - right, "*": left * right, "/": round(left / right, 2)}[sign]
    question = vary_one(
        rng, ("What is $a $s $b?", "{Calculate|Compute|Work out} $a $s $b{| with the calculator}.", "Use the {calculator|tool} for $a $s $b.", "How much is $a $s $b?", "$a $s $b"),
        a=str(left), b=str(right), s=said if rng.random() < 0.4 else sign,
    )  # fmt: skip
    name = rng.choice(("calculator", "calculate", "compute", "evaluate", "math", "calc"))
    if rng.random() < 0.6:
        key = rng.choice(("expression", "expression", "formula", "input", "query"))
        properties = {key: _property(rng, "string", "Expression to evaluate")}
        arguments: JsonObject = {key: f"{left} {sign} {right}"}
    else:
        first, second = rng.choice((("a", "b"), ("x", "y"), ("left", "right"), ("first", "second")))
        name = {"+": "add", "-": "subtract", "*": "multiply", "/": "divide"}[sign]
        properties = {first: _property(rng, "number", "First number"), second: _property(rng, "number", "Second number")}
        arguments = {first: left, second: right}
    tool = _tool(rng, name, vary(rng, "{Evaluate|Calculate|Compute} {an arithmetic expression|a sum|numbers}{|.}"), properties, list(properties))
    return Use(tool=tool, question=question, arguments=arguments, result=_dump(rng, {"result": result}, str(result)), answer=f"The result is {result}.")


def search(rng: Random) -> Use:
    topic = rng.choice(TOPIC_WORDS) if rng.random() < 0.6 else " ".join(any_word(rng) for _ in range(rng.randint(1, 3)))
    key = rng.choice(("query", "query", "q", "text", "term", "search_query", "keywords"))
    name = rng.choice(("search", "web_search", "search_web", "google", "find_documents", "search_docs", "lookup", "searchWeb"))
    question = vary_one(rng, ("Search {for|the web for} $t.", "Find {information|something|pages} about $t.", "Look up $t.", "{Please search|Can you search|Google} for $t{| please}.", "Search: $t", "What can you find about $t?", "Search the {internet|documents} for $t."), t=topic)  # fmt: skip
    found = rng.choice(("three pages", "a short article", "two documents", "one result", "nothing new"))
    tool = _tool(rng, name, vary(rng, "{Search|Searches} the {web|documents|internet|knowledge base}{|.}"), {key: _property(rng, "string", "What to search for")}, [key])
    result = _dump(rng, {"results": found}, found)
    return Use(tool=tool, question=question.replace("for the weather", "for weather"), arguments={key: topic}, result=result, answer=f"I searched for {topic} and found {found}.")


def clock(rng: Random) -> Use:
    city = _city(rng)
    key = rng.choice(("timezone", "city", "zone", "location", "place"))
    name = rng.choice(("get_time", "current_time", "time", "clock", "get_current_time", "now"))
    time = f"{rng.randint(0, 23):02d}:{rng.randint(0, 59):02d}"
    if rng.random() < 0.35:
        question = vary_one(rng, ("What time is it{| now}?", "Tell me the {time|current time}.", "What is the {current |}time?", "Which time is it?"))
        tool = _tool(rng, name, "Get the current time", {}, [])
        return Use(tool=tool, question=question, arguments={}, result=_dump(rng, {"time": time}, time), answer=f"It is {time}.")
    question = vary_one(rng, ("What time is it in $c{| now}?", "Tell me the time in $c.", "What is the {current |}time in $c?", "How late is it in $c?"), c=city)
    tool = _tool(rng, name, vary(rng, "{Get|Returns} the {current |}time in a city{|.}"), {key: _property(rng, "string", "City or time zone")}, [key])
    return Use(tool=tool, question=question, arguments={key: city}, result=_dump(rng, {"time": time}, time), answer=f"It is {time} in {city}.")


_ACTIONS: dict[str, tuple[str, ...]] = {
    "play": ("song", "track", "title"), "open": ("file", "path", "page", "app"), "delete": ("file", "user", "task", "note"), "create": ("user", "task", "note", "folder", "ticket"),
    "send": ("message", "email", "recipient"), "book": ("hotel", "flight", "table", "room"), "translate": ("text", "word", "sentence"), "order": ("item", "product", "pizza"),
    "call": ("person", "contact", "number"), "read": ("file", "path", "book"), "start": ("timer", "job", "machine", "server"), "stop": ("timer", "job", "machine", "server"),
    "find": ("person", "product", "order", "recipe"), "get": ("price", "order", "user", "document", "stock"), "show": ("map", "picture", "report"), "convert": ("amount", "currency", "file"),
    "remind": ("task", "event"), "lock": ("door", "screen"), "buy": ("ticket", "item"), "check": ("order", "status", "server"), "run": ("command", "script", "query", "test"),
}  # fmt: skip


def anything(rng: Random) -> Use:
    """A tool out of thin air: `VERB_noun` or an invented name, with one to three parameters."""
    verb, nouns = rng.choice(list(_ACTIONS.items()))
    noun = rng.choice(nouns)
    if rng.random() < 0.25:
        verb = invented_word(rng)
    if rng.random() < 0.25:
        noun = invented_word(rng)
    name = rng.choice((f"{verb}_{noun}", f"{verb}_{noun}", f"{verb}{noun.capitalize()}", f"{noun}_{verb}", verb))
    key = rng.choice((noun, "name", "id", f"{noun}_name", f"{noun}_id", invented_word(rng)))
    value = _some_value(rng)
    properties = {key: _property(rng, "string", f"The {noun}")}
    arguments: JsonObject = {key: value}
    details = ""
    for extra, kind, more, words in _extras(rng):
        properties[extra] = _property(rng, kind, extra)
        arguments[extra] = more
        details += words
    question = vary_one(rng, ("{Please |}$v the $n $x$d.", "{Please |}$v $n $x$d.", "Can you $v the $n $x$d?", "I want to $v the $n $x$d.", "Use the tool to $v the $n $x$d.", "Use $t with $k $x$d.", "Call $t for $x$d."), v=verb, n=noun, x=value, d=details, t=name, k=key)  # fmt: skip
    question = question[:1].upper() + question[1:]
    tool = _tool(rng, name, vary(rng, f"{{{verb.capitalize()}|{verb.capitalize()}s}} {{a|the|one}} {noun}{{|.}}"), properties, list(properties))
    result = rng.choice(("ok", "done", "success", '{"status": "ok"}', '{"ok": true}', "completed"))
    return Use(tool=tool, question=question, arguments=arguments, result=result, answer=f"Done: {name} worked for {value}.")


def _some_value(rng: Random) -> str:
    match rng.randrange(5):
        case 0:
            return any_name(rng)
        case 1:
            return rng.choice(("", "docs/", "/tmp/")) + any_word(rng) + rng.choice((".txt", ".py", ".md", ".csv"))
        case 2:
            return f"{invented_word(rng).upper()}-{rng.randint(1, 9999)}"
        case _:
            return " ".join(any_word(rng) for _ in range(rng.randint(1, 3)))


def _extras(rng: Random) -> list[tuple[str, str, Value, str]]:
    amount, name = rng.randint(1, 60), any_name(rng)
    minutes, colour = rng.randint(1, 90), rng.choice(("red", "blue", "green", "black", "white"))
    choices: list[tuple[str, str, Value, str]] = [
        ("count", "integer", amount, f" {amount} times"), ("user", "string", name, f" for {name}"), ("minutes", "integer", minutes, f" in {minutes} minutes"), ("color", "string", colour, f" in {colour}"),
    ]  # fmt: skip
    return rng.sample(choices, rng.choice((0, 0, 0, 1, 1, 2)))


USES: tuple[Callable[[Random], Use], ...] = (weather, weather, calculator, search, clock, anything, anything, anything)


def _tools_around(rng: Random, *uses: Use) -> tuple[JsonObject, ...]:
    """The tools needed, among others with other names, in any order."""
    tools = {use.tool["function"]["name"]: use.tool for use in uses}
    kinds = {use.question for use in uses}
    for _ in range(rng.choice((0, 0, 1, 1, 2, 3, 4))):
        other = anything(rng)
        if other.question not in kinds:
            tools.setdefault(other.tool["function"]["name"], other.tool)
    chosen = list(tools.values())
    rng.shuffle(chosen)
    return tuple(chosen)


def _call(use: Use, number: int) -> JsonObject:
    function = {"name": use.tool["function"]["name"], "arguments": use.arguments}
    return {"id": f"call_{number}", "type": "function", "function": function}


def _opening(rng: Random) -> list[Message]:
    if rng.random() < 0.55:
        return []
    return [system(vary_one(rng, ("You are a helpful assistant.", "You are {an|a friendly} assistant with tools.", "Use the tools when they help.", "You are Hearth, a helpful model.", "Answer briefly.")))]  # fmt: skip


def _reasoning(rng: Random, use: Use) -> str:
    name = use.tool["function"]["name"]
    return vary_one(rng, ("The tool $t fits this question. I will call it.", "I can use $t for this.", "The user asks for something that $t can do, so I call it."), t=name)


def calling(rng: Random) -> Lesson:
    """Ask, call, result, answer; sometimes two calls at once, sometimes a second question."""
    use = rng.choice(USES)(rng)
    question = use.question if rng.random() < 0.8 else roughen_frame(rng, use.question)
    uses = [use]
    if rng.random() < 0.1:
        other = rng.choice((weather, clock, search))(rng)
        if other.tool["function"]["name"] != use.tool["function"]["name"]:
            uses.append(other)
            question = question.rstrip("?.!") + " and " + other.question[:1].lower() + other.question[1:]
    turn: Message = {"role": "assistant", "content": "", "tool_calls": [_call(use, number) for number, use in enumerate(uses)]}
    results: list[Message] = [{"role": "tool", "tool_call_id": f"call_{number}", "content": use.result} for number, use in enumerate(uses)]
    messages = [*_opening(rng), user(question), turn]
    if rng.random() < 0.2:
        turn["reasoning_content"] = " ".join(_reasoning(rng, use) for use in uses)
        return Lesson(messages=tuple(messages), tools=_tools_around(rng, *uses))
    messages += [*results, assistant(" ".join(use.answer for use in uses))]
    return Lesson(messages=tuple(messages), tools=_tools_around(rng, *uses))


def roughen_frame(rng: Random, question: str) -> str:
    """Politeness and punctuation only: values inside must stay as they are to be copied."""
    if rng.random() < 0.5:
        question = rng.choice(("Hi, ", "Hello! ", "Please: ", "Hey, ")) + question
    return question.rstrip("?.") if rng.random() < 0.5 else roughen(rng, question).capitalize() if question.islower() else question


def unhelpful(rng: Random, question: str, answer: str) -> Lesson:
    """Tools are there, but none fits: answer plainly."""
    tools = tuple(rng.choice(USES)(rng).tool for _ in range(rng.randint(1, 3)))
    return Lesson(messages=(*_opening(rng), user(question), assistant(answer)), tools=tools)
