"""What an administrator does to models: each asks first, needs its permission, and is recorded."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from django.contrib import admin, messages
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from unfold.decorators import action

from accounts.admin.audited import AuditedAdmin
from accounts.admin.confirmation import ask_first
from accounts.audit import address_of, changes, record_of
from hosting.actions import engine_orders, hosted_models
from hosting.actions.model_states import states_in_engines
from hosting.admin.cancelling import cancel_open
from hosting.admin.new_copy import new_copy_page
from hosting.engine_client import EngineUnavailable
from hosting.models import HostedModel

Change = Callable[[HostedModel], None]
_OF_FETCHES = ("fetch_this_again", "cancel_fetch_this")


class ModelActions(AuditedAdmin):
    """Actions on the list, and some of them on a model's own page."""

    actions = ["load", "unload", "reload", "pin", "unpin", "set_default"]
    actions += ["clear_memory", "clear_disk", "fetch_again", "cancel_fetch"]
    actions_detail = ["load_this", "unload_this", "reload_this", "set_default_this"]
    actions_detail += ["quantise_this", *_OF_FETCHES]

    @admin.action(description="Load", permissions=["change"])
    def load(self, request: HttpRequest, queryset: QuerySet[Any]) -> HttpResponse | None:
        return self._ask_and_do(
            request,
            queryset,
            "load",
            question="Load these models?",
            consequence="An idle model makes room where the memory is short.",
            change=engine_orders.load_model,
        )

    @admin.action(description="Unload", permissions=["change"])
    def unload(self, request: HttpRequest, queryset: QuerySet[Any]) -> HttpResponse | None:
        return self._ask_and_do(
            request,
            queryset,
            "unload",
            question="Unload these models?",
            consequence="Running answers end first. The next request loads the model again.",
            change=engine_orders.unload_model,
        )

    @admin.action(description="Reload", permissions=["change"])
    def reload(self, request: HttpRequest, queryset: QuerySet[Any]) -> HttpResponse | None:
        return self._ask_and_do(
            request,
            queryset,
            "reload",
            question="Reload these models?",
            consequence="Running answers end first. Others wait until the weights are read again.",
            change=engine_orders.reload_model,
        )

    @admin.action(description="Pin", permissions=["change"])
    def pin(self, request: HttpRequest, queryset: QuerySet[Any]) -> HttpResponse | None:
        return self._ask_and_do(
            request,
            queryset,
            "pin",
            question="Pin these models?",
            consequence="They are loaded now, and no other model takes their place.",
            change=lambda model: hosted_models.set_pinned(model, is_pinned=True),
        )

    @admin.action(description="Unpin", permissions=["change"])
    def unpin(self, request: HttpRequest, queryset: QuerySet[Any]) -> HttpResponse | None:
        return self._ask_and_do(
            request,
            queryset,
            "unpin",
            question="Unpin these models?",
            consequence="They stay loaded until they have been idle too long or are in the way.",
            change=lambda model: hosted_models.set_pinned(model, is_pinned=False),
        )

    @admin.action(description="Make default", permissions=["change"])
    def set_default(self, request: HttpRequest, queryset: QuerySet[Any]) -> HttpResponse | None:
        if len(queryset) != 1:
            self.message_user(request, "There is one default: choose one model.", messages.ERROR)
            return None
        return self._ask_and_do(
            request,
            queryset,
            "set_default",
            question="Make this the default model?",
            consequence="New conversations use it unless their owner chooses another.",
            change=hosted_models.make_default,
        )

    @admin.action(description="Clear prefixes in memory", permissions=["change"])
    def clear_memory(self, request: HttpRequest, queryset: QuerySet[Any]) -> HttpResponse | None:
        return self._ask_and_do(
            request,
            queryset,
            "clear_memory",
            question="Forget what memory keeps of these models' prompts?",
            consequence="What is on disk comes back from there; the rest is computed again.",
            change=engine_orders.clear_memory_prefixes,
        )

    @admin.action(description="Clear prefixes on disk", permissions=["change"])
    def clear_disk(self, request: HttpRequest, queryset: QuerySet[Any]) -> HttpResponse | None:
        return self._ask_and_do(
            request,
            queryset,
            "clear_disk",
            question="Delete what the disk keeps of these models' prompts?",
            consequence="After a restart each conversation is computed from its beginning once.",
            change=engine_orders.clear_disk_prefixes,
        )

    @admin.action(description="Fetch again", permissions=["change"])
    def fetch_again(self, request: HttpRequest, queryset: QuerySet[Any]) -> HttpResponse | None:
        fetched = queryset.filter(source=HostedModel.Source.HUGGING_FACE)
        if not fetched:
            told = "Nothing was fetched: these models are folders of this machine."
            self.message_user(request, told, messages.ERROR)
            return None
        return self._ask_and_do(
            request,
            fetched,
            "fetch_again",
            question="Fetch these models again?",
            consequence="They come from Hugging Face and cannot be used until they are here.",
            change=hosted_models.fetch_again,
        )

    @admin.action(description="Cancel download", permissions=["change"])
    def cancel_fetch(self, request: HttpRequest, queryset: QuerySet[Any]) -> HttpResponse | None:
        return cancel_open(
            self,
            request,
            queryset.fetching(),
            partial(hosted_models.cancel_fetch, by=request.user, address=address_of(request)),
            action="cancel_fetch",
            question="Cancel these downloads?",
            consequence="What is here of them is deleted. What was complete before they were "
            "fetched again is served again.",
            button="Cancel downloads",
        )

    @action(description="Load", url_path="load", permissions=["change"], icon="play_arrow")
    def load_this(self, request: HttpRequest, object_id: str) -> HttpResponse | None:
        return self.load(request, self.only(request, object_id))

    @action(description="Unload", url_path="unload", permissions=["change"], icon="stop")
    def unload_this(self, request: HttpRequest, object_id: str) -> HttpResponse | None:
        return self.unload(request, self.only(request, object_id))

    @action(description="Reload", url_path="reload", permissions=["change"], icon="refresh")
    def reload_this(self, request: HttpRequest, object_id: str) -> HttpResponse | None:
        return self.reload(request, self.only(request, object_id))

    @action(description="Make default", url_path="default", permissions=["change"], icon="star")
    def set_default_this(self, request: HttpRequest, object_id: str) -> HttpResponse | None:
        return self.set_default(request, self.only(request, object_id))

    @action(description="Quantise", url_path="quantise", permissions=["quantise"], icon="compress")
    def quantise_this(self, request: HttpRequest, object_id: str) -> HttpResponse:
        return new_copy_page(self, request, self.get_or_404(request, object_id))

    @action(description="Cancel download", url_path="cancel", permissions=["change"], icon="cancel")
    def cancel_fetch_this(self, request: HttpRequest, object_id: str) -> HttpResponse:
        page = self.cancel_fetch(request, self.only(request, object_id))
        return page or redirect("admin:hosting_hostedmodel_change", object_id)

    @action(description="Fetch again", url_path="fetch", permissions=["change"], icon="download")
    def fetch_this_again(self, request: HttpRequest, object_id: str) -> HttpResponse:
        page = self.fetch_again(request, self.only(request, object_id))
        return page or redirect("admin:hosting_hostedmodel_change", object_id)

    def get_actions_detail(self, request: HttpRequest, object_id: Any) -> list[Any]:
        """What can be done to a model whose weights are here, or about those that are not."""
        model = self.get_object(request, str(object_id))
        offered = super().get_actions_detail(request, object_id)
        if model is None or model.state == HostedModel.State.READY:
            return [one for one in offered if not one.action_name.endswith(_OF_FETCHES)]
        is_fetching = model.state == HostedModel.State.FETCHING
        wanted = "cancel_fetch_this" if is_fetching else "fetch_this_again"
        return [one for one in offered if one.action_name.endswith(wanted)]

    def has_quantise_permission(self, request: HttpRequest, object_id: Any = None) -> bool:
        return self.has_add_permission(request)

    def _ask_and_do(
        self,
        request: HttpRequest,
        queryset: QuerySet[Any],
        name: str,
        *,
        question: str,
        consequence: str,
        change: Change,
    ) -> HttpResponse | None:
        """Ask, then change each model, record it, and say how it went."""
        description = getattr(self, name).short_description
        page = ask_first(
            self,
            request,
            queryset,
            action=name,
            question=question,
            consequence=consequence,
            button=description,
        )
        if page is not None:
            return page
        states = states_in_engines()
        try:
            for model in queryset:
                before = _standing(model)
                change(model)
                model.refresh_from_db()
                told = changes(before, _standing(model) | {"asked": name})
                told["before"] = {"in_memory": states.get(model.name, "no")} | told["before"]
                self.log_change(request, model, f"{description}.")
                record_of(request, f"model.{name}", target=model, **told)
        except EngineUnavailable:
            self.message_user(request, "Redis is away: nothing was changed.", messages.ERROR)
        else:
            self.message_user(request, f"{description}: asked for.", messages.SUCCESS)
        return None


def _standing(model: HostedModel) -> dict[str, Any]:
    """What actions may change in the registry."""
    names = ("is_pinned", "is_default", "state")
    return {name: getattr(model, name) for name in names} | {"asked": None}
