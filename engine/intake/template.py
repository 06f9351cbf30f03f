"""A model's chat template: foreign code, run in a sandbox with caps, as transformers would run it.

It does not know tokens or where a template comes from.
"""

from __future__ import annotations

import datetime
import json
from collections.abc import Mapping
from typing import Any

import jinja2
import jinja2.ext
from jinja2.exceptions import SecurityError
from jinja2.nodes import CallBlock, Node
from jinja2.parser import Parser
from jinja2.sandbox import ImmutableSandboxedEnvironment

from engine.intake import harmony
from engine.intake.limits import TimeLimit, TooSlow
from engine.intake.messages import (
    Arguments,
    Message,
    with_mapped_arguments,
    with_systems_in_place,
)
from engine.intake.single_calls import one_call_each

MAX_SECONDS = 1.0
MAX_PROBE_SECONDS = 0.5  # there are up to four before the first conversation, none after a slow one
MAX_OUTPUT_CHARACTERS = 64 * 1024**2
MAX_PRODUCT_LENGTH = 1_000_000
MAX_NUMBER_BITS = 4096


class TemplateRefused(Exception):
    """The template does not take this conversation."""


class Template:
    """One compiled template. `render` raises TemplateRefused, TooSlow or MemoryError."""

    def __init__(self, source: str, *, special_tokens: Mapping[str, str]) -> None:
        self.source = source
        self._special_tokens = dict(special_tokens)
        try:
            with TimeLimit(MAX_SECONDS):
                self._template = _environment().from_string(source)
        except (jinja2.TemplateError, RecursionError, TooSlow) as error:
            raise TemplateRefused(f"the chat template does not compile: {error}") from error
        self._is_harmony = harmony.is_template(source)
        self._is_slow = False
        self._takes_text_arguments = self._keeps_arguments_as_written()
        self._takes_late_systems = self._keeps_systems_in_place()
        self._takes_several_calls = self._shows_all_calls()

    def prepare(self, messages: list[Message]) -> list[Message]:
        """Messages in the form that this template takes. A template that accepts a tool call's
        arguments as text gets them byte for byte: what was cached of them is found again.
        """
        if not self._takes_late_systems:
            messages = with_systems_in_place(messages)
        if not self._takes_several_calls:
            messages = one_call_each(messages)
        if self._is_harmony:
            messages = harmony.in_its_form(messages)
        if self._takes_text_arguments:
            return messages
        return [with_mapped_arguments(message) for message in messages]

    def render(
        self,
        messages: list[Message],
        tools: list[Message],
        options: Mapping[str, Any],
        *,
        adds_generation_prompt: bool = True,
        seconds: float = MAX_SECONDS,
    ) -> str:
        values = {
            **(harmony.efforts(options) if self._is_harmony else options),
            **self._special_tokens,
            "messages": messages,
            "tools": tools or None,
            "documents": None,
            "add_generation_prompt": adds_generation_prompt,
        }
        try:
            with TimeLimit(seconds):
                rendered = _join(self._template.generate(values))
        except TooSlow:
            raise
        except (jinja2.TemplateError, ArithmeticError, LookupError) as error:
            raise TemplateRefused(str(error)) from error
        except (TypeError, ValueError, AttributeError, RecursionError) as error:
            raise TemplateRefused(f"{type(error).__name__}: {error}") from error
        if self._is_harmony and adds_generation_prompt:
            rendered += harmony.prompt_end(options, tools)
        return rendered

    def _keeps_arguments_as_written(self) -> bool:
        """Whether a tool call's arguments may be given as text: a probe comes out unchanged."""
        arguments = '{"probe":  "as written"}'
        return arguments in self._try(_calling("f", arguments=arguments))

    def _shows_all_calls(self) -> bool:
        """Whether a message may have several: where it shows one, it shows both of two."""
        names = ("probe_first", "probe_second")
        probes = [_calling(*names), _calling(names[0])]
        if not self._takes_text_arguments:
            probes = [[with_mapped_arguments(one) for one in probe] for probe in probes]
        both = self._try(probes[0])
        return all(name in both for name in names) or names[0] not in self._try(probes[1])

    def _keeps_systems_in_place(self) -> bool:
        """Whether a system message may follow a user's: a probe comes out behind it."""
        rendered = self._try(
            [
                {"role": "user", "content": "probe question"},
                {"role": "system", "content": "probe reminder"},
            ]
        )
        return -1 < rendered.find("probe question") < rendered.find("probe reminder")

    def _try(self, messages: list[Message]) -> str:
        """What it makes of a probe; nothing any more once one took too long."""
        if self._is_slow:
            return ""
        try:
            return self.render(messages, [], {}, seconds=MAX_PROBE_SECONDS)
        except TooSlow:
            self._is_slow = True
        except (TemplateRefused, MemoryError):
            pass
        return ""


