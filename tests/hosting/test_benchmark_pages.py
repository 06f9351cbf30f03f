"""What an administrator sees of benchmarks, starts, cancels and compares, and who may not."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from django.contrib.auth.models import Permission
from django.core.files.uploadedfile import SimpleUploadedFile
from django.core.management import CommandError, call_command
from django.test import Client
from django.utils import timezone

from accounts.models import AuditRecord, User
from hosting.benchmarks.comparison import compare_accuracy
from hosting.benchmarks.over_time import history_of
from hosting.models import Benchmark, BenchmarkAnswer, HostedModel, QuestionSet

LIST = "/admin/hosting/benchmark/"
FORM = {
    "model": "demo",
    "what": ["speed", "accuracy"],
    "prompt_lengths": "128, 64;",
    "streams": "1",
    "questions": "",
    "answer_tokens": "32",
    "note": "4 bits",
}
QUESTIONS = [
    {"question": "<b>2 + 2?</b>", "answer": ["4"], "category": "sums"},
    {"question": "Which?", "choices": ["x", "y"], "answer": ["B"], "category": "letters"},
]
RATES = [10.0, 11.0, 12.0]


@pytest.fixture
def root(transactional_db: None) -> User:
    return User.objects.create_superuser("root@example.org")


@pytest.fixture
def admin_page(root: User) -> Client:
    browser = Client()
    browser.force_login(root)
    return browser


@pytest.fixture
def questions(transactional_db: None) -> QuestionSet:
    return stored("Two", "d")


def stored(name: str, letter: str) -> QuestionSet:
    return QuestionSet.objects.create(
        digest=letter * 64, name=name, questions=QUESTIONS, num_questions=len(QUESTIONS)
    )


def measured(questions: QuestionSet, *, right: tuple[bool, bool], factor: float = 1) -> Benchmark:
    rates = [factor * rate for rate in RATES]
    benchmark = Benchmark.objects.create(
        model_name="demo",
        question_set=questions,
        prompt_lengths=[64],
        streams=[1, 4],
        state="done",
        conditions={"Machine": f"A machine, {factor}"},
        speed=[
            {"kind": "reading", "tokens": 64, "ttft": rates, "rates": rates, "warm_ttft": 0.1,
             "warm_cached": 63},
            {"kind": "writing", "streams": 1, "totals": rates, "each": rates, "ttft": rates,
             "wanted": 128, "shortest": 128},
            {"kind": "writing", "streams": 4, "skipped": "It needs 3 GB."},
        ],
        num_asked=2,
        num_right=sum(right),
        started_at=timezone.now(),
        ended_at=timezone.now(),
    )  # fmt: skip
    for number, is_right in enumerate(right, start=1):
        BenchmarkAnswer.objects.create(
            benchmark=benchmark, number=number, text="<i>four</i>", found="four", is_right=is_right
        )
    return benchmark


def html_of(browser: Client, path: str) -> str:
    response = browser.get(path)
    assert response.status_code == 200
    return str(response.content.decode())


def staff(*permissions: str) -> Client:
    user = User.objects.create_user("staff@example.org", is_staff=True)
    user.user_permissions.set(Permission.objects.filter(codename__in=permissions))
    browser = Client()
    browser.force_login(user)
    return browser


def test_one_is_started_waits_and_is_recorded(admin_page: Client, model: HostedModel) -> None:
    assert "Start a benchmark" in html_of(admin_page, f"{LIST}add/")
    response = admin_page.post(f"{LIST}add/", FORM)
    benchmark = Benchmark.objects.get()
    assert response.headers["Location"] == f"{LIST}{benchmark.pk}/change/"
    assert (benchmark.prompt_lengths, benchmark.streams) == ([64, 128], [1])
    assert (benchmark.answer_tokens, benchmark.note) == (32, "4 bits")
    assert benchmark.question_set is not None and len(benchmark.question_set.questions) == 100
    assert AuditRecord.objects.filter(action="benchmark.start").count() == 1
    page = html_of(admin_page, f"{LIST}{benchmark.pk}/change/")
    assert "Waiting for the background worker" in page
    state = admin_page.get(f"{LIST}{benchmark.pk}/state/").json()
    assert (state["is_open"], state["state"]) == (True, "waiting")


def test_only_what_is_wanted_is_measured(admin_page: Client, model: HostedModel) -> None:
    admin_page.post(f"{LIST}add/", FORM | {"what": ["speed"]})
    admin_page.post(f"{LIST}add/", FORM | {"what": ["accuracy"]})
    accuracy, speed = Benchmark.objects.all()
    assert (speed.question_set, speed.measures_speed) == (None, True)
    assert accuracy.question_set is not None and not accuracy.measures_speed


def test_ones_own_questions_are_kept_and_can_be_chosen_again(
    admin_page: Client, model: HostedModel
) -> None:
    content = b'{"question": "2 + 2?", "answer": 4}\n'
    file = SimpleUploadedFile("mine.jsonl", content)
    admin_page.post(f"{LIST}add/", FORM | {"upload": file})
    (stored,) = QuestionSet.objects.all()
    assert "mine.jsonl (1)" in html_of(admin_page, f"{LIST}add/")
    admin_page.post(f"{LIST}add/", FORM | {"questions": str(stored.pk)})
    assert stored.benchmarks.count() == 2


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"what": []}, "Choose speed, accuracy or both."),
        ({"model": "none"}, "none is not one of the available choices"),
        ({"prompt_lengths": "many"}, "Whole numbers with commas between them"),
        ({"prompt_lengths": "٣"}, "Whole numbers with commas between them"),
        ({"streams": "100"}, "Numbers of streams are at most 8 numbers from 1 to 64."),
        ({"prompt_lengths": "", "streams": ","}, "For speed, give a length"),
        ({"answer_tokens": "0"}, "greater than or equal to 1"),
        ({"questions": "99"}, "99 is not one of the available choices"),
        ({"upload": b"no"}, "Line 1, the whole line: this is not JSON."),
        ({"upload": b'{"question": "a"}'}, "Line 1, answer: this is missing."),
        ({"upload": b" " * (8 * 1024**2 + 1)}, "more than 8 MB"),
    ],
)
def test_what_is_wrong_is_told(
    admin_page: Client, model: HostedModel, changes: dict[str, Any], told: str
) -> None:
    if "upload" in changes:
        changes = {"upload": SimpleUploadedFile("mine.jsonl", changes["upload"])}
    response = admin_page.post(f"{LIST}add/", FORM | changes)
    assert response.status_code == 200 and told in response.content.decode()
    assert not Benchmark.objects.exists()


def test_a_result_is_read_with_its_intervals_and_conditions(
    admin_page: Client, questions: QuestionSet
) -> None:
    benchmark = measured(questions, right=(True, False))
    html = html_of(admin_page, f"{LIST}{benchmark.pk}/change/")
    for told in ("50.0 %", "9.5 % to 90.5 %", "11 tok/s", "10 to 12", "It needs 3 GB."):
        assert told in html
    assert "A machine, 1" in html and "&lt;b&gt;2 + 2?" in html and "&lt;i&gt;four" in html
    wrong = html_of(admin_page, f"{LIST}{benchmark.pk}/change/?show=wrong&page=x")
    assert "&lt;b&gt;2 + 2?" not in wrong and "Which?" in wrong
    assert "50.0 %" in html_of(admin_page, LIST)


def test_answers_are_downloaded_with_their_questions(
    admin_page: Client, questions: QuestionSet
) -> None:
    benchmark = measured(questions, right=(True, False))
    response = admin_page.get(f"{LIST}{benchmark.pk}/answers.jsonl")
    lines = [json.loads(line) for line in response.content.decode().splitlines()]
    assert [(line["number"], line["right"]) for line in lines] == [(1, True), (2, False)]
    assert lines[0]["question"] == "<b>2 + 2?</b>" and lines[0]["answered"] == "<i>four</i>"


def test_runs_side_by_side_say_what_is_no_luck(admin_page: Client, questions: QuestionSet) -> None:
    first = measured(questions, right=(True, False))
    same = measured(questions, right=(False, True), factor=1.1)
    faster = measured(questions, right=(True, True), factor=3)
    chosen = {"action": "compare", "_selected_action": [first.pk, same.pk, faster.pk]}
    response = admin_page.post(LIST, chosen)
    html = html_of(admin_page, response.headers["Location"])
    assert "no clear difference: right alone here 1, there 1" in html
    assert 'benchmark-good">200 % more' in html and 'benchmark-bad">200 % more' in html
    assert html.count(">differ<") == 1
    for runs in (
        "",
        "1",
        f"{first.pk},{first.pk}",
        f"{first.pk},999",
        f"{first.pk},x",
        "1,2,3,4,5",
    ):
        assert admin_page.get(f"{LIST}compare/?runs={runs}").status_code == 404


def test_a_category_may_be_called_all(questions: QuestionSet) -> None:
    questions.questions = [QUESTIONS[0] | {"category": "All"}, QUESTIONS[1]]
    questions.save()
    first = measured(questions, right=(True, True))
    second = measured(questions, right=(True, False))
    every, of_all, letters = compare_accuracy([first, second])
    assert [line.label for line in (every, of_all, letters)] == ["All", "All", "letters"]
    assert [cell.note for cell in every.cells] == ["2 of 2", "1 of 2"]
    assert [cell.note for cell in of_all.cells] == ["1 of 1", "1 of 1"]
    assert [bool(line.cells[1].verdict) for line in (every, of_all, letters)] == [
        True,
        False,
        False,
    ]


def test_other_questions_are_not_compared(admin_page: Client, questions: QuestionSet) -> None:
    others = stored("Others", "e")
    runs = (measured(questions, right=(True, True)), measured(others, right=(False, False)))
    html = html_of(admin_page, f"{LIST}compare/?runs={runs[0].pk},{runs[1].pk}")
    assert "other questions: not to be compared" in html


def test_a_models_runs_are_plotted_in_their_order(
    admin_page: Client, questions: QuestionSet
) -> None:
    for factor in (1, 2):
        measured(questions, right=(True, False), factor=factor)
    history = history_of("demo")
    assert history["times"] == sorted(history["times"]) and len(history["times"]) == 2
    plots = {plot["id"]: plot["series"] for plot in history["plots"]}
    assert [one["values"] for one in plots["writing"]] == [[11.0, 22.0]]
    assert plots[f"accuracy-{questions.pk}"][0]["values"] == [50.0, 50.0]
    assert "over time" in html_of(admin_page, f"{LIST}over-time/?model=demo")
    assert admin_page.get(f"{LIST}over-time/?model=none").status_code == 404


def test_one_is_cancelled_and_deleted_and_it_is_recorded(
    admin_page: Client, model: HostedModel, questions: QuestionSet
) -> None:
    admin_page.post(f"{LIST}add/", FORM)
    benchmark = Benchmark.objects.get()
    address = f"{LIST}{benchmark.pk}/"
    assert admin_page.get(f"{address}cancel/").status_code == 405
    assert admin_page.post(f"{address}cancel/").status_code == 302
    benchmark.refresh_from_db()
    assert benchmark.state == "cancelled"
    page = admin_page.post(f"{address}cancel/", follow=True).content.decode()
    assert "has ended already" in page
    asked = admin_page.post(LIST, {"action": "delete_selected", "_selected_action": [benchmark.pk]})
    assert str(benchmark) in asked.content.decode() and Benchmark.objects.exists()
    assert str(benchmark) in html_of(admin_page, f"{address}delete/")
    assert admin_page.post(f"{address}delete/", {"post": "yes"}).status_code == 302
    assert not Benchmark.objects.exists()
    done = [AuditRecord.objects.filter(action=f"benchmark.{verb}").count() for verb in
            ("start", "cancel", "delete")]  # fmt: skip
    assert done == [1, 1, 1]


def test_who_may_see_them_may_do_no_more(model: HostedModel, questions: QuestionSet) -> None:
    benchmark = measured(questions, right=(True, True))
    Benchmark.objects.update(state="running")
    browser = staff("view_benchmark")
    html = html_of(browser, f"{LIST}{benchmark.pk}/change/")
    assert "Cancel this benchmark" not in html and "/delete/" not in html
    for path in (f"{benchmark.pk}/cancel/", f"{benchmark.pk}/delete/", "add/"):
        assert browser.post(f"{LIST}{path}", FORM | {"post": "yes"}).status_code == 403
    browser.post(LIST, {"action": "cancel", "_selected_action": [benchmark.pk], "confirmed": "1"})
    benchmark.refresh_from_db()
    assert (benchmark.state, benchmark.is_cancel_requested) == ("running", False)


def test_who_may_not_see_them_is_refused(page: Client, questions: QuestionSet) -> None:
    benchmark = measured(questions, right=(True, True))
    paths = (f"{benchmark.pk}/change/", f"{benchmark.pk}/state/", f"{benchmark.pk}/answers.jsonl")
    paths += (f"compare/?runs={benchmark.pk},2", "over-time/?model=demo", "")
    without = staff("view_generation")
    for path in paths:
        assert without.get(LIST + path).status_code == 403
        assert page.get(LIST + path).status_code in (302, 403)


def test_the_command_starts_the_same(
    root: User, model: HostedModel, tmp_path: Path, capsys: Any
) -> None:
    file = tmp_path / "mine.jsonl"
    file.write_text('{"question": "2 + 2?", "answer": "4"}')
    call_command("benchmark", "demo", root.email, questions=file, lengths=[64], note="x")
    benchmark = Benchmark.objects.get()
    assert f"{LIST}{benchmark.pk}/change/" in capsys.readouterr().out
    assert (benchmark.prompt_lengths, benchmark.streams) == ([64], [1, 4, 16])
    assert str(benchmark.question_set) == "mine.jsonl (1)"
    User.objects.create_user("ada@example.org")
    file.write_text("no")
    for arguments, told in (
        (("demo", "ada@example.org"), "nobody who may start"),
        (("none", root.email), "no model 'none'"),
        (("demo", root.email, "--questions", str(file)), "Line 1, the whole line"),
        (("demo", root.email, "--questions", str(tmp_path)), "cannot be read"),
    ):
        with pytest.raises(CommandError, match=told):
            call_command("benchmark", *arguments)
    assert Benchmark.objects.count() == 1
