"""Limits as lines to show: what holds, who set it, what is left, when there is more."""

from __future__ import annotations

import dataclasses
import datetime

from django.utils import timezone

from accounts.limits import Limits, allowance_of
from accounts.models import ApiKey, User
from hosting.actions.meters import Meter, meters_of
from hosting.models import HostedModel

_METERED = {
    "max_concurrent": "Requests at once",
    "max_queued": "Requests waiting",
    "requests_per_minute": "Requests a minute",
    "tokens_per_minute": "Tokens a minute",
    "tokens_per_day": "Tokens a day",
    "tokens_per_month": "Tokens a month",
}
_CAPS = {
    "allowed_models": "Models",
    "max_context_tokens": "Prompt and answer together",
    "max_output_tokens": "Longest answer",
    "weight": "Share of the engine",
    "highest_class": "Highest priority",
    "cached_weight": "Cached tokens count",
}
_CACHED = {1.0: "in full", 0.5: "half", 0.0: "not at all"}
_MORE = {
    "max_concurrent": "as soon as one ends",
    "max_queued": "as soon as one begins",
    "requests_per_minute": "a minute after each",
    "tokens_per_minute": "a minute after their answer",
}


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class LimitLine:
    """`left_percent` is there for what is used up, and `more` says when there is more of it."""

    label: str
    value: str
    source: str
    left: str = ""
    left_percent: float | None = None
    more: str = ""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class LimitsShown:
    metered: list[LimitLine]
    caps: list[LimitLine]  # on each request by itself
    unlimited: list[str]
    models: list[str]  # that may be used: by these limits, and by one's groups


def limits_shown(user: User, api_key: ApiKey | None = None) -> LimitsShown:
    """What holds for a person; with a key, for what that key asks."""
    allowance = allowance_of(user, api_key)
    meters = meters_of(user, api_key, allowance, timezone.now())
    told = {"allowed_models", *(meter.name for meter in meters), *allowance.effective.sources}
    return LimitsShown(
        metered=[_metered(meter) for meter in meters],
        caps=_caps(allowance.effective),
        unlimited=[
            label
            for name, label in (_METERED | _CAPS).items()
            if name not in told and getattr(allowance.effective, name) is None
        ],
        models=[
            model.name
            for model in HostedModel.objects.enabled().open_to(user)
            if allowance.effective.may_use(model.name)
        ],
    )


def _metered(meter: Meter) -> LimitLine:
    return LimitLine(
        label=_label(meter),
        value=f"{meter.limit:,}",
        source=_set_for(meter.source),
        left=f"{meter.left:,}",
        left_percent=100 * meter.left / meter.limit if meter.limit else 0,
        more=f"on {_moment(meter.resets_at)}" if meter.is_budget else _MORE[meter.name],
    )


def _label(meter: Meter) -> str:
    label = _METERED[meter.name]
    if meter.shared is not None:
        return f"{label}, of the group {meter.shared.group_name} together"
    return f"{label}, by this key alone" if meter.source == "key" else label


def _set_for(source: str) -> str:
    """Who set it, in words."""
    words = {"default": "everybody, as installed", "person": "this account", "key": "this key"}
    return words.get(source, source)


def _moment(at: datetime.datetime) -> str:
    """In its own time zone, which is not the page's."""
    return f"{at:%-d %b, %H:%M} ({at.tzinfo})"


def _caps(limits: Limits) -> list[LimitLine]:
    said = {
        "allowed_models": ", ".join(sorted(limits.allowed_models or ())) or "none",
        "max_context_tokens": f"{limits.max_context_tokens or 0:,} tokens",
        "max_output_tokens": f"{limits.max_output_tokens or 0:,} tokens",
        "weight": f"{limits.weight:g} times the usual",
        "highest_class": str(limits.highest_class),
        "cached_weight": _CACHED[limits.cached_weight],
    }
    return [
        LimitLine(label=_CAPS[name], value=value, source=_set_for(limits.sources[name]))
        for name, value in said.items()
        if name in limits.sources
    ]
