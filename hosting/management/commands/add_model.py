"""`manage.py add_model PATH [--name NAME]`: register a model folder, or a Hugging Face id."""

from __future__ import annotations

from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from hosting.actions.hosted_models import ModelRefused, add_model
from hosting.models import HostedModel


class Command(BaseCommand):
    help = "Registers a folder with an MLX model, or a Hugging Face id to be fetched."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("source", metavar="PATH", help="a model folder, or owner/repository")
        parser.add_argument("--name", default="", help="what requests call it")
        parser.add_argument("--default", action="store_true", help="make it the default model")

    def handle(self, *args: Any, **options: Any) -> None:
        try:
            model = add_model(
                options["source"], name=options["name"], is_default=options["default"]
            )
        except ModelRefused as refused:
            raise CommandError(str(refused)) from refused
        if model.state == HostedModel.State.FETCHING:
            self.stdout.write(f"{model.name}: being fetched; the admin shows how far it is")
        else:
            self.stdout.write(f"{model.name}: registered from {model.path}")
