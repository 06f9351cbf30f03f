"""A benchmark is begun, measured and ended once, whatever happens while it runs."""

from __future__ import annotations

import threading
from types import SimpleNamespace
from typing import Any

import pytest
from django.contrib.auth.models import Group

from accounts.models import AuditRecord, UsageRecord, User
from engine import wire
from hosting.actions.benchmarks import (
    Questions,
    cancel_benchmark,
    delete_benchmark,
)
from hosting.actions.my_data import delete_person
from hosting.actions.process_locks import locked
from hosting.actions.refusals import Refusal
from hosting.benchmarks import asking
from hosting.benchmarks.figures import shares_of, speed_rows
from hosting.benchmarks.process import DIED, lock_file
from hosting.benchmarks.runner import STOPPED
from hosting.models import (
    BatchAnswer,
    Benchmark,
    BenchmarkAnswer,
    Forgetting,
    Generation,
    HostedModel,
    QuestionSet,
)
from tests.hosting.benchmark_rig import ITEMS, Worker, begun, run, settle_all
from tests.hosting.benchmark_rig import _files as _files
from tests.hosting.benchmark_rig import _quick as _quick
from tests.hosting.benchmark_rig import data_folder as data_folder
from tests.hosting.benchmark_rig import root as root
from tests.hosting.benchmark_rig import worker as worker
from tests.hosting.scripted_engine import ENDLESS, ScriptedEngine, delta, finished
from tests.waiting import wait_until


def test_right_answers_are_counted_and_each_can_be_read(root: User, engine: ScriptedEngine) -> None:
    benchmark = run(begun(root))
    assert (benchmark.state, benchmark.detail) == ("done", "")
    assert (benchmark.num_right, benchmark.num_asked, benchmark.num_done) == (2, 3, 3)
    answers = list(benchmark.answers.values_list("found", "is_right"))
    assert answers == [("Hello world", True), ("Hello world", False), ("A", True)]
    shares = [(one.category, one.right, one.asked) for one in shares_of(benchmark)]
    assert shares == [("All", 2, 3), ("a", 2, 2), ("b", 0, 1)]
    assert benchmark.answers.all()[1].told(ITEMS[1])["answered"] == "Hello world"


def test_its_requests_are_greedy_of_the_lowest_priority_and_nobodys_quota(
    root: User, engine: ScriptedEngine
) -> None:
    HostedModel.objects.update(default_temperature=0.9, default_repetition_penalty=1.3)
    run(begun(root))
    sent = engine.generates[0]
    assert sent.sampling == wire.Sampling(seed=0, temperature=0.0)
    assert (sent.priority, sent.tenant) == (wire.Priority.BATCH, "benchmarks")
    assert sent.template_options == {"enable_thinking": False}
    assert {one.kind for one in Generation.objects.all()} == {"bench"}
    assert not Generation.objects.counted().exists()
    lines = UsageRecord.objects.values_list("kind", "charged_tokens", "completion_tokens")
    assert set(lines) == {("internal", 0, 2)}
    assert not BatchAnswer.objects.exists()


def test_speed_is_measured_with_new_prompts_of_exact_lengths(
    root: User, engine: ScriptedEngine
) -> None:
    benchmark = run(begun(root, questions=None, prompt_lengths=[32, 16], streams=[2]))
    assert (benchmark.state, benchmark.detail) == ("done", "")
    assert benchmark.num_done == benchmark.num_steps == 2 * 7 + 6
    reading, _, writing = benchmark.speed
    assert (reading["tokens"], reading["ttft"]) == (16, [0.5] * 5)
    assert reading["warm_cached"] == 4
    assert (writing["streams"], len(writing["totals"]), len(writing["each"])) == (2, 5, 10)
    prompts = [one.prompt_token_ids for one in engine.generates]
    assert [len(one or ()) for one in prompts[:14]] == [16] * 7 + [32] * 7
    assert prompts[5] == prompts[6] and len(set(prompts)) == len(prompts) - 2
    assert dict(engine.generates[0].sampling.logit_bias) == {2: -100.0, 3: -100.0}
    rows = {row.key: row.figure for row in speed_rows(benchmark)}
    assert rows["read-16-ttft"] is not None and rows["read-16-ttft"].text == "500 ms"


def test_what_is_too_long_is_left_out_with_a_reason(root: User, engine: ScriptedEngine) -> None:
    benchmark = run(begun(root, questions=None, prompt_lengths=[600]))
    assert benchmark.state == "done" and benchmark.num_done == benchmark.num_steps
    assert benchmark.speed[0]["skipped"] == "The model takes 600 tokens, with the answer."
    assert not engine.generates
    engine.refusal = wire.Refused(code=wire.Code.DOES_NOT_FIT, detail="It needs 3 GB.")
    benchmark = run(begun(root, questions=None, prompt_lengths=[64]))
    assert benchmark.state == "done" and benchmark.num_done == benchmark.num_steps
    assert benchmark.speed[0]["skipped"] == "It needs 3 GB."


