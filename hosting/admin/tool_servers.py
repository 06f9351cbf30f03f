"""Tool servers in the administration: where each is, which of its tools, and whose they are."""

from __future__ import annotations

from typing import Any

from django import forms
from django.contrib import admin, messages
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.utils.formats import date_format
from django.utils.html import format_html
from django.utils.timezone import localtime
from unfold.decorators import action
from unfold.widgets import (
    UnfoldAdminCheckboxSelectMultipleWidget,
    UnfoldAdminPasswordWidget,
    UnfoldBooleanSwitchWidget,
)

from accounts.admin.audited import AuditedAdmin
from accounts.admin.confirmation import ask_first
from accounts.admin.fresh_form import FreshForm
from accounts.admin.group_boxes import GroupBoxes
from accounts.audit import record_of
from hosting.actions.tool_servers import list_tools, sealed_token
from hosting.mcp.addresses import check_url
from hosting.mcp.errors import ToolServerError
from hosting.models import ToolServer

_ASKED = ("secret", "forgets_secret")  # of the form, not of the server
_FOR_CHANGE = (*_ASKED, "listing")
_WHO = ["is_for_everybody", "allowed_groups"]


class ToolServerForm(FreshForm):
    """`secret` is the bearer token: taken, and never shown again."""

    secret = forms.CharField(
        label="New token",
        required=False,
        max_length=4000,
        widget=UnfoldAdminPasswordWidget(attrs={"autocomplete": "new-password"}),
        help_text="Sent as a bearer token. It is stored encrypted and never shown again. Empty: as "
        "it is.",
    )
    forgets_secret = forms.BooleanField(
        label="Take the token away", required=False, widget=UnfoldBooleanSwitchWidget
    )
    allowed_tools = forms.MultipleChoiceField(
        label="Allowed tools",
        required=False,
        widget=UnfoldAdminCheckboxSelectMultipleWidget,
        help_text="Models are offered these and no others. What a server adds later is not allowed "
        "by itself.",
    )

    class Meta:
        model = ToolServer
        fields = "__all__"
        widgets = {"allowed_groups": GroupBoxes}

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        if "allowed_tools" in self.fields:  # not where it can only be read
            self.fields["allowed_tools"].choices = [
                (tool["name"], _label(tool)) for tool in self.instance.listed_tools
            ]

    def clean_secret(self) -> str:
        secret: str = self.cleaned_data["secret"]
        if not (secret.isascii() and secret.isprintable()) or " " in secret:
            raise forms.ValidationError("A token has plain letters, digits and signs only.")
        return secret

    def clean(self) -> dict[str, Any]:
        cleaned = super().clean()
        url, secret = cleaned.get("url"), cleaned.get("secret")
        if url:
            try:
                check_url(url, may_be_private=bool(cleaned.get("may_be_private")))
            except ToolServerError as error:
                self.add_error("url", error.message)
        is_kept = self.instance.sealed_token and not (secret or cleaned.get("forgets_secret"))
        if "url" in self.changed_data and is_kept:
            self.add_error(
                "secret", "The address has changed: enter the token again, or take it away."
            )
        return cleaned

    def seal_secret(self) -> None:
        if self.cleaned_data.get("forgets_secret"):
            self.instance.sealed_token = ""
        if secret := self.cleaned_data.get("secret"):
            self.instance.sealed_token = sealed_token(secret)


