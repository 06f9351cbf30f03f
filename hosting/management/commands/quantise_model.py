"""`manage.py quantise_model NAME COPY [--bits 4]`: ask for a quantised copy of a model."""

from __future__ import annotations

from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser
from django.template.defaultfilters import filesizeformat

from engine.sizing.quantising import WAYS, Way
from hosting.actions.quantisations import CopyRefused, ask_for_copy
from hosting.models import HostedModel


class Command(BaseCommand):
    help = "Asks for a quantised copy of a model. It is made in the background."

    def add_arguments(self, parser: CommandParser) -> None:
        usual = Way()
        parser.add_argument("model", help="what requests call the model")
        parser.add_argument("copy", help="what they will call the copy")
        modes = sorted({way.mode for way in WAYS})
        parser.add_argument("--mode", default=usual.mode, choices=modes)
        parser.add_argument("--bits", type=int, help="2, 3, 4 (default), 5, 6 or 8")
        parser.add_argument("--group-size", type=int, help="32, 64 (default) or 128")

    def handle(self, *args: Any, **options: Any) -> None:
        model = HostedModel.objects.filter(name=options["model"]).first()
        if model is None:
            raise CommandError(f"There is no model of this name: {options['model']}.")
        try:
            job = ask_for_copy(model, name=options["copy"], way=_way_of(options), by=None)
        except CopyRefused as refused:
            raise CommandError(str(refused)) from refused
        size = filesizeformat(job.estimated_bytes)
        self.stdout.write(f"{job.name}: asked for, about {size}; the admin shows how far it is")


def _way_of(options: dict[str, Any]) -> Way:
    """What is not said is as mlx-lm has it for the mode."""
    usual = next((way for way in WAYS if way.mode == options["mode"]), Way())
    usual = Way() if options["mode"] == Way().mode else usual
    return Way(
        mode=options["mode"],
        bits=options["bits"] or usual.bits,
        group_size=options["group_size"] or usual.group_size,
    )
