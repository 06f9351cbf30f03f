from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("accounts", "0006_daily_usage")]

    operations = [
        migrations.AddField(
            model_name="user",
            name="session_epoch",
            field=models.PositiveIntegerField(default=0, editable=False),
        ),
    ]
