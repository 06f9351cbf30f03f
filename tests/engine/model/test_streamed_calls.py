"""Arguments of tool calls stream in every dialect of mlx-lm, and say what its parsers say."""

from __future__ import annotations

import importlib
import json
import logging
import pkgutil
from typing import Any

import mlx_lm.tool_parsers
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine import wire
from engine.core.answer import Piece
from engine.model.tool_calls import ToolCallReader
from engine.model.tool_dialects import DIALECTS, NUMBER, Dialect
from tests.fakes import make_work

PARSERS = sorted(one.name for one in pkgutil.iter_modules(mlx_lm.tool_parsers.__path__))
PROPERTIES = {
    "city": {"type": "string"},
    "note": {"type": "string"},
    "days": {"type": "integer"},
    "wind": {"type": "number"},
    "is_long": {"type": "boolean"},
    "tags": {"type": "array", "items": {"type": "string"}},
    "place": {"type": "object"},
}
TOOLS = tuple(
    {
        "type": "function",
        "function": {"name": name, "parameters": {"type": "object", "properties": PROPERTIES}},
    }
    for name in ("weather", "KEY_VALUE")
)
FLAT_ONLY = {"function_gemma"}  # its parser reads nothing that is nested
LONG_TEXT = "Köln am Rhein, 'north' & west <b> 🙂 of it"
CALLS: list[tuple[str, dict[str, Any]]] = [
    ("weather", {"city": LONG_TEXT, "days": 3, "is_long": True}),
    ("KEY_VALUE", {"days": 14, "note": "null and void", "city": "x"}),
    ("weather", {"wind": 1.5, "city": " n", "note": "a\n\n b\n"}),
]
NESTED = ("weather", {"tags": ["a", "b"], "place": {"lat": 1, "name": "K"}, "city": "Bonn"})


class Tokenizer:
    def __init__(self, parser_name: str) -> None:
        module = importlib.import_module(f"mlx_lm.tool_parsers.{parser_name}")
        self.tool_parser = module.parse_tool_call
        self.tool_call_start = module.tool_call_start
        self.tool_call_end = module.tool_call_end


def write(dialect: Dialect, name: str, arguments: dict[str, Any]) -> str:
    """A section as the text state machine gives it, without markers of one call around it."""
    before, number, after = dialect.after_name.partition(NUMBER)
    head = dialect.call_start + name + before + ("0" if number else "") + after
    return head + _arguments(dialect, arguments) + dialect.call_end


def _arguments(dialect: Dialect, arguments: dict[str, Any]) -> str:
    tagged = dialect.arguments
    if tagged is None:
        return json.dumps(arguments, ensure_ascii=False)
    each = []
    for key, value in arguments.items():
        said = json.dumps(value, ensure_ascii=False)
        if isinstance(value, str) and tagged.text_marks is not None:
            said = tagged.text_marks[0] + value + tagged.text_marks[1]
        elif tagged.text_marks is not None and tagged.text_marks[0]:
            said = _bare(value, tagged.text_marks[0])
        each.append(tagged.before_key + key + tagged.after_key + said + tagged.after_value)
    return tagged.between.join(each)


def _bare(value: Any, mark: str) -> str:
    """As gemma writes what is nested."""
    match value:
        case str():
            return mark + value + mark
        case dict():
            return "{" + ",".join(f"{key}:{_bare(one, mark)}" for key, one in value.items()) + "}"
        case list():
            return "[" + ",".join(_bare(one, mark) for one in value) + "]"
    return json.dumps(value)


def section_of(parser_name: str, calls: list[tuple[str, dict[str, Any]]]) -> str:
    dialect, tokenizer = DIALECTS[parser_name], Tokenizer(parser_name)
    text = dialect.section_start
    text += dialect.between.join(write(dialect, name, arguments) for name, arguments in calls)
    text += dialect.section_end
    text = text.removeprefix(tokenizer.tool_call_start)
    return text.split(tokenizer.tool_call_end)[0] if tokenizer.tool_call_end else text


def read(
    parser_name: str, parts: list[str], *, is_complete: bool = True, **changes: Any
) -> list[Piece]:
    reader = ToolCallReader(Tokenizer(parser_name), make_work("r", tools=TOOLS, **changes))
    pieces = [piece for part in parts for piece in reader.feed(part)]
    return pieces + reader.close(is_complete=is_complete)


