"""Benchmarks of a model: how fast it is, and how many questions it answers rightly."""

from __future__ import annotations

from typing import Any

from django.conf import settings
from django.db import models
from django.utils import timezone


class QuestionSetQuerySet(models.QuerySet["QuestionSet"]):
    def untold(self) -> QuestionSetQuerySet:
        """Without the questions, which may be megabytes."""
        return self.defer("questions")


class QuestionSet(models.Model):
    """Questions as they were asked, each set once; its rows never change. It is there as long as a
    benchmark is that asked it.

    `questions`: hosting/benchmarks/questions.py says what each has.
    """

    digest = models.CharField(max_length=64, unique=True)
    name = models.CharField(max_length=200)
    questions = models.JSONField()
    num_questions = models.PositiveIntegerField()
    created_at = models.DateTimeField(default=timezone.now)

    objects = QuestionSetQuerySet.as_manager()

    class Meta:
        ordering = ["-created_at", "-id"]

    def __str__(self) -> str:
        return f"{self.name} ({self.num_questions})"


class BenchmarkQuerySet(models.QuerySet["Benchmark"]):
    def open(self) -> BenchmarkQuerySet:
        """Those that somebody must go on with, or end."""
        return self.filter(state__in=Benchmark.OPEN_STATES)


class Benchmark(models.Model):
    """WAITING → RUNNING → DONE | FAILED | CANCELLED | INTERRUPTED. One runs at a time.

    `speed` holds what was measured, not what is made of it (hosting/benchmarks/figures.py).
    `generations`: the ids of those under way, which end with it.
    """

    class State(models.TextChoices):
        WAITING = "waiting"
        RUNNING = "running"
        DONE = "done"
        FAILED = "failed"
        CANCELLED = "cancelled"
        INTERRUPTED = "interrupted"

    OPEN_STATES = (State.WAITING, State.RUNNING)

    model_name = models.CharField("model", max_length=100)
    user = models.ForeignKey(
        settings.AUTH_USER_MODEL,
        models.SET_NULL,
        null=True,
        related_name="+",
        verbose_name="started by",
    )
    note = models.CharField(
        max_length=200, blank=True, help_text="What is special about this run, for later."
    )
    # Empty: speed is not measured
    prompt_lengths = models.JSONField(default=list)
    streams = models.JSONField(default=list)
    # None: accuracy is not
    question_set = models.ForeignKey(
        QuestionSet, models.PROTECT, null=True, related_name="benchmarks"
    )
    answer_tokens = models.PositiveIntegerField(default=64)

    state = models.CharField(max_length=16, choices=State, default=State.WAITING)
    detail = models.TextField(blank=True)
    doing = models.CharField(max_length=100, blank=True)
    num_steps = models.PositiveIntegerField(default=0)
    num_done = models.PositiveIntegerField(default=0)
    is_cancel_requested = models.BooleanField(default=False)
    generations = models.JSONField(default=list)

    conditions = models.JSONField(default=dict)
    speed = models.JSONField(default=list)
    num_right = models.PositiveIntegerField(default=0)
    num_asked = models.PositiveIntegerField(default=0)
    num_others = models.PositiveIntegerField(default=0)

    created_at = models.DateTimeField(default=timezone.now)
    started_at = models.DateTimeField(null=True)
    ended_at = models.DateTimeField(null=True)

    objects = BenchmarkQuerySet.as_manager()

    class Meta:
        ordering = ["-created_at", "-id"]
        indexes = [models.Index(fields=["model_name", "created_at"], name="benchmarks_of_model")]

    def __str__(self) -> str:
        return f"benchmark {self.pk} of {self.model_name}"

    @property
    def is_open(self) -> bool:
        return self.state in self.OPEN_STATES

    @property
    def measures_speed(self) -> bool:
        return bool(self.prompt_lengths or self.streams)


class BenchmarkAnswer(models.Model):
    """What a model answered to the question at `number` of the set. `found`: what was taken out of
    the text as its answer, empty where there was none in the form that was asked for."""

    benchmark = models.ForeignKey(Benchmark, models.CASCADE, related_name="answers", db_index=False)
    number = models.PositiveIntegerField()
    text = models.TextField(blank=True)
    found = models.TextField(blank=True)
    is_right = models.BooleanField()

    class Meta:
        ordering = ["number"]
        constraints = [
            models.UniqueConstraint(fields=["benchmark", "number"], name="a_question_once")
        ]

    def __str__(self) -> str:
        return f"answer {self.number}"

    def told(self, question: dict[str, Any]) -> dict[str, Any]:
        """With its question, as it is downloaded."""
        return {
            "number": self.number,
            **question,
            "answered": self.text,
            "found": self.found,
            "right": self.is_right,
        }
