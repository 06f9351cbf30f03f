"""Messages as one line of JSON and back, by msgspec.

What a client sent may hold what strict JSON has no place for: numbers that are none, half a
surrogate pair. Intake refuses these by their field's name, so they survive the way there: commands
are written by Python's own json, and so is whatever msgspec cannot write or read.
"""

from __future__ import annotations

import json
import typing
from typing import Any

import msgspec

from engine.wire.commands import Command
from engine.wire.events import Event
from engine.wire.message import Message, Part
from engine.wire.status import EngineStatus

WIRE_VERSION = 1

_COMMANDS = frozenset(typing.get_args(Command))
_ANY: Any = Command | Event | EngineStatus
_encoder = msgspec.json.Encoder()
_decoder = msgspec.json.Decoder(_ANY)


class WireError(Exception):
    """These bytes are no message of this version."""


def encode(message: Message) -> str:
    if type(message) not in _COMMANDS:
        try:
            return _encoder.encode(message).decode()
        except UnicodeEncodeError:
            pass
    return _encode_loose(msgspec.to_builtins(message))


def _encode_loose(plain: Any) -> str:
    line = json.dumps(plain, separators=(",", ":"), ensure_ascii=False)
    try:
        line.encode()
    except UnicodeEncodeError:
        return json.dumps(plain, separators=(",", ":"))
    return line


def decode(data: str | bytes) -> Any:
    """The message in `data`. Raises WireError."""
    try:
        return _decoder.decode(data)
    except (ValueError, RecursionError):
        return _decode_loose(data)


def _decode_loose(data: str | bytes) -> Any:
    try:
        return msgspec.convert(json.loads(data), _ANY)
    except (ValueError, RecursionError) as error:
        raise WireError(f"not a message of wire version {WIRE_VERSION}: {error}") from error


def to_plain(part: Part) -> dict[str, Any]:
    """A message or a part of one as JSON values, defaults left out; a message with its `type`."""
    plain: dict[str, Any] = msgspec.to_builtins(part)
    return plain
