"""Which models read images; of those that are there, as their folders say."""

import json
from pathlib import Path

from django.db import migrations, models

from engine.sizing.images import sees


def note_image_readers(apps, schema_editor):
    HostedModel = apps.get_model("hosting", "HostedModel")
    for model in HostedModel.objects.filter(kind="generate").exclude(path=""):
        if sees(Path(model.path), _config(model.path)):
            HostedModel.objects.filter(pk=model.pk).update(supports_images=True)


def _config(folder):
    try:
        config = json.loads((Path(folder) / "config.json").read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return config if isinstance(config, dict) else {}


class Migration(migrations.Migration):
    dependencies = [("hosting", "0032_drafts")]

    operations = [
        migrations.AddField("hostedmodel", "supports_images", models.BooleanField(default=False)),
        migrations.RunPython(note_image_readers, migrations.RunPython.noop),
    ]
