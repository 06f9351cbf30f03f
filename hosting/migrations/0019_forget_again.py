from django.db import migrations


def forget_again(apps, schema_editor):
    """Engines hear what to forget by a stream of its own: what is in the former one is told again."""
    apps.get_model("hosting", "Forgetting").objects.update(told_at=None)


class Migration(migrations.Migration):
    dependencies = [
        ("hosting", "0018_forgettings"),
    ]

    operations = [
        migrations.RunPython(forget_again, migrations.RunPython.noop),
    ]
