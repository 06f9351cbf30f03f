"""People and groups in the administration."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from django import forms
from django.conf import settings
from django.contrib import admin, messages
from django.contrib.auth.admin import GroupAdmin as DjangoGroupAdmin
from django.contrib.auth.admin import UserAdmin as DjangoUserAdmin
from django.contrib.auth.models import Group, Permission
from django.db.models import Count, QuerySet
from django.http import HttpRequest, HttpResponse, HttpResponseBase
from django.shortcuts import redirect
from django.utils.html import format_html
from django.utils.module_loading import import_string
from unfold.decorators import action, display
from unfold.forms import AdminPasswordChangeForm, UserCreationForm
from unfold.widgets import UnfoldAdminCheckboxSelectMultipleWidget

from accounts import audit, second_factors
from accounts.access import end_sessions, end_use_of_person
from accounts.admin.audited import AuditedAdmin
from accounts.admin.confirmation import ask_first
from accounts.admin.fresh_form import FreshForm
from accounts.admin.group_boxes import GroupBoxes
from accounts.admin.quotas import GroupQuotaInline, QuotaInline
from accounts.audit import address_of
from accounts.forms import PasswordFirst
from accounts.models import Policy, User

_POWERS = ("is_staff", "is_superuser", "groups", "manages")
# Each is enough to keep an administrator out of these pages
_LOCKS_OUT = {"is_superuser": False, "is_staff": False, "is_active": False, "is_service": True}

admin.site.unregister(Group)


class PasswordSettingForm(PasswordFirst, AdminPasswordChangeForm):
    pass


class PersonCreationForm(PasswordFirst, UserCreationForm):
    class Meta:
        model = User
        fields = ("email", "name")


class PersonChangeForm(FreshForm):
    class Meta:
        model = User
        fields = "__all__"
        labels = {"is_superuser": "Administrator"}
        help_texts = {"is_superuser": "May do everything.", "groups": "Their limits hold."}
        widgets = {
            "groups": GroupBoxes,
            "manages": GroupBoxes,
        }

    def clean(self) -> dict[str, Any]:
        cleaned = super().clean()
        lost = [name for name, value in _LOCKS_OUT.items() if cleaned.get(name) is value]
        lost = [name for name in lost if name in self.changed_data]
        if lost and User.objects.is_last_administrator(self.instance):
            for name in lost:
                self.add_error(name, "Nobody could undo this: it is the last administrator.")
        return cleaned


@admin.register(User)
class PersonAdmin(DjangoUserAdmin, AuditedAdmin):
    """Only administrators give powers, and only they touch others' accounts that have some."""

    audit_noun = "person"
    inlines = [QuotaInline]
    form = PersonChangeForm
    add_form = PersonCreationForm
    change_password_form = PasswordSettingForm
    list_display = ["email", "name", "role", "group_names", "is_active", "last_login"]
    list_filter = ["is_active", "is_superuser", "groups"]
    search_fields = ["email", "name"]
    ordering = ["email"]
    readonly_fields = ["password_page", "last_login", "date_joined"]
    filter_horizontal = []
    fieldsets = [
        (None, {"fields": ["email", "name", "password_page"]}),
        ("What they may do", {"fields": ["is_active", "is_service", *_POWERS]}),
        ("Dates", {"fields": ["last_login", "date_joined"]}),
    ]
    actions = ["reset_factors"]
    actions_detail = ["show_limits", "show_conversations", "reset_factors_of_this"]
    add_fieldsets = [(None, {"fields": ["email", "name", "password1", "password2"]})]

    def get_queryset(self, request: HttpRequest) -> QuerySet[User]:
        return super().get_queryset(request).prefetch_related("groups")

    @display(description="Role", label={"Administrator": "warning", "Staff": "info"})
    def role(self, user: User) -> str:
        if user.is_superuser:
            return "Administrator"
        if user.is_service:
            return "Service account"
        return "Staff" if user.is_staff else "Member"

    @admin.display(description="Password")
    def password_page(self, user: User) -> str:
        """Not what is stored of it, which helps nobody."""
        words = "Change it" if user.has_usable_password() else "None. Set one"
        return format_html('<a class="hearth-button" href="../password/">{}</a>', words)

    @admin.display(description="Groups")
    def group_names(self, user: User) -> str:
        return ", ".join(group.name for group in user.groups.all())

    def get_readonly_fields(self, request: HttpRequest, obj: User | None = None) -> Sequence[str]:
        fields = [*super().get_readonly_fields(request, obj)]
        return fields if request.user.is_superuser else [*fields, *_POWERS]

    def get_fieldsets(self, request: HttpRequest, obj: User | None = None) -> Any:
        """Who may not set a password is not sent to its page."""
        fieldsets = super().get_fieldsets(request, obj)
        if obj is None or self.has_change_permission(request, obj):
            return fieldsets
        (title, options), *rest = fieldsets
        shown = [name for name in options["fields"] if name != "password_page"]
        return [(title, {**options, "fields": shown}), *rest]

    def has_change_permission(self, request: HttpRequest, obj: User | None = None) -> bool:
        return super().has_change_permission(request, obj) and _may_touch(request, obj)

    def has_delete_permission(self, request: HttpRequest, obj: User | None = None) -> bool:
        return super().has_delete_permission(request, obj) and _may_touch(request, obj)

    def get_inlines(self, request: HttpRequest, obj: User | None) -> list[Any]:
        return self.inlines if obj else []

    def save_model(self, request: HttpRequest, obj: User, form: Any, change: bool) -> None:
        """Who is switched off is out at once: what they have running ends with it. Nobody stays
        signed in as a program."""
        super().save_model(request, obj, form, change)
        if change and not obj.is_active:
            end_use_of_person(obj)
        elif change and obj.is_service:
            end_sessions(obj)

    @admin.action(description="Reset second factors", permissions=["reset_factors"])
    def reset_factors(self, request: HttpRequest, queryset: QuerySet[User]) -> HttpResponse | None:
        page = ask_first(
            self,
            request,
            queryset,
            action="reset_factors",
            question="Reset the second factors of these people?",
            consequence="Their apps, passkeys and recovery codes are taken away, and they are "
            "signed out everywhere. Their password alone then opens the account.",
            button="Reset",
        )
        if page is not None:
            return page
        for person in queryset:
            second_factors.reset(person, by=request.user, address=address_of(request))
        self.message_user(request, f"Reset: {len(queryset)}.", messages.SUCCESS)
        return None

    @action(
        description="Reset second factors",
        url_path="reset-factors",
        permissions=["reset_factors"],
        icon="lock_reset",
    )
    def reset_factors_of_this(self, request: HttpRequest, object_id: str) -> HttpResponse | None:
        return self.reset_factors(request, self.only(request, object_id))

    @action(description="Limits", url_path="limits", permissions=["show_limits"], icon="speed")
    def show_limits(self, request: HttpRequest, object_id: str) -> HttpResponse:
        """What holds for this person, and what is left of it."""
        return redirect("limits-of-person", self.get_or_404(request, object_id).pk)

    @action(
        description="Conversations", url_path="conversations", permissions=["show_conversations"]
    )
    def show_conversations(self, request: HttpRequest, object_id: str) -> HttpResponse:
        return redirect("admin:conversations", self.get_or_404(request, object_id).pk)

    def has_show_conversations_permission(self, request: HttpRequest, *args: Any) -> bool:
        return request.user.is_superuser and Policy.objects.current().may_read_conversations

    def has_show_limits_permission(self, request: HttpRequest, *args: Any) -> bool:
        return bool(request.user.is_superuser)

    def has_reset_factors_permission(self, request: HttpRequest, *args: Any) -> bool:
        """As with a password: it is a way into the account."""
        return bool(request.user.is_superuser)

    def user_change_password(
        self, request: HttpRequest, id: str, form_url: str = ""
    ) -> HttpResponseBase:
        response = super().user_change_password(request, id, form_url)
        if request.method == "POST" and response.status_code == 302:
            audit.record_of(request, "person.password", target=self.get_object(request, id))
        return response

    def get_deleted_objects(self, objs: Any, request: HttpRequest) -> Any:
        """Who may delete a person may delete what is theirs.

        It is counted but not listed: titles of conversations are nobody else's business.
        """
        _, counts, _, protected = super().get_deleted_objects(objs, request)
        if request.user in objs:  # so that somebody is left who may do this
            protected = [*protected, "Your own account: delete it on the page Your data."]
        needed = set() if all(_may_touch(request, one) for one in objs) else {"administrator"}
        return [str(person) for person in objs], counts, needed, protected

    def delete_model(self, request: HttpRequest, obj: User) -> None:
        """With everything that others keep of them. Settings say how: accounts knows of none."""
        delete_person = import_string(settings.ACCOUNTS_DELETE_PERSON)
        delete_person(obj, actor=request.user, address=address_of(request))

    def delete_queryset(self, request: HttpRequest, queryset: QuerySet[User]) -> None:
        for person in queryset:
            self.delete_model(request, person)


