"""Quantised copies that are refused before they begin; who asked for others is recorded."""

from __future__ import annotations

import io
import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from django.core.management import CommandError, call_command

from accounts.models import AuditRecord, User
from engine.sizing.quantising import Way
from hosting.actions import quantisations
from hosting.actions.hosted_models import add_model
from hosting.actions.quantisations import CopyRefused, ask_for_copy, cancel_copy
from hosting.models import HostedModel, Quantisation
from tests.hosting.quantising_rig import ask, change_config
from tests.hosting.quantising_rig import data_folder as data_folder
from tests.hosting.quantising_rig import folder as folder
from tests.hosting.quantising_rig import model as model

pytestmark = pytest.mark.django_db(transaction=True)
UNREADABLE = [
    *(b"", b"\xff" * 20, b"\2\0\0\0\0\0\0\0[]"),
    b"\x29\0\0\0\0\0\0\0" + b'{"a.weight":{"dtype":[],"shape":[1e999]}}',
]
WAY = "4 bits, groups of 64"


# -- refused ---------------------------------------------------------------------------------------


def test_a_quantised_model_is_refused(model: HostedModel, folder: Path) -> None:
    change_config(folder, quantization={"bits": 4, "group_size": 64})
    with pytest.raises(CopyRefused, match="full is quantised already"):
        ask(model)
    assert not Quantisation.objects.exists()


def test_groups_that_no_layer_can_take_are_refused(model: HostedModel, folder: Path) -> None:
    narrow = shutil.copytree(folder, folder.with_name("narrow"))
    _write_headers(narrow, {"a.weight": [64, 96], "b.weight": [96]})
    other = add_model(str(narrow), name="narrow")
    with pytest.raises(CopyRefused, match="in groups of 64") as refused:
        ask(other)
    assert refused.value.field == "way"
    ask(other, way=Way(group_size=32))


@pytest.mark.parametrize("way", [Way(bits=7), Way(group_size=16), Way(mode="mxfp4", bits=8)])
def test_ways_that_there_are_not_are_refused(model: HostedModel, way: Way) -> None:
    with pytest.raises(CopyRefused, match="no such way"):
        ask(model, way=way)


@pytest.mark.parametrize("name", ["full", "small", "a b", "", "../up", "x" * 101])
def test_names_that_are_taken_or_wrong_are_refused(model: HostedModel, name: str) -> None:
    ask(model, "small")
    with pytest.raises(CopyRefused) as refused:
        ask(model, name)
    assert refused.value.field == "name"
    assert Quantisation.objects.count() == 1


def test_of_two_who_ask_at_once_one_is_refused(
    model: HostedModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Both were let through before either was stored."""
    ask(model)
    monkeypatch.setattr(Quantisation, "full_clean", lambda self: None)
    with pytest.raises(CopyRefused, match="is being made"):
        ask(model)


def test_a_name_is_free_again_when_its_copy_was_cancelled(model: HostedModel) -> None:
    assert cancel_copy(ask(model), by=None)
    ask(model)


def test_too_little_disk_is_refused(model: HostedModel, settings: Any) -> None:
    settings.MIN_FREE_DISK_BYTES = 2**60
    with pytest.raises(CopyRefused, match="too little room"):
        ask(model)


def test_what_others_will_write_counts(
    model: HostedModel, settings: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = ask(model)
    monkeypatch.setattr(quantisations, "free_bytes", lambda: first.estimated_bytes * 2 - 1)
    with pytest.raises(CopyRefused, match="too little room"):
        ask(model, "second")


@pytest.mark.parametrize(
    ("field", "value", "told"),
    [("state", "fetching", "not on the disk"), ("kind", "embed", "only models that answer")],
)
def test_a_model_that_is_none_to_talk_to_is_refused(
    model: HostedModel, field: str, value: str, told: str
) -> None:
    setattr(model, field, value)
    with pytest.raises(CopyRefused, match=told):
        ask(model)


@pytest.mark.parametrize("content", UNREADABLE)
def test_weights_that_cannot_be_read_are_refused(
    model: HostedModel, folder: Path, content: bytes
) -> None:
    (folder / "model.safetensors").write_bytes(content)
    with pytest.raises(CopyRefused, match=r"cannot be read: model\.safetensors is no"):
        ask(model)


# -- recorded, and by command ----------------------------------------------------------------------


def test_who_asked_and_who_cancelled_is_recorded(model: HostedModel) -> None:
    root = User.objects.create_superuser("root@example.org")
    job = ask_for_copy(model, name="small", way=Way(), by=root, address="10.0.0.7")
    cancel_copy(job, by=root, address="10.0.0.7")
    asked, cancelled = AuditRecord.objects.order_by("number")
    assert {(one.actor, one.address) for one in (asked, cancelled)} == {(root.email, "10.0.0.7")}
    assert (asked.action, asked.target) == ("model.quantise", "full")
    assert '"copy": "small"' in asked.after and WAY in asked.after
    assert (cancelled.action, cancelled.target) == ("model.quantise_cancel", "small, of full")


def command(*arguments: str) -> str:
    output = io.StringIO()
    call_command("quantise_model", *arguments, stdout=output)
    return output.getvalue()


def test_a_copy_is_asked_for_by_command(model: HostedModel) -> None:
    assert "small: asked for, about 823" in command("full", "small")
    command("full", "floating", "--mode", "nvfp4")
    ways = [str(quantisations.way_of(job)) for job in Quantisation.objects.order_by("pk")]
    assert ways == [WAY, "nvfp4, 4 bits, groups of 16"]


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["nothing", "small"], "no model of this name"),
        (["full", "full"], "There is a model of this name"),
        (["full", "small", "--bits", "7"], "no such way"),
    ],
)
def test_a_command_is_refused_in_a_sentence(
    model: HostedModel, arguments: list[str], told: str
) -> None:
    with pytest.raises(CommandError, match=told):
        command(*arguments)


def _write_headers(folder: Path, shapes: dict[str, list[int]]) -> None:
    entries = {name: {"dtype": "F32", "shape": shape} for name, shape in shapes.items()}
    header = json.dumps(entries).encode()
    content = len(header).to_bytes(8, "little") + header
    (folder / "model.safetensors").write_bytes(content)
