"""`manage.py benchmark MODEL EMAIL`: start a benchmark in the background, as the page does."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from accounts.models import User
from hosting.actions.benchmarks import NewBenchmark, Questions, start_benchmark
from hosting.actions.refusals import Refusal
from hosting.benchmarks.questions import WrongQuestions, own_questions, read_questions

ADDRESS = "/admin/hosting/benchmark/{}/change/"
MAY_START = "hosting.add_benchmark"


class Command(BaseCommand):
    help = "Measures how fast a model is, how many questions it answers rightly, or both."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("model", help="its name")
        parser.add_argument("email", help="who starts it: a person who may")
        parser.add_argument("--only", choices=["speed", "accuracy"], help="one of the two")
        parser.add_argument("--lengths", type=int, nargs="+", default=[128, 1024, 4096])
        parser.add_argument("--streams", type=int, nargs="+", default=[1, 4, 16])
        parser.add_argument("--questions", type=Path, metavar="FILE", help="JSONL of your own")
        parser.add_argument("--answer-tokens", type=int, default=64)
        parser.add_argument("--note", default="", help="what is special about this run")

    def handle(self, *args: Any, **options: Any) -> None:
        user = User.objects.filter(email=options["email"], is_active=True).first()
        if user is None or not user.has_perm(MAY_START):
            raise CommandError(f"{options['email']} is nobody who may start benchmarks.")
        has_speed, has_accuracy = (options["only"] in (None, one) for one in ("speed", "accuracy"))
        new = NewBenchmark(
            model_name=options["model"],
            prompt_lengths=options["lengths"] if has_speed else (),
            streams=options["streams"] if has_speed else (),
            questions=_questions(options["questions"]) if has_accuracy else None,
            answer_tokens=options["answer_tokens"],
            note=options["note"][:200],
        )
        try:
            benchmark = start_benchmark(new, user=user)
        except Refusal as refusal:
            raise CommandError(refusal.message) from refusal
        self.stdout.write(f"{benchmark} begins; {ADDRESS.format(benchmark.pk)} shows how far it is")


def _questions(path: Path | None) -> Questions:
    if path is None:
        return own_questions()
    try:
        return read_questions(path.read_bytes(), name=path.name)
    except OSError as error:
        raise CommandError(f"{path} cannot be read: {error.strerror}") from error
    except WrongQuestions as wrong:
        raise CommandError(str(wrong)) from wrong
