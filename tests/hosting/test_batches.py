"""A file of requests becomes a file of answers, each once, whatever goes wrong on the way."""

from __future__ import annotations

import errno
import json
import os
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from accounts.keys import create_api_key
from accounts.models import UsageRecord, User
from engine import wire
from hosting.actions import file_bytes
from hosting.actions.files import store_file
from hosting.actions.process_locks import locked
from hosting.actions.reconcile import reconcile
from hosting.actions.settling import settle_generation
from hosting.batches.process import lock_file, run_all
from hosting.batches.runner import Runner
from hosting.batches.shares import Shares
from hosting.models import Batch, BatchAnswer, BatchLine, Generation, StoredFile
from tests.hosting.scripted_engine import ScriptedEngine
from tests.waiting import wait_until

CHAT = "/v1/chat/completions"
QUESTION = {"model": "demo", "messages": [{"role": "user", "content": "Hi"}]}

pytestmark = pytest.mark.usefixtures("model")


@pytest.fixture(autouse=True)
def data_folder(tmp_path: Path, settings: Any) -> Iterator[Path]:
    settings.DATA_DIR = tmp_path
    settings.MIN_FREE_DISK_BYTES = 0
    yield tmp_path


def line(custom_id: str, **changes: Any) -> dict[str, Any]:
    return {"custom_id": custom_id, "method": "POST", "url": CHAT, "body": QUESTION} | changes


def given(person: User, api_key: str, lines: list[Any], **fields: Any) -> Batch:
    text = "".join(f"{one if isinstance(one, str) else json.dumps(one)}\n" for one in lines)
    file = store_file(person, [text.encode()], filename="in.jsonl", num_bytes=len(text))
    key = person.api_keys.get()
    return Batch.objects.create(
        user=person, api_key=key, endpoint=CHAT, input_file=file.pk, **fields
    )


def turn(runner: Runner | None = None) -> None:
    """What would come next, after what has ended was settled."""
    for one in Generation.objects.open():
        settle_generation(str(one.pk))
    open_ones = list(Batch.objects.open().select_related("user", "api_key"))
    (runner or Runner()).turn(open_ones)


def turn_until_begun() -> None:
    """Some lines are under way."""

    def has_begun() -> bool:
        turn()
        return BatchLine.objects.exists()

    wait_until(has_begun)


def finish(batch: Batch, *, new_runners: bool = False) -> Batch:
    runner = Runner()

    def is_over() -> bool:
        turn(Runner() if new_runners else runner)
        batch.refresh_from_db()
        return not batch.is_open

    wait_until(is_over, seconds=60)
    return batch


def written(folder: Path, file: Any) -> list[dict[str, Any]]:
    path = folder / "files" / file.hex
    return [json.loads(one) for one in path.read_text().splitlines()] if path.exists() else []


def test_each_line_is_answered_once(
    person: User, api_key: str, engine: ScriptedEngine, data_folder: Path
) -> None:
    batch = finish(given(person, api_key, [line(str(number)) for number in range(9)]))
    assert (batch.status, batch.num_lines, batch.num_completed) == ("completed", 9, 9)
    output = written(data_folder, batch.output_file)
    assert sorted(one["custom_id"] for one in output) == [str(number) for number in range(9)]
    response = output[0]["response"]
    assert response["status_code"] == 200 and output[0]["error"] is None
    assert response["body"]["choices"][0]["message"]["content"] == "Hello world"
    assert len(engine.generates) == UsageRecord.objects.count() == 9
    assert {one.priority for one in engine.generates} == {wire.Priority.BATCH}
    assert StoredFile.objects.get(pk=batch.output_file).num_bytes == batch.output_bytes
    assert batch.error_file_id is None
    assert batch.prompt_tokens == 81 and batch.completion_tokens == 18
    assert not BatchLine.objects.exists() and not BatchAnswer.objects.exists()


