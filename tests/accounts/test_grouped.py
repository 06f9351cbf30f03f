"""Numbers for people are written one way on all pages: 12,345."""

from __future__ import annotations

import datetime

from django.template import Context, Template
from django.test import Client

from accounts.models import HourlyUsage, Quota, User


def test_lists_of_the_administration_write_numbers_with_separators(
    admin_page: Client, person: User
) -> None:
    Quota.objects.create(tokens_per_day=20_000)
    hour = datetime.datetime(2026, 11, 21, 14, tzinfo=datetime.UTC)
    HourlyUsage.objects.create(
        period=hour, user=person, model_name="demo", requests=1_500, prompt_tokens=1_234_567
    )
    limits = admin_page.get("/admin/accounts/quota/").content.decode()
    usage = admin_page.get("/admin/accounts/hourlyusage/").content.decode()
    assert "20,000" in limits
    assert "1,500" in usage
    assert "1,234,567" in usage
    assert "max concurrent" in limits.lower()


def test_templates_write_them_like_messages() -> None:
    page = Template('{{ number|floatformat:"0g" }}').render(Context({"number": 1_234_567}))
    assert page == f"{1_234_567:,}"
