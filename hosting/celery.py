"""The Celery application: `celery -A hosting worker --pool threads`."""

import os

from celery import Celery

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "hosting.settings")

app = Celery("hosting")
app.config_from_object("django.conf:settings", namespace="CELERY")
app.autodiscover_tasks()
app.set_default()  # also in threads, where tasks are enqueued by name