def test_whoever_dies_after_whatever_step_the_next_one_goes_on(
    person: User, api_key: str, engine: ScriptedEngine, data_folder: Path
) -> None:
    batch = given(person, api_key, [line(str(number)) for number in range(9)])
    finish(batch, new_runners=True)
    ids = [one["custom_id"] for one in written(data_folder, batch.output_file)]
    assert sorted(ids) == [str(number) for number in range(9)]
    assert UsageRecord.objects.count() == 9


def test_bytes_that_were_not_counted_are_written_over(
    person: User, api_key: str, engine: ScriptedEngine, data_folder: Path
) -> None:
    batch = given(person, api_key, [line("a"), line("b")])
    turn()
    part = data_folder / "files" / f"{batch.output_file.hex}.part"
    part.write_bytes(b"written by who died then, and more than comes now " * 1000)
    finish(batch)
    ids = [one["custom_id"] for one in written(data_folder, batch.output_file)]
    assert sorted(ids) == ["a", "b"]


def test_an_answer_outlives_all_that_redis_knew(
    person: User, api_key: str, engine: ScriptedEngine, data_folder: Path, redis_url: str
) -> None:
    """It is paid: it is not computed, and paid, again."""
    batch = given(person, api_key, [line("a")])
    turn_until_begun()
    generation = Generation.objects.get()
    wait_until(lambda: settle_generation(str(generation.pk)))
    engine._redis.flushall()
    finish(batch, new_runners=True)
    assert [one["custom_id"] for one in written(data_folder, batch.output_file)] == ["a"]
    assert len(engine.generates) == UsageRecord.objects.count() == 1


@pytest.mark.parametrize(
    ("wrong", "param", "code"),
    [
        ("no json", None, "invalid_json_line"),
        ("[]", None, "invalid_json_line"),
        ({"method": "POST", "url": CHAT, "body": QUESTION}, "custom_id", "invalid_custom_id"),
        (line("first"), "custom_id", "duplicate_custom_id"),
        (line("b", url="/v1/embeddings"), "url", "invalid_url"),
        (line("b", method="GET"), "method", "invalid_method"),
        (line("b", body=[]), "body", "invalid_body"),
        (line("b", body=QUESTION | {"stream": True}), "body.stream", "invalid_value"),
        (line("b", body=QUESTION | {"model": "gone"}), "body.model", "model_not_found"),
        (line("b", body={}), "body.model", "invalid_value"),
    ],
)
def test_what_is_wrong_with_a_line_is_told_before_anything_begins(
    person: User, api_key: str, engine: ScriptedEngine, wrong: Any, param: str, code: str
) -> None:
    batch = finish(given(person, api_key, [line("first"), "", wrong]))
    (error,) = batch.errors
    assert (batch.status, error["line"], error["param"], error["code"]) == (
        "failed", 3, param, code,
    )  # fmt: skip
    assert not engine.generates


def test_an_empty_file_is_refused(person: User, api_key: str, engine: ScriptedEngine) -> None:
    batch = finish(given(person, api_key, ["", ""]))
    assert batch.errors[0]["code"] == "empty_file"


def test_what_the_address_refuses_is_told_in_the_file_of_errors(
    person: User, api_key: str, engine: ScriptedEngine, data_folder: Path
) -> None:
    bad = line("bad", body=QUESTION | {"temperature": 7})
    batch = finish(given(person, api_key, [bad, line("good")]))
    assert (batch.status, batch.num_completed, batch.num_failed) == ("completed", 1, 1)
    (error,) = written(data_folder, batch.error_file)
    assert (error["custom_id"], error["response"]["status_code"]) == ("bad", 400)
    assert error["response"]["body"]["error"]["param"] == "temperature"
    assert [one["custom_id"] for one in written(data_folder, batch.output_file)] == ["good"]


