from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("hosting", "0019_forget_again"),
    ]

    operations = [
        migrations.AddField(
            model_name="hostedmodel",
            name="template_tokens",
            field=models.PositiveIntegerField(default=0, editable=False),
        ),
    ]
