"""A person's limits as lines to show: what holds, who set it, what is left, when there is more."""

from __future__ import annotations

import dataclasses
import datetime

from django.utils import timezone

from accounts.limits import Limits, allowance_of
from accounts.models import User
from hosting.actions.meters import Meter, meters_of

_METERED = {
    "max_concurrent": "Requests at once",
    "requests_per_minute": "Requests a minute",
    "tokens_per_minute": "Tokens a minute",
    "tokens_per_day": "Tokens a day",
    "tokens_per_month": "Tokens a month",
}
_CACHED = {1.0: "in full", 0.5: "half", 0.0: "not at all"}


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class LimitLine:
    """`left_percent` is there for what is used up; `resets` for what comes back by the clock."""

    label: str
    value: str
    source: str
    left: int | None = None
    left_percent: float | None = None
    resets: str = ""


def limit_lines(user: User) -> list[LimitLine]:
    allowance = allowance_of(user)
    meters = meters_of(user, None, allowance, timezone.now())
    return [*map(_metered, meters), *_caps(allowance.effective)]


def _metered(meter: Meter) -> LimitLine:
    return LimitLine(
        label=_METERED[meter.name],
        value=f"{meter.limit:,}",
        source=meter.source,
        left=meter.left,
        left_percent=100 * meter.left / meter.limit if meter.limit else 0,
        resets=_moment(meter.resets_at) if meter.is_budget else "",
    )


def _moment(at: datetime.datetime) -> str:
    """In its own time zone, which is not the page's."""
    return f"{at:%-d %b, %H:%M} ({at.tzinfo})"


def _caps(limits: Limits) -> list[LimitLine]:
    """What limits each request by itself."""
    said = {
        "allowed_models": ("Models", ", ".join(sorted(limits.allowed_models or ()))),
        "max_context_tokens": ("Prompt and answer together", f"{limits.max_context_tokens} tokens"),
        "max_output_tokens": ("Longest answer", f"{limits.max_output_tokens} tokens"),
        "weight": ("Share of the engine", f"{limits.weight:g} times the usual"),
        "highest_class": ("Highest priority", str(limits.highest_class)),
        "cached_weight": ("Cached tokens count", _CACHED[limits.cached_weight]),
    }
    return [
        LimitLine(label=label, value=value, source=limits.sources[name])
        for name, (label, value) in said.items()
        if name in limits.sources
    ]