def test_what_intake_refuses_too(
    person: User, api_key: str, engine: ScriptedEngine, data_folder: Path
) -> None:
    engine.refusal = wire.Refused(code=wire.Code.CONTEXT_LENGTH_EXCEEDED, detail="Too long.")
    batch = finish(given(person, api_key, [line("a")]))
    (error,) = written(data_folder, batch.error_file)
    assert error["response"]["body"]["error"]["code"] == "context_length_exceeded"


def test_a_full_queue_is_waited_for(
    person: User, api_key: str, engine: ScriptedEngine, data_folder: Path
) -> None:
    engine.refusal = wire.Refused(code=wire.Code.QUEUE_FULL, detail="Full.")
    batch = given(person, api_key, [line("a")])
    runner = Runner()

    def is_put_off() -> bool:
        turn(runner)
        return BatchLine.objects.filter(generations=[None]).exists()

    wait_until(is_put_off)
    engine.refusal = None
    BatchLine.objects.update(again_at=None)
    finish(batch)
    assert [one["custom_id"] for one in written(data_folder, batch.output_file)] == ["a"]
    assert batch.num_failed == 0


def test_a_cancelled_batch_keeps_what_is_done(
    person: User, api_key: str, engine: ScriptedEngine, data_folder: Path
) -> None:
    batch = given(person, api_key, [line("a"), *(line(f"{n}") for n in range(20))])
    runner = Runner()

    def has_some() -> bool:
        turn(runner)
        batch.refresh_from_db()
        return batch.num_completed > 0

    wait_until(has_some)
    engine.script = engine.script[:-1]
    Batch.objects.update(status="cancelling")
    batch = finish(batch)
    assert batch.status == "cancelled" and batch.num_failed == 0
    assert len(written(data_folder, batch.output_file)) == batch.num_completed < 21
    assert not Generation.objects.open().exists()


def test_what_is_not_done_in_time_is_told_in_the_file_of_errors(
    person: User, api_key: str, engine: ScriptedEngine, data_folder: Path
) -> None:
    engine.script = engine.script[:-1]
    batch = given(person, api_key, [line(f"{number}") for number in range(12)])
    turn_until_begun()
    Batch.objects.update(expires_at=batch.created_at)
    batch = finish(batch)
    assert (batch.status, batch.num_failed) == ("expired", 12)
    errors = written(data_folder, batch.error_file)
    assert sorted(int(one["custom_id"]) for one in errors) == list(range(12))
    assert {one["error"]["code"] for one in errors} == {"batch_expired"}


@pytest.mark.parametrize("how", ["revoked", "deleted", "person"])
def test_access_that_ends_ends_the_batch(
    person: User, api_key: str, engine: ScriptedEngine, how: str
) -> None:
    engine.script = engine.script[:-1]
    batch = given(person, api_key, [line(f"{number}") for number in range(12)])
    turn_until_begun()
    if how == "person":
        User.objects.filter(pk=person.pk).update(is_active=False)
    elif how == "revoked":
        person.api_keys.update(revoked_at=batch.created_at)
    else:
        person.api_keys.all().delete()
    batch = finish(batch)
    assert batch.status == "failed" and batch.errors[0]["code"] == "key_expired"
    assert not Generation.objects.open().exists()


def test_no_more_than_half_of_what_its_person_may_have_is_under_way(
    person: User, api_key: str, engine: ScriptedEngine, settings: Any
) -> None:
    settings.MAX_CONCURRENT_PER_PERSON = 6
    engine.is_busy = True
    given(person, api_key, [line(f"{number}") for number in range(12)])
    for _ in range(4):
        turn()
    assert BatchLine.objects.count() == Generation.objects.count() == 3
    engine.is_busy = False


def test_without_an_engine_nothing_is_begun_and_nothing_fails(
    person: User, api_key: str, redis_url: str
) -> None:
    batch = given(person, api_key, [line("a")])
    for _ in range(3):
        turn()
    batch.refresh_from_db()
    assert batch.status == "in_progress" and not Generation.objects.exists()