def _may_touch(request: HttpRequest, person: User | None) -> bool:
    """A password that one sets is a way into the account, and to what it may do."""
    if request.user.is_superuser or person in (None, request.user):
        return True
    return not (person.is_superuser or person.is_staff or person.manages.exists())


class GroupForm(FreshForm):
    permissions = forms.ModelMultipleChoiceField(
        queryset=Permission.objects.none(),
        required=False,
        widget=UnfoldAdminCheckboxSelectMultipleWidget,
        help_text="For people who may open the administration without being administrators.",
    )

    class Meta:
        model = Group
        fields = "__all__"

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        """With the permissions that the administration asks for, and those that the group has."""
        super().__init__(*args, **kwargs)
        if "permissions" in self.fields:  # not where they can only be read
            offered = _permissions_in_words(self.initial.get("permissions", []))
            self.fields["permissions"].queryset = Permission.objects.filter(pk__in=offered)
            self.fields["permissions"].choices = offered.items()


def _permissions_in_words(kept: Sequence[Permission]) -> dict[int, str]:
    """By id. Settings say which have an effect: accounts knows of none."""
    words: dict[str, str] = import_string(settings.ACCOUNTS_PERMISSIONS)
    found = {
        f"{one.content_type.app_label}.{one.codename}": one
        for one in Permission.objects.select_related("content_type")
    }
    without = {one.pk: f"{one.name}, which has no effect" for one in kept}
    return {**without, **{found[name].pk: label for name, label in words.items()}}


@admin.register(Group)
class GroupAdmin(DjangoGroupAdmin, AuditedAdmin):
    audit_noun = "group"
    form = GroupForm
    filter_horizontal = []
    inlines = [GroupQuotaInline]
    list_display = ["name", "num_people"]
    empty_help = "A group has limits, models and a budget of its own for its people."

    def get_readonly_fields(self, request: HttpRequest, obj: Group | None = None) -> Sequence[str]:
        """Whoever is in the group could else give themselves everything."""
        return [] if request.user.is_superuser else ["permissions"]

    def get_queryset(self, request: HttpRequest) -> QuerySet[Group]:
        return super().get_queryset(request).annotate(num_people=Count("user"))

    @admin.display(description="People", ordering="num_people")
    def num_people(self, group: Any) -> int:
        return group.num_people
