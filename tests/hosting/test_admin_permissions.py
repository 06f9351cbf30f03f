"""What a group may be allowed: what the code asks for, in words; what it has besides, it keeps."""

from __future__ import annotations

import re

import pytest
from django.contrib import admin
from django.contrib.auth.models import Group, Permission
from django.test import Client, RequestFactory

from accounts.models import User
from hosting.admin.cache_clearing import CLEAR_PERMISSION
from hosting.admin.history_data import INSTRUMENTS
from hosting.admin.memory_limit import LIMIT_PERMISSION
from hosting.admin.permissions import PERMISSIONS
from hosting.admin.stopping import STOP_PERMISSION

NO_QUOTA = {"quota-TOTAL_FORMS": 0, "quota-INITIAL_FORMS": 0}


@pytest.fixture
def admin_page(transactional_db: None) -> Client:
    browser = Client()
    browser.force_login(User.objects.create_superuser("root@example.org"))
    return browser


def test_what_the_code_asks_for_can_be_allowed_and_nothing_else(db: None) -> None:
    request = RequestFactory().get("/")
    request.user = User.objects.create_user("staff@example.org", is_staff=True)
    request.user.user_permissions.set(Permission.objects.all())
    of_lists = {
        f"{model._meta.app_label}.{verb}_{model._meta.model_name}"
        for model, page in admin.site._registry.items()
        for verb, is_allowed in page.get_model_perms(request).items()
        if is_allowed
    }
    of_instruments = {instrument.permission for instrument in INSTRUMENTS.values()}
    of_buttons = {STOP_PERMISSION, LIMIT_PERMISSION, CLEAR_PERMISSION}
    assert set(PERMISSIONS) == of_lists | of_instruments | of_buttons


def test_permissions_are_offered_in_words(admin_page: Client) -> None:
    html = admin_page.get("/admin/auth/group/add/").content.decode()
    assert len(re.findall(r'name="permissions"', html)) == len(PERMISSIONS)
    assert "Generations: stop them" in html
    assert "Can change generation" not in html


def test_a_group_keeps_permissions_that_have_no_effect(admin_page: Client) -> None:
    group = Group.objects.create(name="research")
    old, new = (
        Permission.objects.get(codename=name) for name in ("add_usagerecord", "view_generation")
    )
    group.permissions.add(old)
    page = f"/admin/auth/group/{group.pk}/change/"
    assert "Can add usage record, which has no effect" in admin_page.get(page).content.decode()
    form = {"name": "research", "permissions": [old.pk, new.pk]} | NO_QUOTA
    assert admin_page.post(page, form).status_code == 302
    assert set(group.permissions.all()) == {old, new}