def calls_in(pieces: list[Piece]) -> list[tuple[str, Any]]:
    """Every fragment has its index and id; the first has the name."""
    found: list[tuple[str, str]] = []
    ids = []
    for piece in pieces:
        assert piece.channel is wire.Channel.TOOL_CALL and piece.tool_call is not None
        if piece.tool_call.name is not None:
            assert piece.tool_call.index == len(found)
            ids.append(piece.tool_call.call_id)
            found.append((piece.tool_call.name, ""))
        name, arguments = found[piece.tool_call.index]
        assert piece.tool_call.call_id == ids[piece.tool_call.index]
        found[piece.tool_call.index] = (name, arguments + piece.text)
    return [(name, json.loads(arguments)) for name, arguments in found]


def parsed(parser_name: str, section: str) -> list[tuple[str, Any]]:
    tools = list(TOOLS)
    calls = Tokenizer(parser_name).tool_parser(section, tools)
    each = calls if isinstance(calls, list) else [calls]
    return [(call["name"], call["arguments"]) for call in each]


def sections(parser_name: str) -> list[str]:
    calls = CALLS if parser_name in FLAT_ONLY else [*CALLS, NESTED]
    return [section_of(parser_name, [call]) for call in calls]


def test_every_parser_is_known() -> None:
    assert set(DIALECTS) == set(PARSERS)


@pytest.mark.parametrize("parser_name", PARSERS)
def test_any_cut_gives_what_the_parser_reads(parser_name: str) -> None:
    for section in sections(parser_name):
        expected = parsed(parser_name, section)
        assert calls_in(read(parser_name, list(section))) == expected
        for cut in range(len(section) + 1):
            assert calls_in(read(parser_name, [section[:cut], section[cut:]])) == expected, cut


@pytest.mark.parametrize("parser_name", PARSERS)
def test_a_text_comes_while_it_is_written(parser_name: str) -> None:
    section = section_of(parser_name, CALLS[:1])
    pieces = read(parser_name, list(section))
    assert sum(bool(piece.text) for piece in pieces) > 20


@pytest.mark.parametrize("parser_name", ["minimax_m2", "muse_spark", "pythonic", "kimi_k2"])
def test_several_calls_of_one_section_are_numbered(parser_name: str) -> None:
    section = section_of(parser_name, CALLS)
    expected = parsed(parser_name, section)
    assert len(expected) == len(CALLS)
    for size in (1, 7, len(section)):
        parts = [section[at : at + size] for at in range(0, len(section), size)]
        assert calls_in(read(parser_name, parts)) == expected
    single = wire.ToolChoice(is_parallel=False)
    assert calls_in(read(parser_name, [section], tool_choice=single)) == expected[:1]


@pytest.mark.parametrize(
    ("parser_name", "section"),
    [
        (
            "qwen3_coder",
            "\n<function=weather>\n<parameter=city>\nNULL\n</parameter>\n</function>\n",
        ),
        ("qwen3_coder", "<function=weather></function>"),
        ("qwen3_coder", "<function=weather><parameter=other>\n5\n</parameter></function>"),
        ("qwen3_coder", "<function=weather><parameter=city>\n\n\nx\n\n</parameter></function>"),
        ("glm47", "weather"),
        ("glm47", "weather\n<arg_key>other</arg_key>\\n<arg_value>[1, {}]</arg_value>"),
        ("minimax_m2", "<invoke name='weather'><parameter name=days>7</parameter></invoke>"),
        ("minicpm5", '"weather"><param name="city"><![CDATA[a <b> & c]]></param>'),
        ("minicpm5", '"weather"><param name="city"> null </param>'),
        (
            "kimi_k3",
            '<|open|>call tool="weather" index="1"<|sep|>'
            '<|open|>argument key="city" type="string"<|sep|> Tokyo <|close|>argument<|sep|>'
            '<|open|>argument key="days" type="number"<|sep|>3<|close|>argument<|sep|>'
            "<|close|>call<|sep|>",
        ),
        ("pythonic", r"""[weather(city='it\'s \x41\n\u00e9 "', note="", days=-1, tags=['a)'])]"""),
        ("pythonic", '[weather(city="""a "b" c""", place={"lat": null})]'),
        ("pythonic", "[weather()]"),
        ("gemma4", 'call:weather{city:<|"|>a } , "b"<|"|>,place:{name:<|"|>}<|"|>}}'),
        ("gemma4", "call:weather{}"),
        (
            "muse_spark",
            '<atem:invoke name="weather"><atem:parameter name="city">'
            r'"a \"b\" \ud83d\ude00 \/ \n"</atem:parameter></atem:invoke>',
        ),
        (
            "muse_spark",
            '<atem:invoke name="weather"><atem:parameter name="city">'
            "no quotes</atem:parameter></atem:invoke>",
        ),
    ],
)
def test_odd_calls_are_read_as_the_parser_reads_them(parser_name: str, section: str) -> None:
    expected = parsed(parser_name, section)
    for size in (1, 3, len(section)):
        parts = [section[at : at + size] for at in range(0, len(section), size)]
        assert calls_in(read(parser_name, parts)) == expected


