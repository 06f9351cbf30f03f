"""What is asked when a benchmark is started: of which model, and what is measured."""

from __future__ import annotations

from typing import Any

from django import forms
from django.core.files.uploadedfile import UploadedFile
from unfold.widgets import (
    UnfoldAdminCheckboxSelectMultipleWidget,
    UnfoldAdminFileFieldWidget,
    UnfoldAdminIntegerFieldWidget,
    UnfoldAdminSelectWidget,
    UnfoldAdminTextInputWidget,
)

from accounts.models import User
from hosting.actions.benchmarks import MOST_ANSWER_TOKENS, NewBenchmark, Questions, start_benchmark
from hosting.actions.refusals import Refusal
from hosting.benchmarks.questions import (
    MOST_BYTES,
    OWN_NAME,
    WrongQuestions,
    own_questions,
    read_questions,
)
from hosting.models import Benchmark, HostedModel, QuestionSet

_OWN = ""
_MOST_LISTED = 50
_FORMAT = (
    'One question a line, as JSON: {"question": "2 + 2?", "answer": "4"}; with "choices" a list, '
    'where the answer is one of them; "category" and "exact" as you like. Instead of the above.'
)


class Numbers(forms.CharField):
    """Whole numbers with commas between them."""

    widget = UnfoldAdminTextInputWidget(attrs={"autocomplete": "off", "inputmode": "numeric"})

    def clean(self, value: Any) -> list[int]:
        parts = super().clean(value).replace(";", ",").split(",")
        texts = [part.strip() for part in parts if part.strip()]
        if not all(text.isascii() and text.isdigit() and len(text) < 9 for text in texts):
            raise forms.ValidationError("Whole numbers with commas between them, like 128, 1024.")
        return [int(text) for text in texts]


class BenchmarkForm(forms.Form):
    model = forms.ChoiceField(widget=UnfoldAdminSelectWidget)
    what = forms.MultipleChoiceField(
        label="Measure",
        choices=[("speed", "Speed"), ("accuracy", "Accuracy")],
        initial=["speed", "accuracy"],
        widget=UnfoldAdminCheckboxSelectMultipleWidget,
        error_messages={"required": "Choose speed, accuracy or both."},
    )
    prompt_lengths = Numbers(
        label="Speed: prompt lengths",
        required=False,
        initial="128, 1024, 4096",
        help_text="In tokens. What the model or the memory cannot take is left out, and said.",
    )
    streams = Numbers(
        label="Speed: answers at once",
        required=False,
        initial="1, 4, 16",
        help_text="Of 128 tokens each, after prompts of 128.",
    )
    questions = forms.ChoiceField(
        label="Accuracy: questions", required=False, widget=UnfoldAdminSelectWidget
    )
    upload = forms.FileField(
        label="Accuracy: a file of your own",
        required=False,
        widget=UnfoldAdminFileFieldWidget,
        help_text=_FORMAT,
    )
    answer_tokens = forms.IntegerField(
        label="Accuracy: longest answer",
        initial=64,
        min_value=1,
        max_value=MOST_ANSWER_TOKENS,
        widget=UnfoldAdminIntegerFieldWidget,
        help_text="In tokens. More for a model that cannot do without thinking.",
    )
    note = forms.CharField(
        required=False,
        max_length=Benchmark._meta.get_field("note").max_length,
        help_text="What is special about this run, for later.",
        widget=UnfoldAdminTextInputWidget(attrs={"autocomplete": "off"}),
    )

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        names = HostedModel.objects.answering().values_list("name", flat=True)
        self.fields["model"].choices = [(name, name) for name in names]
        sets = QuestionSet.objects.untold().exclude(name=OWN_NAME)[:_MOST_LISTED]
        stored = [(str(one.pk), f"{one}, of {one.created_at:%Y-%m-%d}") for one in sets]
        self.fields["questions"].choices = [(_OWN, f"{OWN_NAME} (100)"), *stored]

    def clean_upload(self) -> Questions | None:
        file: UploadedFile | None = self.cleaned_data["upload"]
        if file is None:
            return None
        try:
            return read_questions(file.read(MOST_BYTES + 1), name=file.name or "A file")
        except WrongQuestions as wrong:
            raise forms.ValidationError(list(wrong.errors)) from wrong

    def clean(self) -> dict[str, Any]:
        given = super().clean() or {}
        names = ("prompt_lengths", "streams")
        if "speed" in given.get("what", ()) and not any(given.get(name, True) for name in names):
            self.add_error(names[0], "For speed, give a length, or a number of answers at once.")
        return given

    def start(self, user: User, address: str) -> Benchmark | None:
        """None when it is refused, and the form then says why."""
        try:
            return start_benchmark(self._wanted(), user=user, address=address)
        except Refusal as refusal:
            field = refusal.field if refusal.field in self.fields else "model"
            self.add_error(field, refusal.message)
            return None

    def _wanted(self) -> NewBenchmark:
        given = self.cleaned_data
        has_speed, has_accuracy = (one in given["what"] for one in ("speed", "accuracy"))
        return NewBenchmark(
            model_name=given["model"],
            prompt_lengths=given["prompt_lengths"] if has_speed else (),
            streams=given["streams"] if has_speed else (),
            questions=self._questions() if has_accuracy else None,
            answer_tokens=given["answer_tokens"],
            note=given["note"],
        )

    def _questions(self) -> Questions:
        given = self.cleaned_data
        if given["upload"] is not None:
            return given["upload"]
        if given["questions"] == _OWN:
            return own_questions()
        try:
            stored = QuestionSet.objects.get(pk=given["questions"])
        except QuestionSet.DoesNotExist:
            message = "These questions were deleted meanwhile."
            raise Refusal("not_found", message, field="questions") from None
        return Questions(name=stored.name, items=stored.questions)
