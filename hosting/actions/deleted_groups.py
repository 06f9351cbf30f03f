"""A group is deleted while what it pays for is answered."""

from __future__ import annotations

from typing import Any

from django.contrib.auth.models import Group

from hosting.models import Generation


def hold_what_it_pays(instance: Group, **_: Any) -> None:
    """Before anything of the group goes: who settles has done so, and waits for none of it."""
    paid = Generation.objects.open().filter(paying_group=instance).order_by("pk")
    list(paid.select_for_update(no_key=True).values_list("pk"))