FIRST_OF_KIMI = '<|tool_call_begin|>functions.weather:0<|tool_call_argument_begin|>{"days": 1}'
SECOND_OF_KIMI = (
    "<|tool_call_end|><|tool_call_begin|>functions.weather:1<|tool_call_argument_begin|>"
)


@pytest.mark.parametrize(
    ("parser_name", "first", "rest"),
    [
        ("mistral", 'weather[ARGS]{"days": 1}', r'[TOOL_CALLS]weather[ARGS]"{\"days\": 2}"'),
        (
            "mistral",
            '[{"name": "weather", "arguments": {"days": 1}}',
            r', {"name": "weather", "arguments": "{\"days\": 2}"}]',
        ),
        ("kimi_k2", FIRST_OF_KIMI, SECOND_OF_KIMI + r'"{\"days\": 2}"<|tool_call_end|>'),
        (
            "minimax_m2",
            '<invoke name="weather"><parameter name="days">1</parameter></invoke>',
            '<invoke name="weather">.<parameter name="days">2</parameter></invoke>',
        ),
    ],
)
def test_a_later_call_in_another_form_is_read_too(parser_name: str, first: str, rest: str) -> None:
    expected = [("weather", {"days": 1}), ("weather", {"days": 2})]
    for parts in ([first + rest], list(first + rest)):
        assert calls_in(read(parser_name, parts)) == expected
    single = wire.ToolChoice(is_parallel=False)
    assert calls_in(read(parser_name, [first, rest], tool_choice=single)) == expected[:1]


@pytest.mark.parametrize(
    ("parser_name", "first", "rest"),
    [
        ("mistral", 'weather[ARGS]{"days": 1}', "weather[ARGS]{days: 2}"),
        ("mistral", 'weather[ARGS]{"days": 1}', "That is all."),
        ("kimi_k2", FIRST_OF_KIMI, SECOND_OF_KIMI + "[1]<|tool_call_end|>"),
        ("pythonic", "[weather(days=1)", 'weather({"days": 2})]'),
    ],
)
def test_what_is_no_call_behind_one_is_text(parser_name: str, first: str, rest: str) -> None:
    for parts in ([first + rest], list(first + rest)):
        *calls, last = read(parser_name, parts)
        assert calls_in(calls) == [("weather", {"days": 1})]
        assert last.channel is wire.Channel.CONTENT
        assert last.text == rest.removeprefix("<|tool_call_end|>")


@pytest.mark.parametrize("parser_name", PARSERS)
def test_a_cut_call_shows_no_markup(parser_name: str, caplog: pytest.LogCaptureFixture) -> None:
    """Wherever it ends: arguments that have come, the call whole, or the text that it was."""
    section = sections(parser_name)[0]
    for cut in range(len(section)):
        with caplog.at_level(logging.WARNING):
            pieces = read(parser_name, [section[:cut]], is_complete=False)
        calls = [piece for piece in pieces if piece.tool_call is not None]
        if calls:
            assert len(calls) == len(pieces)
            shown = "".join(piece.text for piece in calls)
            assert "<arg" not in shown and "parameter" not in shown and "<|" not in shown
        else:
            start = Tokenizer(parser_name).tool_call_start
            assert "".join(piece.text for piece in pieces) == start + section[:cut]


# Space at the ends is the dialects' own business, and so is a text that says null
TEXTS = st.text(
    st.characters(exclude_categories=["Cs", "Cc"], exclude_characters="<|>\\\"'{}[](),:="),
    max_size=20,
).map(lambda text: f"a{text.strip()}z")
ARGUMENTS = st.fixed_dictionaries(
    {},
    optional={"city": TEXTS, "days": st.integers(-9, 99), "note": TEXTS, "is_long": st.booleans()},
)


@pytest.mark.parametrize("parser_name", PARSERS)
@settings(max_examples=25, deadline=None)
@given(arguments=ARGUMENTS.filter(bool), size=st.integers(1, 9))
def test_random_arguments_arrive(parser_name: str, arguments: dict[str, Any], size: int) -> None:
    section = section_of(parser_name, [("weather", arguments)])
    parts = [section[at : at + size] for at in range(0, len(section), size)]
    assert calls_in(read(parser_name, parts)) == [("weather", arguments)]
