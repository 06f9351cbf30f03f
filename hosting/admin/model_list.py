"""The columns of the list of models: what the registry says, and what the engines have of it."""

from __future__ import annotations

import dataclasses
from typing import Any

from django.contrib import admin
from django.http import HttpRequest
from django.template.defaultfilters import filesizeformat
from django.utils.html import format_html
from unfold.decorators import display

from engine.sizing.shape import UnreadableConfig
from hosting.actions.heartbeats import heartbeats
from hosting.actions.model_memory import place_of, plan_of
from hosting.actions.model_states import SeenModel, seen_models
from hosting.admin.load_failures import explanation
from hosting.admin.memory_words import brief_of
from hosting.admin.under_way import UnderWayList
from hosting.models import HostedModel

_STATE_COLOURS = {
    "loaded": "success",
    "loading": "warning",
    "not loaded": "info",
    "failed": "danger",
    "unreadable": "danger",
}


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Sight:
    """One model as it stands now. `error` is explained; "" when there is none."""

    seen: SeenModel | None
    num_engines: int
    memory: str
    error: str
    is_readable: bool


class ModelColumns(UnderWayList):
    """Engines are asked once for a page of the list."""

    list_display = ["title", "state_label", "size", "memory", "rows", "stays", "error"]

    def is_under_way(self) -> bool:
        return HostedModel.objects.fetching().exists()

    def get_changelist_instance(self, request: HttpRequest) -> Any:
        changelist = super().get_changelist_instance(request)
        beats = heartbeats()
        seen = seen_models(beats)
        for model in changelist.result_list:
            model.sight = _sight(model, seen.get(model.name), beats)
        return changelist

    @display(description="Model", header=True, ordering="name")
    def title(self, model: HostedModel) -> tuple[str, str]:
        about = [model.get_kind_display()]
        about += ["default"] if model.is_default else []
        about += [] if model.is_enabled else ["switched off"]
        return model.name, ", ".join(about)

    @display(description="State", label=_STATE_COLOURS)
    def state_label(self, model: Any) -> tuple[str, str]:
        """Its colour's name, and what is said."""
        if model.state == HostedModel.State.FETCHING:
            return "loading", f"fetching {model.fetch_fraction:.0%}"
        if model.state == HostedModel.State.FAILED:
            return "failed", "failed"
        if model.state == HostedModel.State.CANCELLED:
            return "not loaded", "cancelled"
        if not model.sight.is_readable:
            return "unreadable", "unreadable"
        if (seen := model.sight.seen) is None:
            return "not loaded", "not loaded"
        fraction = "" if seen.loaded_fraction is None else f" {seen.loaded_fraction:.0%}"
        where = _where(seen, model.sight.num_engines)
        return seen.state, f"{seen.state}{fraction}{where}"

    @admin.display(description="Size", ordering="weight_bytes")
    def size(self, model: HostedModel) -> str:
        return filesizeformat(model.weight_bytes)

    @admin.display(description="Memory at most")
    def memory(self, model: Any) -> str:
        return str(model.sight.memory)

    @admin.display(description="Requests", ordering="max_rows")
    def rows(self, model: Any) -> str:
        running = model.sight.seen.num_requests if model.sight.seen else 0
        return f"{running} of {model.max_rows}"

    @admin.display(description="Stays", ordering="idle_unload_seconds")
    def stays(self, model: HostedModel) -> str:
        if model.is_pinned:
            return "pinned"
        seconds = model.idle_unload_seconds
        return "while there is room" if seconds is None else f"{seconds:,} s without use"

    @admin.display(description="Last error")
    def error(self, model: Any) -> str | None:
        if not model.sight.error:
            return None
        return format_html('<p class="hearth-error">{}</p>', model.sight.error)


def _where(seen: SeenModel, num_engines: int) -> str:
    """The engines of which it is true, where it is not true of all."""
    names = [name for name, one in seen.by_engine.items() if one.state == seen.state]
    return "" if len(names) == num_engines else f" on {', '.join(names)}"


def _failure(seen: SeenModel, num_engines: int) -> str:
    """Explained; of which engines, where there are others."""
    told: dict[str, list[str]] = {}
    for name, one in seen.by_engine.items():
        if one.detail:
            told.setdefault(explanation(one.detail), []).append(name)
    return " ".join(
        text if len(names) == num_engines else f"{', '.join(names)}: {text}"
        for text, names in told.items()
    )


def _sight(model: HostedModel, seen: SeenModel | None, beats: Any) -> Sight:
    memory, config_error = "", ""
    if model.state == HostedModel.State.READY:
        try:
            memory = brief_of(plan_of(model, place_of(model, beats)))
        except UnreadableConfig as error:
            config_error = str(error)
    failure = _failure(seen, len(beats)) if seen else ""
    if not failure and config_error:
        failure = explanation(config_error)
    is_failed = model.state == HostedModel.State.FAILED
    return Sight(
        seen=seen,
        num_engines=len(beats),
        memory=memory,
        error=model.detail if is_failed else failure,
        is_readable=not config_error,
    )
