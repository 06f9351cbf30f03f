"""Decides whether the limits of its person and key have room for a generation, and reserves it.

Called inside the transaction that stores the generation, with the person's row locked, and those of
the budgets they share: of many at once each sees the ones before it, so no limit is passed by one.
What is reserved is what intake then enforces (`budget_tokens`), so an answer cannot cost more.
"""

from __future__ import annotations

import dataclasses
import datetime
import math
from typing import Any

from django.db.models import Exists, QuerySet
from django.utils import timezone

from accounts.kept import Kept
from accounts.limits import Limits, allowance_for_request, lock_shared_budgets
from accounts.models import ApiKey, User
from accounts.prepared import Given, prepared
from hosting.actions.image_data import ImageData
from hosting.actions.limit_refusals import AccessEnded, LimitMet, TooLarge, forbidden_model
from hosting.actions.meters import Meter, meters_of
from hosting.actions.waiting import wait_seconds
from hosting.models import HostedModel

_BYTES_PER_TOKEN = 4  # of usual text: for the early no; intake counts exactly
_IMAGE_BYTES = 4096  # an image counts as a text of so many: none becomes more tokens
_SHORT_ANSWER_TOKENS = 256  # with less room than this an answer is not begun, but waits its turn
_UNKNOWN_CONTEXT_TOKENS = 32_768

_open: Kept[bool] = Kept()  # whether a model is open to a person


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """What a new generation wants. `content` is everything that becomes prompt; of several prompts
    each may be as long as the context. `num_together`: all that one call begins, it included;
    `num_choices`: how many of them are still to begin with the same prompt, it included."""

    user: User
    api_key: ApiKey | None
    model: HostedModel
    content: Any
    max_tokens: int | None
    num_prompts: int = 1
    num_together: int = 1
    num_choices: int = 1


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Terms:
    """What it gets. None: not limited. `meters` are as they are with it."""

    limits: Limits
    reserved_tokens: int = 0
    max_tokens: int | None = None
    budget_tokens: int | None = None
    paying_group_id: int | None = None
    meters: tuple[Meter, ...] = ()


def admit(asked: Asked) -> Terms:
    """Raises LimitMet, TooLarge, AccessEnded, or Refusal for a model that is not allowed."""
    _lock(asked)
    allowance = allowance_for_request(asked.user, asked.api_key)
    limits = allowance.effective
    _check_model(asked.user, limits, asked.model)
    max_tokens = _lowest(asked.max_tokens, limits.max_output_tokens)
    shared = lock_shared_budgets(allowance.shared)
    allowance = dataclasses.replace(allowance, shared=shared)
    now = timezone.now()
    meters = meters_of(asked.user, asked.api_key, allowance, now)
    for meter in meters:
        if not meter.counts_tokens:
            _check_number(asked, meter, now)
    budgets = [meter for meter in meters if meter.counts_tokens]
    context = _lowest(asked.model.context_limit_tokens, limits.max_context_tokens)
    most = _most_tokens(asked, max_tokens, context)
    reserved = min([most, *(meter.left // asked.num_choices for meter in budgets)])
    _check_room(asked, budgets, max_tokens, now)
    return Terms(
        limits=limits,
        reserved_tokens=reserved,
        max_tokens=max_tokens,
        budget_tokens=reserved if budgets else None,
        paying_group_id=next((one.shared.group_id for one in budgets if one.shared), None),
        meters=tuple(meter.after(reserved, now) for meter in meters),
    )


def check_may_use(user: User, api_key: ApiKey | None, model: HostedModel) -> None:
    """Raises Refusal for a model that is not allowed. For what takes nothing from limits."""
    _check_model(user, allowance_for_request(user, api_key).effective, model)


def _check_model(user: User, limits: Limits, model: HostedModel) -> None:
    def is_open() -> bool:
        return bool(_open_models().rows(person=user.pk, model=model.pk))

    if not limits.may_use(model.name) or not _open.get((user.pk, model.pk), is_open):
        raise forbidden_model(model.name)


@prepared
def _open_models() -> QuerySet[Any, Any]:
    found = HostedModel.objects.open_to(Given("person")).filter(pk=Given("model"))
    return found.order_by().values_list("pk")


def unlimited(asked: Asked) -> Terms:
    """For the service's own work."""
    return Terms(limits=Limits(), max_tokens=asked.max_tokens)


def _lock(asked: Asked) -> None:
    """From here to the commit nobody else admits for this person, or takes their access away."""
    given = {} if asked.api_key is None else {"key": asked.api_key.pk, "now": timezone.now()}
    if not _locking(with_key=bool(given)).rows(person=asked.user.pk, **given):
        raise AccessEnded


@prepared
def _locking(*, with_key: bool) -> QuerySet[Any, Any]:
    people = User.objects.select_for_update(no_key=True, of=("self",)).order_by()
    people = people.filter(pk=Given("person"), is_active=True)
    if with_key:
        usable = ApiKey.objects.usable(Given("now")).filter(pk=Given("key"))
        people = people.filter(Exists(usable))
    return people.values_list("pk")


def _met(asked: Asked, meter: Meter, wanted: int, now: datetime.datetime) -> LimitMet:
    return LimitMet(meter, wanted, wait_seconds=wait_seconds(asked.user, meter, wanted, now))


def _check_number(asked: Asked, meter: Meter, now: datetime.datetime) -> None:
    if asked.num_together > max(meter.limit, 1):
        raise TooLarge(meter, asked.num_together)
    if meter.left < 1:
        raise _met(asked, meter, 1, now)


def _check_room(
    asked: Asked, budgets: list[Meter], max_tokens: int | None, now: datetime.datetime
) -> None:
    prompt = math.ceil(_bytes(asked.content) / _BYTES_PER_TOKEN)
    answer = min(_SHORT_ANSWER_TOKENS if max_tokens is None else max_tokens, _SHORT_ANSWER_TOKENS)
    for meter in budgets:
        each = min(prompt + answer, max(prompt + 1, meter.limit // asked.num_choices))
        wanted = each * asked.num_choices
        if wanted > meter.limit and not meter.is_budget:
            raise TooLarge(meter, wanted)
        if meter.left < wanted:
            raise _met(asked, meter, wanted, now)


def _most_tokens(asked: Asked, max_tokens: int | None, context: int | None) -> int:
    """No prompt has more tokens than bytes, but for what the template says of its own, and adds to
    each message."""
    room = (context or _UNKNOWN_CONTEXT_TOKENS) * asked.num_prompts
    if max_tokens is None:
        return room
    of_template = asked.model.template_tokens + 64 * (1 + len(asked.content))
    return min(room, _bytes(asked.content) + of_template + max_tokens)


def _bytes(content: Any) -> int:
    match content:
        case str():
            return len(content.encode())
        case dict():
            return sum(_bytes(key) + _bytes(value) for key, value in content.items())
        case list() | tuple():
            return sum(map(_bytes, content))
        case ImageData():
            return _IMAGE_BYTES
        case None:
            return 0
    return 4


def _lowest(*values: int | None) -> int | None:
    return min((value for value in values if value is not None), default=None)