def test_what_lost_its_engine_is_measured_anew(root: User, engine: ScriptedEngine) -> None:
    engine.script = (wire.Started(cached_tokens=0), wire.Resumed(at_tokens=0), finished())
    benchmark = run(begun(root, questions=None, prompt_lengths=[16]))
    assert benchmark.state == "failed" and "3 times" in benchmark.detail
    assert len({one.prompt_token_ids for one in engine.generates}) == 3


def test_a_model_that_cannot_be_loaded_fails_it_with_the_reason(
    root: User, engine: ScriptedEngine
) -> None:
    detail = "The weights are broken."
    engine.script = (wire.Failed(code=wire.Code.MODEL_LOAD_FAILED, detail=detail),)
    benchmark = run(begun(root))
    assert (benchmark.state, benchmark.detail) == ("failed", detail)


def test_a_model_that_is_gone_when_its_turn_comes_fails_it(root: User) -> None:
    benchmark = begun(root)
    HostedModel.objects.all().delete()
    assert run(benchmark).state == "failed"
    assert "removed" in benchmark.detail


def test_a_full_queue_is_waited_for(
    root: User, engine: ScriptedEngine, monkeypatch: pytest.MonkeyPatch, worker: Worker
) -> None:
    worker.finish()
    monkeypatch.setattr(asking, "_AGAIN_SECONDS", 0.01)
    engine.refusal = wire.Refused(code=wire.Code.QUEUE_FULL, detail="Full.")
    benchmark = begun(root)
    second = Worker()
    wait_until(lambda: second.is_running and len(engine.generates) > 1)
    engine.refusal = None
    second.finish()
    benchmark.refresh_from_db()
    assert (benchmark.state, benchmark.num_asked) == ("done", 3)


def test_cancelling_stops_what_runs_and_keeps_what_is_done(
    root: User, engine: ScriptedEngine
) -> None:
    benchmark = begun(root)
    waiting = begun(root)
    other = Worker()
    wait_until(lambda: other.is_running and BenchmarkAnswer.objects.exists())
    engine.script = ENDLESS
    wait_until(lambda: other.is_running and Generation.objects.open().exists())
    cancel_benchmark(waiting, actor=root)
    cancel_benchmark(benchmark, actor=root)
    other.finish()
    for one in (benchmark, waiting):
        one.refresh_from_db()
        assert (one.state, one.detail, one.is_open) == ("cancelled", "", False)
    assert benchmark.num_asked >= 1 and not Generation.objects.open().exists()
    assert not BatchAnswer.objects.exists()
    assert AuditRecord.objects.filter(action="benchmark.cancel").count() == 2
    with pytest.raises(Refusal, match="has ended already"):
        cancel_benchmark(benchmark, actor=root)


def test_a_request_that_an_administrator_stops_ends_it(root: User, engine: ScriptedEngine) -> None:
    engine.script = (wire.Started(cached_tokens=0), finished(wire.FinishReason.CANCELLED))
    benchmark = run(begun(root))
    assert (benchmark.state, benchmark.detail) == ("cancelled", "One of its requests was stopped.")


def test_what_its_worker_left_behind_is_interrupted_and_the_next_begins(
    root: User, engine: ScriptedEngine
) -> None:
    """As after kill -9: by its row it runs, its requests are open, and nobody has the lock."""
    left, waiting = begun(root), begun(root)
    stop = threading.Event()
    engine.script = ENDLESS
    Benchmark.objects.filter(pk=left.pk).update(state="running")
    left.refresh_from_db()
    asked = asking.Asking(left, HostedModel.objects.get(), stop)
    asked._begin([asked.order(prompt="x", max_tokens=5)], "Dying", 0.0)
    wait_until(lambda: len(engine.begun) == 1)
    other = Worker()
    wait_until(lambda: other.is_running and len(engine.begun) > 1)
    left.refresh_from_db()
    assert (left.state, left.detail, left.generations) == ("interrupted", DIED, [])
    assert engine.begun[0] in engine.cancelled
    cancel_benchmark(waiting, actor=root)
    other.finish()
    assert not BatchAnswer.objects.exists()


def test_a_worker_that_is_told_to_end_says_so(root: User, engine: ScriptedEngine) -> None:
    engine.script = ENDLESS
    benchmark = begun(root)
    other = Worker()
    wait_until(lambda: other.is_running and Generation.objects.open().exists())
    other.stop.set()
    other.finish()
    benchmark.refresh_from_db()
    assert (benchmark.state, benchmark.detail) == ("interrupted", STOPPED)
    wait_until(settle_all)
    assert not BatchAnswer.objects.exists()


