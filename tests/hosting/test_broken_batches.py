"""A batch with which something is wrong on the server ends, and holds up no other."""

from __future__ import annotations

import datetime
import os
from pathlib import Path
from unittest.mock import Mock

import pytest
from django.utils import timezone

from accounts.models import User
from hosting.actions import file_bytes
from hosting.actions.batch_results import BatchChanged, Results, write_results
from hosting.actions.settling import settle_generation
from hosting.api.errors import ApiError
from hosting.batches import beginning
from hosting.batches import runner as runners
from hosting.batches.runner import Runner
from hosting.models import Batch, BatchLine, Generation, StoredFile
from tests.hosting.scripted_engine import ScriptedEngine
from tests.hosting.test_batches import (
    QUESTION,
    data_folder,
    finish,
    given,
    line,
    turn,
    turn_until_begun,
    written,
)
from tests.waiting import wait_until

__all__ = ["data_folder"]

pytestmark = pytest.mark.usefixtures("model")


def all_are_settled() -> bool:
    for one in Generation.objects.open():
        settle_generation(str(one.pk))
    return not Generation.objects.open().exists()


def test_what_cannot_go_on_ends_an_hour_after_its_window(
    person: User, api_key: str, engine: ScriptedEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(runners, "_PAUSE_SECONDS", 0.0)
    broken = given(person, api_key, [line("1"), line("2")])
    turn_until_begun()
    wait_until(all_are_settled)
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


def test_a_line_that_is_refused_when_tried_again_is_told_once_with_its_cost(
    person: User,
    api_key: str,
    engine: ScriptedEngine,
    data_folder: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level("INFO")
    batch = given(person, api_key, [line("1", body=QUESTION | {"n": 2})])
    turn_until_begun()
    wait_until(all_are_settled)
    first, _ = BatchLine.objects.get().generations
    BatchLine.objects.update(generations=[first, None])
    error = ApiError(403, "model_not_allowed", "Not any more.")
    monkeypatch.setattr(beginning, "read_call", Mock(side_effect=error))
    assert finish(batch).num_failed == 1
    assert len(written(data_folder, batch.error_file)) == 1
    assert "changed meanwhile" not in caplog.text  # nor was it tried
    assert batch.prompt_tokens == Generation.objects.get(pk=first).prompt_tokens > 0


def test_a_line_is_not_written_twice(
    person: User, api_key: str, engine: ScriptedEngine, data_folder: Path
) -> None:
    batch = given(person, api_key, [line("1"), line("2")])
    turn_until_begun()
    batch.refresh_from_db()
    done = [BatchLine.objects.first()]
    write_results(batch, Results(errors=b"{}\n", num_failed=1), done=done)
    with pytest.raises(BatchChanged):
        write_results(batch, Results(errors=b"{}\n", num_failed=1), done=done)
    batch.refresh_from_db()
    assert batch.num_failed == 1 and batch.error_bytes == len(b"{}\n")
