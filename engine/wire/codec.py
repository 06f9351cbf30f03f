"""Messages as one line of JSON and back. Fields that have their default are left out."""

from __future__ import annotations

import dataclasses
import functools
import json
import types
import typing
from collections.abc import Callable
from enum import StrEnum
from typing import Any

from engine.wire.commands import Command
from engine.wire.events import Event
from engine.wire.status import EngineStatus

WIRE_VERSION = 1

_KINDS: dict[str, type] = {
    kind.__name__: kind
    for kind in (*typing.get_args(Command), *typing.get_args(Event), EngineStatus)
}
_to_line = json.JSONEncoder(separators=(",", ":"), ensure_ascii=False).encode
_to_ascii_line = json.JSONEncoder(separators=(",", ":")).encode


class WireError(Exception):
    """These bytes are no message of this version."""


def encode(message: Command | Event | EngineStatus) -> str:
    plain = to_plain(message)
    plain["type"] = type(message).__name__
    line = _to_line(plain)
    return line if _is_text(line) else _to_ascii_line(plain)


def decode(data: str | bytes) -> Any:
    """The message in `data`. Raises WireError."""
    try:
        plain = json.loads(data)
        return _reader(_KINDS[plain.pop("type")])(plain)
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise WireError(f"not a message of wire version {WIRE_VERSION}: {error}") from error


def to_plain(part: Any) -> dict[str, Any]:
    """A message or a part of one as JSON values, defaults left out."""
    plain = {}
    kind: Any = type(part)
    for name, default in _defaults(kind):
        value = getattr(part, name)
        if value != default:
            plain[name] = _plain_value(value)
    return plain


def _is_text(line: str) -> bool:
    """False with half a surrogate pair in it: JSON can spell that, UTF-8 cannot."""
    if line.isascii():
        return True
    try:
        line.encode()
    except UnicodeEncodeError:
        return False
    return True


def _plain_value(value: Any) -> Any:
    if isinstance(value, (str, int, float, dict)) or value is None:
        return value
    if isinstance(value, tuple):
        return [_plain_value(item) for item in value]
    return to_plain(value)


@functools.cache
def _defaults(kind: Any) -> tuple[tuple[str, Any], ...]:
    return tuple((field.name, _default(field)) for field in dataclasses.fields(kind))


def _default(field: dataclasses.Field[Any]) -> Any:
    if field.default_factory is dataclasses.MISSING:
        return field.default
    return field.default_factory()


@functools.cache
def _reader(kind: Any) -> Callable[[Any], Any]:
    """How a JSON value becomes a `kind`: a dataclass, enum, tuple, optional, or plain value."""
    origin, arguments = typing.get_origin(kind), typing.get_args(kind)
    if dataclasses.is_dataclass(kind):
        return _dataclass_reader(typing.cast(type, kind))
    if origin is types.UnionType:
        inner = _reader(next(one for one in arguments if one is not types.NoneType))
        return lambda value: None if value is None else inner(value)
    if origin is tuple and arguments[-1] is not Ellipsis:
        readers = [_reader(one) for one in arguments]
        return lambda value: tuple(read(item) for read, item in zip(readers, value, strict=True))
    if origin is tuple and arguments[0] in (int, float, str):
        return tuple
    if origin is tuple:
        read_item = _reader(arguments[0])
        return lambda value: tuple(map(read_item, value))
    if isinstance(kind, type) and issubclass(kind, StrEnum):
        return kind
    return lambda value: value


def _dataclass_reader(kind: type) -> Callable[[dict[str, Any]], Any]:
    readers = {name: _reader(hint) for name, hint in typing.get_type_hints(kind).items()}
    return lambda value: kind(**{name: readers[name](part) for name, part in value.items()})