def test_what_is_deleted_after_its_worker_died_leaves_nothing(
    root: User, engine: ScriptedEngine
) -> None:
    engine.script = ENDLESS
    left = begun(root)
    Benchmark.objects.update(state="running")
    left.refresh_from_db()
    asked = asking.Asking(left, HostedModel.objects.get(), threading.Event())
    asked._begin([asked.order(prompt="x", max_tokens=5)], "Dying", 0.0)
    wait_until(lambda: len(engine.begun) == 1)
    delete_benchmark(left, actor=root)
    wait_until(settle_all)
    assert not BatchAnswer.objects.exists()


def test_its_prompts_are_kept_for_no_group(root: User, engine: ScriptedEngine) -> None:
    """Engines forget what they keep for the tenant alone."""
    HostedModel.objects.update(cache_sharing=HostedModel.CacheSharing.TEAM)
    root.groups.add(Group.objects.create(name="Research"))
    run(begun(root))
    assert {(one.tenant, one.cache_teams) for one in engine.generates} == {("benchmarks", ())}


def test_one_runs_at_a_time(root: User, engine: ScriptedEngine) -> None:
    benchmark = begun(root)
    with locked(lock_file()) as is_ours:
        assert is_ours
        assert run(benchmark).state == "waiting"
    assert run(benchmark).state == "done"


def test_deleting_it_ends_it_and_its_questions_go_with_the_last(
    root: User, engine: ScriptedEngine
) -> None:
    done = run(begun(root))
    engine.script = ENDLESS
    benchmark = begun(root)
    assert QuestionSet.objects.count() == 1
    other = Worker()
    wait_until(lambda: other.is_running and Generation.objects.open().exists())
    delete_benchmark(benchmark, actor=root)
    other.finish()
    assert list(Benchmark.objects.all()) == [done] and not BatchAnswer.objects.exists()
    assert Forgetting.objects.filter(tenant="benchmarks").count() == 2  # also of the deleted one
    delete_benchmark(done, actor=root)
    assert not QuestionSet.objects.exists() and not BenchmarkAnswer.objects.exists()


def test_results_outlive_who_started_them(root: User, engine: ScriptedEngine) -> None:
    other = User.objects.create_superuser("other@example.org")
    done, waiting = run(begun(root)), begun(root)
    delete_person(root, actor=other, address="")
    done.refresh_from_db()
    assert done.user is None and done.num_right == 2
    assert run(waiting).state == "failed" and "deleted" in waiting.detail


def test_others_who_come_while_it_waits_are_told(
    root: User, engine: ScriptedEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    looks: list[str] = []

    def heartbeats() -> list[Any]:
        looks.append("user:7" if looks else "benchmarks")
        return [SimpleNamespace(rows=[SimpleNamespace(tenant=looks[-1])])]

    monkeypatch.setattr(asking, "heartbeats", heartbeats)
    engine.script = ENDLESS
    benchmark = begun(root, questions=Questions(name="One", items=ITEMS[:1]))
    other = Worker()
    wait_until(lambda: other.is_running and len(looks) > 1)
    engine.emit(engine.begun[0], finished())
    other.finish()
    benchmark.refresh_from_db()
    assert (benchmark.state, benchmark.num_others) == ("done", 1)


def test_thinking_is_no_part_of_an_answer(root: User, engine: ScriptedEngine) -> None:
    thought = delta("no", wire.Channel.REASONING)
    engine.script = (wire.Started(cached_tokens=0), thought, delta("Hello world"), finished())
    assert run(begun(root)).num_right == 2


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"model_name": "none"}, "There is no model 'none'"),
        ({"questions": None}, "Choose speed, accuracy or both"),
        ({"prompt_lengths": [0]}, "Prompt lengths are at most 8 numbers from 1 to 131,072"),
        ({"prompt_lengths": list(range(1, 10))}, "Prompt lengths are at most 8"),
        ({"streams": [65]}, "Numbers of streams are at most 8 numbers from 1 to 64"),
        ({"answer_tokens": 0}, "Answers may have 1 to 8,192 tokens"),
    ],
)
def test_what_cannot_be_run_is_refused(root: User, changes: dict[str, Any], told: str) -> None:
    with pytest.raises(Refusal, match=told):
        begun(root, **changes)
    assert not Benchmark.objects.exists()


def test_so_many_may_wait(root: User) -> None:
    for _ in range(20):
        begun(root)
    with pytest.raises(Refusal, match="20 benchmarks are waiting"):
        begun(root)
