"""Combines what was set for group, person and key into the limits that hold, each with its source.

    key <= person <= group        a narrower one only ever lowers
    several groups                the most generous of those that set it
    nothing set anywhere          what was set for everybody, else the built-in default
    days of a key                 begin where its person's do: one day pays for both

A limit of a key counts what the key uses; every other one counts all that its person uses. A budget
that a group shares counts what its people use together; who is in several such groups draws on one
of them at a time.
"""

from __future__ import annotations

import dataclasses
import datetime
import zoneinfo
from collections.abc import Iterable, Sequence
from typing import Any

from django.conf import settings
from django.db.models import QuerySet

from accounts.kept import Kept
from accounts.models import ApiKey, Quota, User
from accounts.prepared import Given, prepared

NUMBERS = (
    *("requests_per_minute", "tokens_per_minute", "max_concurrent", "max_queued"),
    *("max_context_tokens", "max_output_tokens", "tokens_per_day", "tokens_per_month", "weight"),
)
_CLASSES: tuple[str, ...] = (
    Quota.Class.BATCH,
    Quota.Class.API,
    Quota.Class.INTERACTIVE,
)  # lowest first
_CACHED_WEIGHTS: dict[str, float] = {
    Quota.CachedTokens.FULL: 1.0,
    Quota.CachedTokens.HALF: 0.5,
    Quota.CachedTokens.NONE: 0.0,
}


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """None limits nothing. `sources` names who set each value that is not the default."""

    allowed_models: frozenset[str] | None = None
    requests_per_minute: int | None = None
    tokens_per_minute: int | None = None
    max_concurrent: int | None = None
    max_queued: int | None = None
    max_context_tokens: int | None = None
    max_output_tokens: int | None = None
    tokens_per_day: int | None = None
    tokens_per_month: int | None = None
    weight: float = 1.0
    highest_class: str = Quota.Class.INTERACTIVE
    cached_weight: float = 1.0
    zone: zoneinfo.ZoneInfo = dataclasses.field(default_factory=lambda: _zone(""))
    sources: dict[str, str] = dataclasses.field(default_factory=dict)

    def may_use(self, model_name: str) -> bool:
        return self.allowed_models is None or model_name in self.allowed_models

    def lowered(self, priority: str) -> str:
        """`priority`, or the highest class that is allowed."""
        return min(priority, self.highest_class, key=_CLASSES.index)

    def today(self, now: datetime.datetime) -> datetime.date:
        return now.astimezone(self.zone).date()


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class SharedBudget:
    """What the people of a group may use together. Of `limits` only the budgets are set."""

    group_id: int
    group_name: str
    quota_id: int
    limits: Limits

    @property
    def subject(self) -> str:
        """Under which the ledger adds up what is taken from it."""
        return f"group:{self.group_id}"


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Allowance:
    """Who may use how much. `person` counts all of a person's use, `key` the key's alone.

    `effective` is the lower of both: for caps of one request, and to show.
    """

    person: Limits
    key: Limits | None
    effective: Limits
    shared: tuple[SharedBudget, ...] = ()


_allowances: Kept[Allowance] = Kept()  # by person and key


def allowance_of(user: User, api_key: ApiKey | None = None) -> Allowance:
    """The limits in force now, in one query."""
    rows = _set_for().objects(user=user.pk, api_key=api_key.pk if api_key else None)
    everybody = [row for row in rows if not (row.user_id or row.group_id or row.api_key_id)]
    groups = [row for row in rows if row.group_id]
    own = [row for row in rows if row.user_id]
    of_key = [row for row in rows if row.api_key_id]
    base = _defaults(everybody)
    person = _combined([_most_generous(groups), *map(_as_set, own)], base)
    effective = _combined([_most_generous(groups), *map(_as_set, [*own, *of_key])], base)
    days = {"zone": (person.zone, "")}
    key = _combined([_as_set(of_key[0])], days) if of_key else None
    shared = tuple(_shared_budget(row) for row in groups if _shares(row))
    return Allowance(person=person, key=key, effective=effective, shared=shared)


@prepared
def _set_for() -> QuerySet[Quota]:
    set_for = Quota.objects.of(Given("user"), Given("api_key"))
    return set_for.select_related("group").order_by("pk")


