"""The output items of a response as they grow: each turns its fragments into stream events.

    added · (part added) · delta* · done · (part done) · item done

It does not know the response around the items, nor the wire's events.
"""

from __future__ import annotations

import dataclasses
from typing import Any

from hosting.api.responses_tools import ItemTool, custom_input
from hosting.api.sealing import seal

Event = dict[str, Any]


class Item:
    """One item: opened, fed, closed. Owner: one response."""

    prefix: str  # of its id

    def __init__(self, *, key: str, output_index: int) -> None:
        self.id = f"{self.prefix}_{key}"
        self.status = "in_progress"
        self._place = {"item_id": self.id, "output_index": output_index}
        self._texts: list[str] = []

    @property
    def text(self) -> str:
        return "".join(self._texts)

    def opening(self) -> list[Event]:
        return [self._item_event("added", self._empty())]

    def feed(self, text: str, logprobs: list[Any]) -> list[Event]:
        self._texts.append(text)
        return [self._event(self.delta_type, delta=text)] if text else []

    def closing(self, status: str) -> list[Event]:
        self.status = status
        return [*self._done(), self._item_event("done", self.as_json())]

    def as_json(self) -> dict[str, Any]:
        raise NotImplementedError

    delta_type: str

    def _empty(self) -> dict[str, Any]:
        raise NotImplementedError

    def _done(self) -> list[Event]:
        raise NotImplementedError

    def _item_event(self, verb: str, item: dict[str, Any]) -> Event:
        return {
            "type": f"response.output_item.{verb}",
            "output_index": self._place["output_index"],
            "item": item,
        }

    def _event(self, kind: str, **fields: Any) -> Event:
        return {"type": f"response.{kind}", **self._place, **fields}


class TextItem(Item):
    """An item of one part of text."""

    def opening(self) -> list[Event]:
        added = self._event("content_part.added", content_index=0, part=self._part("", []))
        return [*super().opening(), added]

    def _part(self, text: str, logprobs: list[Any]) -> dict[str, Any]:
        raise NotImplementedError


class Message(TextItem):
    prefix = "msg"
    delta_type = "output_text.delta"

    def __init__(self, *, key: str, output_index: int) -> None:
        super().__init__(key=key, output_index=output_index)
        self._logprobs: list[Any] = []

    def feed(self, text: str, logprobs: list[Any]) -> list[Event]:
        self._texts.append(text)
        self._logprobs += logprobs
        if not (text or logprobs):
            return []
        return [self._event(self.delta_type, content_index=0, delta=text, logprobs=logprobs)]

    def as_json(self) -> dict[str, Any]:
        return self._empty() | {"content": [self._part(self.text, self._logprobs)]}

    def _empty(self) -> dict[str, Any]:
        return {
            "id": self.id,
            "type": "message",
            "role": "assistant",
            "status": self.status,
            "content": [],
        }

    def _done(self) -> list[Event]:
        whole = {"text": self.text, "logprobs": self._logprobs}
        part = self._part(self.text, self._logprobs)
        return [
            self._event("output_text.done", content_index=0, **whole),
            self._event("content_part.done", content_index=0, part=part),
        ]

    def _part(self, text: str, logprobs: list[Any]) -> dict[str, Any]:
        return {"type": "output_text", "text": text, "annotations": [], "logprobs": logprobs}


class Reasoning(TextItem):
    prefix = "rs"
    delta_type = "reasoning_text.delta"

    def __init__(self, *, key: str, output_index: int, is_sealed: bool) -> None:
        super().__init__(key=key, output_index=output_index)
        self._is_sealed = is_sealed

    def feed(self, text: str, logprobs: list[Any]) -> list[Event]:
        self._texts.append(text)
        return [self._event(self.delta_type, content_index=0, delta=text)] if text else []

    def as_json(self) -> dict[str, Any]:
        sealed = {"encrypted_content": seal(self.text)} if self._is_sealed else {}
        return self._empty() | {"content": [self._part(self.text, [])]} | sealed

    def _empty(self) -> dict[str, Any]:
        return {
            "id": self.id,
            "type": "reasoning",
            "status": self.status,
            "summary": [],
            "content": [],
        }

    def _done(self) -> list[Event]:
        return [
            self._event("reasoning_text.done", content_index=0, text=self.text),
            self._event("content_part.done", content_index=0, part=self._part(self.text, [])),
        ]

    def _part(self, text: str, logprobs: list[Any]) -> dict[str, Any]:
        return {"type": "reasoning_text", "text": text}


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """Which tool an item calls."""

    call_id: str
    tool: ItemTool


class CallItem(Item):
    """An item that calls a tool."""

    type: str
    given: str  # the field of what the tool is given

    def __init__(self, *, key: str, output_index: int, call: Call) -> None:
        super().__init__(key=key, output_index=output_index)
        self._call = call

    def _empty(self) -> dict[str, Any]:
        tool = self._call.tool
        return {
            "id": self.id,
            "type": self.type,
            "call_id": self._call.call_id,
            "name": tool.name,
            **({} if tool.namespace is None else {"namespace": tool.namespace}),
            self.given: "",
            "status": self.status,
        }


class FunctionCall(CallItem):
    prefix = "fc"
    type = "function_call"
    given = "arguments"
    delta_type = "function_call_arguments.delta"

    def as_json(self) -> dict[str, Any]:
        return self._empty() | {"arguments": self.text or "{}"}

    def _done(self) -> list[Event]:
        whole = {"name": self._call.tool.name, "arguments": self.text or "{}"}
        return [self._event("function_call_arguments.done", **whole)]


class CustomCall(CallItem):
    """Its input is inside the arguments' JSON, so it is told in one piece when that is whole."""

    prefix = "ctc"
    type = "custom_tool_call"
    given = "input"
    delta_type = "custom_tool_call_input.delta"

    def feed(self, text: str, logprobs: list[Any]) -> list[Event]:
        self._texts.append(text)
        return []

    def as_json(self) -> dict[str, Any]:
        return self._empty() | {"input": custom_input(self.text)}

    def _done(self) -> list[Event]:
        given = custom_input(self.text)
        return [
            self._event(self.delta_type, delta=given),
            self._event("custom_tool_call_input.done", input=given),
        ]
