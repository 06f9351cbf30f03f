"""How models write tool calls, so that a grammar can hold them to it. An entry a parser of mlx-lm.

    section_start  call_start NAME after_name ARGUMENTS call_end  between  call_start ..
    .. section_end

Only the writing; reading is mlx-lm's (tool_calls.py).
"""

from __future__ import annotations

import dataclasses

NUMBER = "\0"  # in a dialect's text: any number
ARGUMENTS_MARK = "[ARGS]"  # Mistral's; older models of theirs write a list


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Tagged:
    """Arguments one by one instead of as a JSON object. Text stands between `text_marks` as it is,
    all else is JSON; without marks text is JSON too. `has_json_unions`: so is what may be text or
    something else.
    """

    before_key: str
    after_key: str
    text_marks: tuple[str, str] | None = ("", "")
    has_json_unions: bool = False
    after_value: str = ""
    between: str = ""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Dialect:
    call_start: str
    after_name: str
    call_end: str
    arguments: Tagged | None = None  # None: a JSON object
    between: str = ""
    section_start: str = ""
    section_end: str = ""
    has_bare_calls: bool = False  # the model may begin with `bare_start` instead


# A model that has no tool calls of its own writes the bare object.
NAKED = Dialect(call_start='{"name": "', after_name='", "arguments": ', call_end="}")

_MISTRAL_LIST = Dialect(
    section_start="[TOOL_CALLS][",
    call_start='{"name": "',
    after_name='", "arguments": ',
    call_end="}",
    between=", ",
    section_end="]",
)

DIALECTS = {
    "json_tools": Dialect(
        call_start='<tool_call>\n{"name": "',
        after_name='", "arguments": ',
        call_end="}\n</tool_call>",
        between="\n",
    ),
    "longcat": Dialect(
        call_start='<longcat_tool_call>\n{"name": "',
        after_name='", "arguments": ',
        call_end="}\n</longcat_tool_call>",
        between="\n",
    ),
    "mistral": Dialect(call_start="[TOOL_CALLS]", after_name="[ARGS]", call_end=""),
    "kimi_k2": Dialect(
        section_start="<|tool_calls_section_begin|>",
        call_start="<|tool_call_begin|>functions.",
        after_name=f":{NUMBER}<|tool_call_argument_begin|>",
        call_end="<|tool_call_end|>",
        section_end="<|tool_calls_section_end|>",
    ),
    "kimi_k3": Dialect(
        section_start="<|open|>tools<|sep|>",
        call_start='<|open|>call tool="',
        after_name=f'" index="{NUMBER}"<|sep|><|open|>json type="object"<|sep|>',
        call_end="<|close|>json<|sep|><|close|>call<|sep|>",
        section_end="<|close|>tools<|sep|>",
    ),
    "qwen3_coder": Dialect(
        call_start="<tool_call>\n<function=",
        after_name=">\n",
        arguments=Tagged(before_key="<parameter=", after_key=">\n", after_value="\n</parameter>\n"),
        call_end="</function>\n</tool_call>",
        between="\n",
        has_bare_calls=True,
    ),
    "glm47": Dialect(
        call_start="<tool_call>",
        after_name="\n",
        arguments=Tagged(
            before_key="<arg_key>",
            after_key="</arg_key>\n<arg_value>",
            has_json_unions=True,
            after_value="</arg_value>\n",
        ),
        call_end="</tool_call>",
        between="\n",
    ),
    "minimax_m2": Dialect(
        section_start="<minimax:tool_call>\n",
        call_start='<invoke name="',
        after_name='">\n',
        arguments=Tagged(
            before_key='<parameter name="', after_key='">', after_value="</parameter>\n"
        ),
        call_end="</invoke>\n",
        section_end="</minimax:tool_call>",
    ),
    "minicpm5": Dialect(
        call_start='<function name="',
        after_name='">',
        arguments=Tagged(before_key='<param name="', after_key='">', after_value="</param>"),
        call_end="</function>",
    ),
    "muse_spark": Dialect(
        section_start="<atem:function_calls>\n",
        call_start='<atem:invoke name="',
        after_name='">\n',
        arguments=Tagged(
            before_key='<atem:parameter name="',
            after_key='">',
            text_marks=None,
            after_value="</atem:parameter>\n",
        ),
        call_end="</atem:invoke>\n",
        section_end="</atem:function_calls>",
    ),
    "gemma4": Dialect(
        call_start="<|tool_call>call:",
        after_name="{",
        arguments=Tagged(before_key="", after_key=":", text_marks=('<|"|>', '<|"|>'), between=","),
        call_end="}<tool_call|>",
    ),
    "function_gemma": Dialect(
        call_start="<start_function_call>call:",
        after_name="{",
        arguments=Tagged(
            before_key="", after_key=":", text_marks=("<escape>", "<escape>"), between=","
        ),
        call_end="}<end_function_call>",
    ),
    "pythonic": Dialect(
        section_start="<|tool_call_start|>[",
        call_start="",
        after_name="(",
        arguments=Tagged(before_key="", after_key="=", text_marks=None, between=", "),
        call_end=")",
        between=", ",
        section_end="]<|tool_call_end|>",
    ),
}
DIALECTS["laguna"] = DIALECTS["glm47"]


def bare_start(name: str) -> str:
    """What Qwen's coders begin with who forget `<tool_call>`, up to where `after_name` goes on."""
    return f"<function={name}>"


def dialect_of(parser_name: str | None, *, has_arguments_mark: bool) -> Dialect:
    """The dialect of a model with this parser; `has_arguments_mark`: among its tokens."""
    if parser_name == "mistral" and not has_arguments_mark:
        return _MISTRAL_LIST
    return DIALECTS.get(parser_name or "", NAKED)