def _calling(*names: str, arguments: str = "{}") -> list[Message]:
    """A turn in which these are called."""
    calls = [
        {
            "id": f"probe{number:05}",
            "type": "function",
            "function": {"name": name, "arguments": arguments},
        }
        for number, name in enumerate(names, start=1)
    ]
    results = (
        {"role": "tool", "content": "a", "tool_call_id": call["id"], "name": name}
        for call, name in zip(calls, names, strict=True)
    )
    return [
        {"role": "user", "content": "q"},
        {"role": "assistant", "content": "", "tool_calls": calls},
        *results,
    ]


def _join(pieces: Any) -> str:
    joined, length = [], 0
    for piece in pieces:
        length += len(piece)
        if length > MAX_OUTPUT_CHARACTERS:
            raise TemplateRefused("the chat template's output is too long")
        joined.append(piece)
    return "".join(joined)


class _Sandbox(ImmutableSandboxedEnvironment):
    """With caps on the operators by which a short template makes a giant value."""

    intercepted_binops = frozenset({"+", "*", "**"})

    def call_binop(self, context: Any, operator: str, left: Any, right: Any) -> Any:
        if isinstance(left, int) and isinstance(right, int):
            bits = left.bit_length()
            size = bits * right if operator == "**" else bits + right.bit_length()
            if size > MAX_NUMBER_BITS:
                raise SecurityError("a number in the chat template is too large")
        elif operator == "+" and isinstance(left, str) and isinstance(right, str):
            if len(left) + len(right) > MAX_OUTPUT_CHARACTERS:
                raise SecurityError("a text in the chat template is too long")
        elif operator == "*":
            for sequence, times in ((left, right), (right, left)):
                is_repetition = isinstance(times, int) and hasattr(sequence, "__len__")
                if is_repetition and len(sequence) * times > MAX_PRODUCT_LENGTH:
                    raise SecurityError("a repetition in the chat template is too long")
        return super().call_binop(context, operator, left, right)


class _GenerationTag(jinja2.ext.Extension):
    """`{% generation %}` marks a model's words for training; here it only passes them on."""

    tags = {"generation"}

    def parse(self, parser: Parser) -> Node:
        line = next(parser.stream).lineno
        body = parser.parse_statements(("name:endgeneration",), drop_needle=True)
        return CallBlock(self.call_method("_pass_on"), [], [], body).set_lineno(line)

    def _pass_on(self, caller: Any) -> str:
        return str(caller())


def _environment() -> _Sandbox:
    environment = _Sandbox(
        trim_blocks=True,
        lstrip_blocks=True,
        extensions=[_GenerationTag, jinja2.ext.loopcontrols],
    )
    environment.filters["tojson"] = _to_json
    environment.globals["raise_exception"] = _raise_exception
    environment.globals["strftime_now"] = _format_now
    return environment


def _to_json(value: Any, ensure_ascii: bool = False, indent: int | None = None, **how: Any) -> str:
    if isinstance(value, Arguments) and indent is None and not how:
        return value.source
    return json.dumps(value, ensure_ascii=ensure_ascii, indent=indent, **how)


def _raise_exception(message: str) -> None:
    raise jinja2.TemplateError(message)


def _format_now(pattern: str) -> str:
    return datetime.datetime.now().strftime(pattern)
