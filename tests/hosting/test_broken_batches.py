"""A batch with which something is wrong on the server ends, and holds up no other."""

from __future__ import annotations

import datetime
import os
from pathlib import Path

import pytest
from django.utils import timezone

from accounts.models import User
from hosting.actions import file_bytes
from hosting.batches import runner as runners
from hosting.batches.runner import Runner
from hosting.models import Batch, BatchLine, StoredFile
from tests.hosting.scripted_engine import ScriptedEngine
from tests.hosting.test_batches import data_folder, finish, given, line, turn, turn_until_begun

__all__ = ["data_folder"]

pytestmark = pytest.mark.usefixtures("model")


def test_what_cannot_go_on_ends_an_hour_after_its_window(
    person: User, api_key: str, engine: ScriptedEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(runners, "_PAUSE_SECONDS", 0.0)
    broken = given(person, api_key, [line("1"), line("2")])
    turn_until_begun()
    os.truncate(file_bytes.path_of(broken.input_file), 0)
    runner = Runner()
    for hours_left, is_open in ((1, True), (-0.5, True), (-1.5, False)):
        ends_at = timezone.now() + datetime.timedelta(hours=hours_left)
        Batch.objects.filter(pk=broken.pk).update(expires_at=ends_at)
        for _ in range(3):
            turn(runner)
        broken.refresh_from_db()
        assert broken.is_open == is_open
    assert (broken.status, broken.errors[0]["code"]) == ("failed", "server_error")
    assert not BatchLine.objects.exists()


def test_the_others_go_on_meanwhile(
    person: User, api_key: str, engine: ScriptedEngine, data_folder: Path
) -> None:
    broken = given(person, api_key, [line("1")])
    turn_until_begun()
    os.truncate(file_bytes.path_of(broken.input_file), 0)
    other = finish(given(person, api_key, [line("1")]))
    assert other.status == "completed"
    assert StoredFile.objects.filter(pk=other.output_file).exists()
