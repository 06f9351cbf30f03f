"""The wire's events in the dialect of OpenAI's completions. It knows no HTTP and no rows.

Stream   the prompt of each choice, if echoed · texts · finish chunk per choice
         · usage chunk, if asked for · [DONE]
"""

from __future__ import annotations

import codecs
import dataclasses
from collections import Counter, defaultdict
from collections.abc import Sequence
from functools import partial
from typing import Any

from engine import wire
from hosting.api import sse
from hosting.api.dialect import History
from hosting.api.openai_chat import ChunkedReply, Heading, usage_of


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class CompletionHeading(Heading):
    num_per_prompt: int = 1
    echoed: tuple[str, ...] = ()


class CompletionReply(ChunkedReply):
    """A Reply (dialect.py)."""

    chunk_object = "text_completion"
    _heading: CompletionHeading

    def __init__(self, heading: CompletionHeading) -> None:
        super().__init__(heading)
        self._num_characters: Counter[int] = Counter()  # said so far, by choice
        self._decoders: defaultdict[int, codecs.IncrementalDecoder] = defaultdict(_new_decoder)

    def lines(self, choice: int, event: wire.Event) -> str:
        match event:
            case wire.Accepted():
                echoed = self._echoed(choice)
                return self._chunk(choice, echoed) if echoed else sse.comment("accepted")
            case wire.Delta(text=text) if text or event.logprobs:
                return self._chunk(choice, text, logprobs=self._logprobs(choice, [event]))
            case wire.Finished():
                self._finished[choice] = event
                return self._chunk(choice, "", finish_reason=event.reason)
        return self._progress(event)

    def whole(self, histories: Sequence[History]) -> dict[str, Any]:
        finished = [one[-1] for one in histories if isinstance(one[-1], wire.Finished)]
        choices = [
            self._choice(choice, history, end.reason)
            for choice, (history, end) in enumerate(zip(histories, finished, strict=True))
        ]
        return self._envelope() | {"choices": choices, "usage": self._usage(finished)}

    def _choice(self, choice: int, history: History, reason: str) -> dict[str, Any]:
        deltas = [event for event in history if isinstance(event, wire.Delta)]
        text = self._echoed(choice) + "".join(delta.text for delta in deltas)
        logprobs = self._logprobs(choice, deltas)
        return _choice(choice, text, logprobs=logprobs, finish_reason=reason)

    def _chunk(
        self,
        choice: int,
        text: str,
        *,
        finish_reason: str | None = None,
        logprobs: dict[str, Any] | None = None,
    ) -> str:
        return self._send(_choice(choice, text, logprobs=logprobs, finish_reason=finish_reason))

    def _echoed(self, choice: int) -> str:
        return self._heading.echoed[choice] if self._heading.echoed else ""

    def _usage(self, finished: list[wire.Finished]) -> dict[str, Any]:
        """The choices of one prompt share it, so it counts once."""
        first_ones = finished[:: self._heading.num_per_prompt]
        usage = usage_of(finished)
        usage["prompt_tokens"] = sum(one.usage.prompt_tokens for one in first_ones)
        usage["total_tokens"] = usage["prompt_tokens"] + usage["completion_tokens"]
        cached = sum(one.usage.cached_tokens for one in first_ones)
        return usage | {"prompt_tokens_details": {"cached_tokens": cached}}

    def _logprobs(self, choice: int, deltas: list[wire.Delta]) -> dict[str, Any] | None:
        if not self._heading.wants_logprobs:
            return None
        positions = [position for delta in deltas for position in delta.logprobs]
        offsets = []
        for position in positions:
            offsets.append(self._num_characters[choice])
            said = self._decoders[choice].decode(position.token.content)
            self._num_characters[choice] += len(said)
        return {
            "text_offset": offsets,
            "token_logprobs": [position.token.logprob for position in positions],
            "tokens": [_name(position.token) for position in positions],
            "top_logprobs": [{_name(one): one.logprob for one in each.top} for each in positions],
        }


_new_decoder = partial(codecs.getincrementaldecoder("utf-8"), "replace")


def _name(token: wire.TokenLogprob) -> str:
    """As OpenAI writes tokens that are part of a character."""
    if not token.split_bytes:
        return token.text
    return "bytes:" + "".join(f"\\x{byte:02x}" for byte in token.split_bytes)


def _choice(
    choice: int, text: str, *, logprobs: dict[str, Any] | None, finish_reason: str | None
) -> dict[str, Any]:
    return {
        "index": choice,
        "text": text,
        "logprobs": logprobs,
        "finish_reason": finish_reason,
    }