def test_one_runner_at_a_time(person: User, api_key: str) -> None:
    batch = given(person, api_key, ["no json"])
    with locked(lock_file()) as lock:
        assert lock is not None
        run_all(threading.Event())
    batch.refresh_from_db()
    assert batch.status == "validating"


def test_a_runner_ends_with_the_last_batch(person: User, api_key: str) -> None:
    batch = given(person, api_key, ["no json"])
    run_all(threading.Event())
    batch.refresh_from_db()
    assert batch.status == "failed"


def test_a_runner_ends_when_it_is_told_to(person: User, api_key: str) -> None:
    batch = given(person, api_key, ["no json"])
    stop = threading.Event()
    stop.set()
    run_all(stop)
    batch.refresh_from_db()
    assert batch.status == "validating"


def test_redis_is_lost_while_a_line_runs(
    person: User, api_key: str, engine: ScriptedEngine, data_folder: Path, settings: Any
) -> None:
    engine.num_forgotten = 1
    batch = given(person, api_key, [line("a")])
    turn_until_begun()
    wait_until(lambda: engine.num_forgotten == 0)
    Generation.objects.update(created_at=batch.created_at.replace(year=2020))
    reconcile()
    finish(batch)
    assert [one["custom_id"] for one in written(data_folder, batch.output_file)] == ["a"]
    assert UsageRecord.objects.count() == 1


def test_a_full_disk_is_waited_for(
    person: User,
    api_key: str,
    engine: ScriptedEngine,
    data_folder: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    sync, failures = os.fsync, [errno.ENOSPC] * 2

    def fsync(descriptor: int) -> None:
        if failures:
            raise OSError(failures.pop(), "full")
        sync(descriptor)

    batch = given(person, api_key, [line(f"{number}") for number in range(5)])
    monkeypatch.setattr(file_bytes.os, "fsync", fsync)
    finish(batch, new_runners=True)
    assert not failures
    ids = [one["custom_id"] for one in written(data_folder, batch.output_file)]
    assert sorted(ids) == [f"{number}" for number in range(5)]
    assert UsageRecord.objects.count() == 5


def test_who_has_less_under_way_comes_first(person: User, stranger: User, api_key: str) -> None:
    mine = given(person, api_key, [line("a")])
    key, _ = create_api_key(user=stranger, name="other")
    other = Batch.objects.create(
        user=stranger, api_key=key, endpoint=CHAT, input_file=mine.input_file
    )
    shares, turns = Shares({mine: [], other: []}), []
    while (batch := shares.next_of([mine, mine, other])) is not None and len(turns) < 6:
        shares.add(batch, 2 if batch is mine else 1)
        turns.append("mine" if batch is mine else "other")
    assert turns == ["mine", "other", "other", "mine", "other", "other"]


def test_a_batch_ends_when_its_file_is_gone_while_lines_are_under_way(
    person: User, api_key: str, engine: ScriptedEngine
) -> None:
    batch = given(person, api_key, [line("1"), line("2")])
    turn_until_begun()
    file_bytes.path_of(batch.input_file).unlink()

    def has_ended() -> bool:
        turn()
        batch.refresh_from_db()
        return not batch.is_open

    wait_until(has_ended)
    assert batch.status == Batch.Status.FAILED
    assert batch.errors[0]["code"] == "file_not_found"


def test_answers_leave_the_disk_the_room_that_uploads_leave(
    person: User, api_key: str, engine: ScriptedEngine, settings: Any
) -> None:
    batch = given(person, api_key, [line("1")])
    turn_until_begun()
    settings.MIN_FREE_DISK_BYTES = 2**60

    def has_ended() -> bool:
        turn()
        return not Generation.objects.open().exists()

    wait_until(has_ended)
    turn()
    batch.refresh_from_db()
    assert batch.output_bytes == 0
    assert BatchLine.objects.exists()
    settings.MIN_FREE_DISK_BYTES = 0
    assert finish(batch).num_completed == 1
