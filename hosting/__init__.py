"""The Django project: pages, sockets, the OpenAI dialect, and the rows behind them."""

from hosting.celery import app as celery_app

__all__ = ["celery_app"]