def allowance_for_request(user: User, api_key: ApiKey | None) -> Allowance:
    """As it was half a second ago at the most, mostly without a query."""
    name = (user.pk, api_key.pk if api_key else None)
    return _allowances.get(name, lambda: allowance_of(user, api_key))


def shared_budget_of(group_id: int) -> SharedBudget | None:
    """None when nobody set one, or no longer."""
    row = Quota.objects.filter(group_id=group_id).select_related("group").first()
    return _shared_budget(row) if row is not None and _shares(row) else None


def lock_shared_budgets(budgets: Sequence[SharedBudget]) -> tuple[SharedBudget, ...]:
    """Until the transaction ends nobody else takes from them. Those that are still there."""
    if not budgets:
        return ()
    rows = Quota.objects.filter(pk__in=[budget.quota_id for budget in budgets])
    held = {row.pk for row in rows.order_by("pk").select_for_update(of=("self",))}
    return tuple(budget for budget in budgets if budget.quota_id in held)


def _shares(row: Quota) -> bool:
    return row.shared_tokens_per_day is not None or row.shared_tokens_per_month is not None


def _shared_budget(row: Quota) -> SharedBudget:
    assert row.group is not None
    source = f"group {row.group.name}, shared"
    return SharedBudget(
        group_id=row.group.pk,
        group_name=row.group.name,
        quota_id=row.pk,
        limits=Limits(
            tokens_per_day=row.shared_tokens_per_day,
            tokens_per_month=row.shared_tokens_per_month,
            zone=_zone(row.time_zone),
            sources={"tokens_per_day": source, "tokens_per_month": source},
        ),
    )


_Value = tuple[Any, str]  # and its source
_Set = dict[str, _Value]  # what was set, by name


def _as_set(row: Quota) -> _Set:
    """One row's values with their source."""
    source = "key" if row.api_key_id else "person" if row.user_id else "everybody"
    if row.group is not None:
        source = f"group {row.group.name}"
    values = {name: getattr(row, name) for name in NUMBERS}
    values |= {
        "allowed_models": frozenset(row.allowed_models) or None,
        "highest_class": row.highest_class or None,
        "cached_weight": _CACHED_WEIGHTS.get(row.cached_tokens_count),
        "zone": _zone(row.time_zone) if row.time_zone and not row.api_key_id else None,
    }
    return {name: (value, source) for name, value in values.items() if value is not None}


def _defaults(everybody: Sequence[Quota]) -> _Set:
    built_in: _Set = {"max_concurrent": (settings.MAX_CONCURRENT_PER_PERSON, "default")}
    return built_in | (_as_set(everybody[0]) if everybody else {})


def _most_generous(groups: Iterable[Quota]) -> _Set:
    found: _Set = {}
    for row in groups:
        for name, other in _as_set(row).items():
            found[name] = _more_generous(name, found[name], other) if name in found else other
    return found


def _more_generous(name: str, one: _Value, other: _Value) -> _Value:
    match name:
        case "zone":
            return one
        case "allowed_models":
            return one[0] | other[0], f"{one[1]}, {other[1]}"
        case "cached_weight":
            return min(one, other, key=_rank)
    return max(one, other, key=_rank)


def _combined(narrowing: Sequence[_Set], base: _Set) -> Limits:
    """From wide to narrow: each lowers, or decides where there is no order."""
    found: _Set = {}
    for one in narrowing:
        for name, (value, source) in one.items():
            found[name] = _narrowed(name, found.get(name), (value, source))
    found = base | found
    return Limits(
        **{name: value for name, (value, _) in found.items()},
        sources={name: source for name, (_, source) in found.items()},
    )


def _narrowed(name: str, wide: _Value | None, narrow: _Value) -> _Value:
    if wide is None or name in ("cached_weight", "zone"):
        return narrow
    if name == "allowed_models":
        return wide[0] & narrow[0], f"{wide[1]}, {narrow[1]}"
    return min(wide, narrow, key=_rank)


def _rank(one: _Value) -> Any:
    value, _ = one
    return _CLASSES.index(value) if isinstance(value, str) else value


def _zone(name: str) -> zoneinfo.ZoneInfo:
    return zoneinfo.ZoneInfo(name or settings.TIME_ZONE)
