"""Messages survive the way through Redis; what is no message is told apart."""

from __future__ import annotations

import math
import types
import typing
from enum import StrEnum
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine import wire

KINDS = (*typing.get_args(wire.Command), *typing.get_args(wire.Event), wire.EngineStatus)
TEXT = st.text(max_size=20)
PLAIN: dict[Any, st.SearchStrategy[Any]] = {
    str: TEXT,
    bytes: st.binary(max_size=20),
    int: st.integers(-(2**53), 2**53),
    bool: st.booleans(),
    float: st.floats(allow_nan=False, allow_infinity=False),
}


def values_of(hint: Any) -> st.SearchStrategy[Any]:
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if origin is types.UnionType:
        return st.one_of(*map(values_of, arguments))
    if hint is types.NoneType:
        return st.none()
    if origin is tuple and arguments[-1] is Ellipsis:
        return st.lists(values_of(arguments[0]), max_size=3).map(tuple)
    if origin is tuple:
        return st.tuples(*map(values_of, arguments))
    if origin is dict:
        return st.dictionaries(TEXT, values_of(arguments[1]), max_size=3)
    if isinstance(hint, type) and issubclass(hint, msgspec.Struct):
        return messages_of(hint)
    if isinstance(hint, type) and issubclass(hint, StrEnum):
        return st.sampled_from(list(hint))
    return st.integers(0, 9) | TEXT if hint is Any else PLAIN[hint]


def messages_of(kind: Any) -> st.SearchStrategy[Any]:
    hints = typing.get_type_hints(kind)
    return st.builds(kind, **{name: values_of(hint) for name, hint in hints.items()})


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
@settings(max_examples=20, deadline=None)
@given(data=st.data())
def test_every_message_comes_back_equal(kind: type, data: st.DataObject) -> None:
    message = data.draw(messages_of(kind))
    decoded = wire.decode(wire.encode(message).encode())

    assert decoded == message
    assert type(decoded) is kind


@pytest.mark.parametrize(
    "line",
    [
        *("", "{}", "[]", "null", "1", "[" * 100_000),
        '{"type":"Nonsense"}',
        '{"type":"Cancel"}',
        '{"type":"Cancel","request_id":"a","more":1}',
        '{"type":"Generate","sampling":[]}',
    ],
)
def test_what_is_no_message_is_told_apart(line: str) -> None:
    with pytest.raises(wire.WireError):
        wire.decode(line)


def test_a_delta_is_short() -> None:
    delta = wire.Delta(channel=wire.Channel.CONTENT, text=" the", token_ids=(279,))

    assert wire.encode(delta) == (
        '{"type":"Delta","channel":"content","text":" the","token_ids":[279]}'
    )


def test_a_number_that_is_none_survives_for_intake_to_refuse() -> None:
    sampling = wire.Sampling(seed=1, temperature=math.nan)

    assert math.isnan(wire.decode(wire.encode(make_generate(sampling))).sampling.temperature)


def test_half_a_surrogate_pair_survives_for_intake_to_refuse() -> None:
    event = wire.Refused(code=wire.Code.ENGINE_ERROR, detail="\ud800 é")

    assert wire.decode(wire.encode(event).encode()) == event


def make_generate(sampling: wire.Sampling) -> wire.Generate:
    return wire.Generate(
        request_id="a",
        model="m",
        tenant="t",
        priority=wire.Priority.API,
        submitted_at=0.0,
        sampling=sampling,
        prompt="p",
    )


@pytest.mark.parametrize("seq", [0, 1, 63, 10**6])
def test_entry_ids_and_seqs_are_the_same_thing(seq: int) -> None:
    assert wire.entry_seq(wire.entry_id(seq)) == seq
    assert wire.entry_seq(wire.entry_id(seq, "1700000000000").encode()) == seq
    assert wire.entry_born(wire.entry_id(seq, "1700000000000")) == "1700000000000"


@pytest.mark.parametrize("depth", [1, 10])
def test_the_socket_s_path_is_short_enough_for_every_system(depth: int) -> None:
    url = wire.default_redis_url("/" + "a-long-folder-name/" * depth)

    assert len(url.removeprefix("unix://").encode()) <= 100


def test_a_link_to_a_long_folder_leads_to_its_socket(tmp_path: Path) -> None:
    folder, link = tmp_path / "/".join(["a-long-folder-name"] * 10), tmp_path / "link"
    link.symlink_to(folder)

    assert wire.default_redis_url(str(link)) == wire.default_redis_url(str(folder))
