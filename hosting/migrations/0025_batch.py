import django.db.models.deletion
import django.utils.timezone
import hosting.models.batch
import uuid
from django.conf import settings
from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("accounts", "0015_what_off_means"),
        ("hosting", "0024_stored_file"),
        migrations.swappable_dependency(settings.AUTH_USER_MODEL),
    ]

    operations = [
        migrations.CreateModel(
            name="BatchAnswer",
            fields=[
                (
                    "generation",
                    models.OneToOneField(
                        on_delete=django.db.models.deletion.CASCADE,
                        primary_key=True,
                        related_name="+",
                        serialize=False,
                        to="hosting.generation",
                    ),
                ),
                ("events", models.BinaryField()),
            ],
        ),
        migrations.AlterField(
            model_name="generation",
            name="kind",
            field=models.CharField(
                choices=[("chat", "Chat"), ("api", "API"), ("title", "Title"), ("batch", "Batch")],
                max_length=8,
            ),
        ),
        migrations.CreateModel(
            name="Batch",
            fields=[
                (
                    "id",
                    models.UUIDField(
                        default=uuid.uuid4, editable=False, primary_key=True, serialize=False
                    ),
                ),
                ("endpoint", models.CharField(max_length=64)),
                ("metadata", models.JSONField(null=True)),
                ("model_name", models.CharField(blank=True, max_length=100, verbose_name="model")),
                (
                    "status",
                    models.CharField(
                        choices=[
                            ("validating", "Validating"),
                            ("failed", "Failed"),
                            ("in_progress", "In progress"),
                            ("finalizing", "Finalizing"),
                            ("completed", "Completed"),
                            ("expired", "Expired"),
                            ("cancelling", "Cancelling"),
                            ("cancelled", "Cancelled"),
                        ],
                        default="validating",
                        max_length=16,
                    ),
                ),
                ("errors", models.JSONField(default=list)),
                ("input_file", models.UUIDField()),
                ("output_file", models.UUIDField(default=uuid.uuid4)),
                ("error_file", models.UUIDField(default=uuid.uuid4)),
                ("output_kept_seconds", models.PositiveIntegerField(null=True)),
                ("num_lines", models.PositiveIntegerField(default=0)),
                ("num_completed", models.PositiveIntegerField(default=0)),
                ("num_failed", models.PositiveIntegerField(default=0)),
                ("prompt_tokens", models.PositiveBigIntegerField(default=0)),
                ("cached_tokens", models.PositiveBigIntegerField(default=0)),
                ("completion_tokens", models.PositiveBigIntegerField(default=0)),
                ("reasoning_tokens", models.PositiveBigIntegerField(default=0)),
                ("next_line", models.PositiveIntegerField(default=1)),
                ("next_offset", models.PositiveBigIntegerField(default=0)),
                ("output_bytes", models.PositiveBigIntegerField(default=0)),
                ("error_bytes", models.PositiveBigIntegerField(default=0)),
                ("created_at", models.DateTimeField(default=django.utils.timezone.now)),
                ("expires_at", models.DateTimeField(default=hosting.models.batch._window_end)),
                ("in_progress_at", models.DateTimeField(null=True)),
                ("finalizing_at", models.DateTimeField(null=True)),
                ("cancelling_at", models.DateTimeField(null=True)),
                ("ended_at", models.DateTimeField(null=True)),
                (
                    "api_key",
                    models.ForeignKey(
                        null=True,
                        on_delete=django.db.models.deletion.SET_NULL,
                        related_name="+",
                        to="accounts.apikey",
                        verbose_name="API key",
                    ),
                ),
                (
                    "user",
                    models.ForeignKey(
                        db_index=False,
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="+",
                        to=settings.AUTH_USER_MODEL,
                        verbose_name="person",
                    ),
                ),
            ],
            options={
                "verbose_name_plural": "batches",
                "ordering": ["-created_at", "-id"],
            },
        ),
        migrations.CreateModel(
            name="BatchLine",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                ("number", models.PositiveIntegerField()),
                ("offset", models.PositiveBigIntegerField()),
                ("generations", models.JSONField()),
                ("num_attempts", models.PositiveIntegerField(default=1)),
                ("again_at", models.DateTimeField(null=True)),
                (
                    "batch",
                    models.ForeignKey(
                        db_index=False,
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="lines",
                        to="hosting.batch",
                    ),
                ),
            ],
        ),
        migrations.AddIndex(
            model_name="batch",
            index=models.Index(fields=["user", "-created_at", "-id"], name="batches_of_person"),
        ),
        migrations.AddIndex(
            model_name="batch",
            index=models.Index(
                condition=models.Q(("ended_at", None)), fields=["created_at"], name="batches_open"
            ),
        ),
        migrations.AddIndex(
            model_name="batch",
            index=models.Index(fields=["-created_at", "-id"], name="batches_newest"),
        ),
        migrations.AddConstraint(
            model_name="batchline",
            constraint=models.UniqueConstraint(fields=("batch", "number"), name="a_line_once"),
        ),
    ]
