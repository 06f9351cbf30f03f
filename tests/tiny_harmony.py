"""The special tokens and a chat template of the kind that gpt-oss has, for a tiny model.

The template is shorter than the real one and takes what that takes: thoughts as `thinking`, one
call a message, and no thoughts beside words in a message that calls.
"""

from __future__ import annotations

SPECIAL_TOKENS = (
    "<|endoftext|>",
    "<|return|>",
    "<|constrain|>",
    "<|channel|>",
    "<|start|>",
    "<|end|>",
    "<|message|>",
    "<|call|>",
)
_IDS = dict(zip(SPECIAL_TOKENS, range(len(SPECIAL_TOKENS)), strict=True))
CHANNEL_ID, START_ID, END_ID = _IDS["<|channel|>"], _IDS["<|start|>"], _IDS["<|end|>"]
MESSAGE_ID, CALL_ID, RETURN_ID = _IDS["<|message|>"], _IDS["<|call|>"], _IDS["<|return|>"]
CHAT_TEMPLATE = """\
{%- macro message(header, text, end='<|end|>') %}
{{- '<|start|>' + header + '<|message|>' + text + end }}
{%- endmacro %}
{{- message('system', 'Reasoning: ' + (reasoning_effort or 'medium')) }}
{%- if messages[0].role == 'system' %}
{{- message('developer', '# Instructions\\n\\n' + messages[0].content) }}
{%- endif %}
{%- if tools %}
{{- message('developer', '# Tools\\n\\n' + (tools | map(attribute='function') | list | tojson)) }}
{%- endif %}
{%- set called = namespace(name=none, last_answer=-1) %}
{%- for one in messages %}
{%- if one.role == 'assistant' and 'tool_calls' not in one %}
{%- set called.last_answer = loop.index0 %}
{%- endif %}
{%- endfor %}
{%- for one in messages %}
{%- if one.role == 'assistant' and 'tool_calls' in one %}
{%- set call = one.tool_calls[0].function %}
{%- if one.content and one.thinking %}
{{- raise_exception('A message that calls has thoughts or words, not both.') }}
{%- elif (one.content or one.thinking) and called.last_answer < loop.index0 %}
{{- message('assistant<|channel|>analysis', one.content or one.thinking) }}
{%- endif %}
{{- message('assistant to=functions.' + call.name + '<|channel|>commentary json',
            call.arguments | tojson, '<|call|>') }}
{%- set called.name = call.name %}
{%- elif one.role == 'assistant' %}
{%- if loop.last and not add_generation_prompt and one.thinking %}
{{- message('assistant<|channel|>analysis', one.thinking) }}
{%- endif %}
{{- message('assistant<|channel|>final', one.content,
            '<|return|>' if loop.last and not add_generation_prompt else '<|end|>') }}
{%- elif one.role == 'tool' %}
{%- if called.name is none %}{{ raise_exception('Nothing was called.') }}{% endif %}
{{- message('functions.' + called.name + ' to=assistant<|channel|>commentary',
            one.content | tojson) }}
{%- elif one.role == 'user' %}
{{- message('user', one.content) }}
{%- endif %}
{%- endfor %}
{%- if add_generation_prompt %}{{ '<|start|>assistant' }}{% endif %}
"""