@admin.register(ToolServer)
class ToolServerAdmin(AuditedAdmin):
    audit_noun = "tool_server"
    form = ToolServerForm
    list_display = ["name", "url", "is_enabled", "tools", "listed"]
    list_filter = ["is_enabled"]
    search_fields = ["name", "url"]
    readonly_fields = ["token", "listed", "listing"]
    actions = ["list_tools"]
    actions_detail = ["list_tools_of_this"]
    empty_help = "Models use their tools in the chat, and ask the person first."
    add_fieldsets = [
        (None, {"fields": ["name", "is_enabled"]}),
        (
            "Where it is",
            {"fields": ["url", "may_be_private", "secret", "timeout_seconds"]},
        ),
        ("Who may use it", {"fields": _WHO}),
    ]
    fieldsets = [
        (None, {"fields": ["name", "is_enabled"]}),
        (
            "Where it is",
            {"fields": ["url", "may_be_private", "token", *_ASKED, "timeout_seconds"]},
        ),
        ("Tools", {"fields": ["listing", "allowed_tools"]}),
        ("Who may use it", {"fields": _WHO}),
    ]

    def get_fieldsets(self, request: HttpRequest, obj: ToolServer | None = None) -> Any:
        """Who may only look is asked nothing."""
        if obj is None:
            return self.add_fieldsets
        fieldsets = super().get_fieldsets(request, obj)
        if self.has_change_permission(request, obj):
            return fieldsets
        return [
            (
                title,
                {**options, "fields": [one for one in options["fields"] if one not in _FOR_CHANGE]},
            )
            for title, options in fieldsets
        ]

    @admin.display(description="Token")
    def token(self, server: ToolServer) -> str:
        return "There is one." if server.sealed_token else "None."

    @admin.display(description="Tools allowed")
    def tools(self, server: ToolServer) -> str:
        return f"{len(server.usable_tools)} of {len(server.listed_tools)}"

    @admin.display(description="Listed (UTC)")
    def listed(self, server: ToolServer) -> str:
        when = server.listed_at
        return date_format(localtime(when), "j M, H:i") if when else "Never"

    @admin.display(description="Listed (UTC)")
    def listing(self, server: ToolServer) -> str:
        """With the way to do it, which narrow screens have nowhere else."""
        button = '{} <a class="hearth-button" href="../list/">List its tools</a>'
        return format_html(button, self.listed(server))

    def save_model(self, request: HttpRequest, obj: ToolServer, form: Any, change: bool) -> None:
        form.seal_secret()
        super().save_model(request, obj, form, change)

    def response_add(
        self, request: HttpRequest, obj: ToolServer, post_url_continue: str | None = None
    ) -> HttpResponse:
        """Its tools are still to be listed and allowed."""
        told = f"{obj.name} is added. Now list its tools, and allow some."
        self.message_user(request, told, messages.SUCCESS)
        return redirect("admin:hosting_toolserver_change", obj.pk)

    @admin.action(description="List its tools", permissions=["change"])
    def list_tools(
        self, request: HttpRequest, queryset: QuerySet[ToolServer]
    ) -> HttpResponse | None:
        page = ask_first(
            self,
            request,
            queryset,
            action="list_tools",
            question="Ask these tool servers what they have?",
            consequence="What is allowed stays allowed; nothing new is.",
            button="List tools",
        )
        if page is not None:
            return page
        servers = list(queryset)
        for server in servers:
            self._list(request, server)
        if len(servers) == 1:
            return redirect("admin:hosting_toolserver_change", servers[0].pk)
        return None

    @action(description="List its tools", url_path="list", permissions=["change"], icon="checklist")
    def list_tools_of_this(self, request: HttpRequest, object_id: str) -> HttpResponse | None:
        return self.list_tools(request, self.only(request, object_id))

    def _list(self, request: HttpRequest, server: ToolServer) -> None:
        try:
            num_tools = list_tools(server)
        except ToolServerError as error:
            self.message_user(request, f"{server.name}: {error.message}", messages.ERROR)
            return
        self.log_change(request, server, "Tools listed.")
        record_of(request, "tool_server.list", target=server, after={"num_tools": num_tools})
        told = f"{server.name} has {num_tools} tools. Allow those that people may use."
        self.message_user(request, told, messages.SUCCESS)


def _label(tool: dict[str, Any]) -> str:
    """All of it: what stands there, models are told."""
    description = " ".join(tool["description"].split())
    return f"{tool['name']}: {description}" if description else tool["name"]
