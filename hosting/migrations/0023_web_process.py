from django.db import migrations, models


class Migration(migrations.Migration):
    """Null and without a default: on both databases no row is written anew."""

    dependencies = [
        ("hosting", "0022_least_numbers"),
    ]

    operations = [
        migrations.AddField(
            model_name="generation",
            name="web_process",
            field=models.UUIDField(editable=False, null=True),
        ),
    ]
