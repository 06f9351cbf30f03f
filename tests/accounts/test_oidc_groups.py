"""Groups and administrators from the provider's claims, at each sign-in."""

from __future__ import annotations

from typing import Any

from django.contrib.auth.models import Group
from django.test import Client

from accounts.models import AuditRecord, User
from tests.accounts.oidc_flow import GRACE, process, provider, sign_in
from tests.accounts.oidc_provider import Provider

__all__ = ["process", "provider"]


def groups_of(email: str = "grace@example.org") -> list[str]:
    return sorted(User.objects.get(email=email).groups.values_list("name", flat=True))


def test_groups_come_and_go_with_each_sign_in(provider: Provider, settings: Any) -> None:
    settings.OIDC_GROUPS = {"ops": "Operations", "sci": "Research"}
    provider.knows("grace", **GRACE, groups=["sci", "unmapped"])
    sign_in(provider, "grace")
    assert groups_of() == ["Research"]
    User.objects.get().groups.add(Group.objects.create(name="by hand"))
    provider.knows("grace", **GRACE, groups="ops")
    sign_in(provider, "grace")
    assert groups_of() == ["Operations", "by hand"]
    provider.knows("grace", **GRACE)
    sign_in(provider, "grace")
    assert groups_of() == ["by hand"]
    told = AuditRecord.objects.filter(action="person.groups").order_by("number")
    assert [one.after for one in told] == [
        '{"groups": ["Research"]}',
        '{"groups": ["Operations"]}',
        '{"groups": []}',
    ]


def test_another_claim_can_hold_the_groups(provider: Provider, settings: Any) -> None:
    settings.OIDC_GROUPS_CLAIM = "https://example.org/roles"
    settings.OIDC_GROUPS = {"sci": "Research"}
    provider.knows("grace", **GRACE | {"https://example.org/roles": ["sci", 7, None]})
    sign_in(provider, "grace")
    assert groups_of() == ["Research"]


def test_an_admin_group_makes_and_unmakes_administrators(
    provider: Provider, administrator: User, settings: Any
) -> None:
    settings.OIDC_ADMIN_GROUP = "root"
    provider.knows("grace", **GRACE, groups=["root"])
    browser = Client()
    sign_in(provider, "grace", browser)
    assert browser.get("/admin/").status_code == 200
    provider.knows("grace", **GRACE, groups=[])
    sign_in(provider, "grace")
    grace = User.objects.get(email="grace@example.org")
    assert not grace.is_superuser and not grace.is_staff
    assert browser.get("/admin/").status_code != 200


def test_the_last_administrator_stays_one(provider: Provider, settings: Any) -> None:
    settings.OIDC_ADMIN_GROUP = "root"
    provider.knows("grace", **GRACE, groups=["root"])
    sign_in(provider, "grace")
    provider.knows("grace", **GRACE)
    sign_in(provider, "grace")
    assert User.objects.get().is_superuser


def test_without_an_admin_group_the_provider_makes_no_administrators(
    provider: Provider, administrator: User
) -> None:
    provider.knows("grace", **GRACE, groups=["", "root", "admin"])
    sign_in(provider, "grace")
    assert not User.objects.get(email="grace@example.org").is_superuser
