"""What is said when a limit is met: what is left, and when there is more."""

from __future__ import annotations

import math
import re
from typing import TYPE_CHECKING

from hosting.actions.refusals import Refusal

if TYPE_CHECKING:
    from hosting.actions.meters import Meter

_SENTENCES = {
    "max_concurrent": "You have {used} requests running or waiting, and may have {limit} at once.",
    "max_queued": "You have {used} requests waiting, and may have {limit}.",
    "requests_per_minute": "You may send {limit} requests a minute; {left} are left.",
    "tokens_per_minute": "You may use {limit} tokens a minute; {left} are left.",
    "tokens_per_day": "You may use {limit} tokens a day; {left} are left.",
    "tokens_per_month": "You may use {limit} tokens a month; {left} are left.",
}
_NEEDED = "This needs {wanted} requests, one for each choice of each prompt"
_NEVER = {
    "max_concurrent": f"{_NEEDED}, and you may have {{limit}} at once.",
    "max_queued": f"{_NEEDED}, and you may have {{limit}} waiting.",
    "requests_per_minute": f"{_NEEDED}, and you may send {{limit}} a minute.",
    "tokens_per_minute": "This needs about {wanted} tokens, and you may use {limit} a minute.",
}


class LimitRefusal(Refusal):
    """`kind` is what was counted: requests or tokens. `is_final`: waiting minutes will not help."""

    kind: str
    is_final: bool
    retry_seconds: float | None


class LimitMet(LimitRefusal):
    """There is less left than was wanted. `group_id`: of the group whose budget it is.
    `is_of_begun`: no end leaves more."""

    def __init__(self, meter: Meter, wanted: int, *, wait_seconds: float) -> None:
        self.kind = "tokens" if meter.counts_tokens else "requests"
        self.is_final = not meter.limit or meter.is_spent(wanted)
        self.retry_seconds = wait_seconds if meter.limit else None
        self.is_of_begun = meter.name == "requests_per_minute"
        self.group_id = meter.shared.group_id if meter.shared is not None else None
        code = "insufficient_quota" if self.is_final else "rate_limit_exceeded"
        super().__init__(code, f"{_sentence(meter)} {self._when(meter, wait_seconds)}", status=429)

    def _when(self, meter: Meter, wait_seconds: float) -> str:
        if not meter.limit:
            return "An administrator can change that."
        if meter.name == "max_concurrent":
            return "Wait until one has ended."
        if meter.name == "max_queued":
            return "Wait until one has begun."
        if self.is_final:
            at = meter.resets_at
            return f"The next period begins on {at:%-d %B} at {at:%H:%M} ({at.tzinfo})."
        return f"There is room again in about {_duration(wait_seconds)}."


class TooLarge(LimitRefusal):
    """More than there may ever be at once, or in a whole minute."""

    def __init__(self, meter: Meter, wanted: int) -> None:
        self.kind = "tokens" if meter.counts_tokens else "requests"
        self.is_final, self.retry_seconds = True, None
        message = _NEVER[meter.name].format(wanted=f"{wanted:,}", limit=f"{meter.limit:,}")
        super().__init__("rate_limit_exceeded", message, status=429)


class AccessEnded(Refusal):
    """The account or the key was switched off a moment ago."""

    def __init__(self) -> None:
        super().__init__("invalid_api_key", "This access has ended.", status=401)


def forbidden_model(name: str) -> Refusal:
    message = f"You may not use the model {name!r}. Choose another, or ask an administrator."
    return Refusal("model_not_found", message, field="model", status=403)


def _sentence(meter: Meter) -> str:
    numbers = {name: f"{getattr(meter, name):,}" for name in ("used", "limit", "left")}
    sentence = _of_one(_SENTENCES[meter.name].format(**numbers))
    return sentence.replace("You", _who(meter), 1)


def _of_one(sentence: str) -> str:
    return re.sub(r"\b1 are\b", "1 is", re.sub(r"\b1 (request|token)s\b", r"1 \1", sentence))


def _who(meter: Meter) -> str:
    if meter.shared is not None:
        return f"The group {meter.shared.group_name} together"
    return "This key" if meter.source == "key" else "You"


def _duration(seconds: float) -> str:
    whole = math.ceil(seconds)
    return f"{whole} s" if whole < 100 else f"{math.ceil(whole / 60)} min"
