"""Numbers and lists that come with a request: what they may be. It does not know their effect."""

from __future__ import annotations

from engine import wire
from engine.intake.refusal import invalid

MAX_LOGIT_BIASES = 1024
MAX_TOP_LOGPROBS = 20
SEED_LIMIT = 2**63
MAX_DEADLINE_SECONDS = 7 * 24 * 3600


def check_sampling(sampling: wire.Sampling, *, vocabulary_size: int) -> None:
    """Raises Refusal."""
    _check_number("temperature", sampling.temperature, least=0, most=2)
    _check_number("top_p", sampling.top_p, least=0, most=1)
    _check_whole("top_k", sampling.top_k, least=0, most=vocabulary_size)
    _check_number("min_p", sampling.min_p, least=0, most=1)
    _check_number("presence_penalty", sampling.presence_penalty, least=-2, most=2)
    _check_number("frequency_penalty", sampling.frequency_penalty, least=-2, most=2)
    _check_number(
        "repetition_penalty", sampling.repetition_penalty, least=0, most=10, is_above_least=True
    )
    _check_whole("seed", sampling.seed, least=-SEED_LIMIT, most=SEED_LIMIT - 1)
    if sampling.top_logprobs is not None:
        _check_whole("top_logprobs", sampling.top_logprobs, least=0, most=MAX_TOP_LOGPROBS)
    _check_logit_bias(sampling.logit_bias, vocabulary_size)


def check_limits(generate: wire.Generate) -> None:
    """Where the answer ends. Raises Refusal."""
    if generate.max_tokens is not None:
        _check_whole("max_tokens", generate.max_tokens, least=1, most=2**31)
    check_deadline(generate.deadline_seconds)
    if len(generate.stop) > wire.MAX_STOPS:
        raise invalid(
            "stop",
            f"At most {wire.MAX_STOPS} stop strings are allowed, not {len(generate.stop)}.",
            limit=wire.MAX_STOPS,
            given=len(generate.stop),
        )
    for stop in generate.stop:
        _check_stop(stop)


def check_deadline(seconds: float | None) -> None:
    """Raises Refusal."""
    if seconds is not None:
        _check_number(
            "deadline_seconds", seconds, least=0, most=MAX_DEADLINE_SECONDS, is_above_least=True
        )


def _check_stop(stop: object) -> None:
    if not isinstance(stop, str):
        raise invalid("stop", f"A stop string must be a string, not {_kind(stop)}.")
    if not stop:
        raise invalid("stop", "A stop string must not be empty.")
    if len(stop) > wire.MAX_STOP_CHARACTERS:
        raise invalid(
            "stop",
            f"A stop string may have {wire.MAX_STOP_CHARACTERS} characters, not {len(stop)}.",
            limit=wire.MAX_STOP_CHARACTERS,
            given=len(stop),
        )


def _check_logit_bias(logit_bias: object, vocabulary_size: int) -> None:
    if not isinstance(logit_bias, tuple) or len(logit_bias) > MAX_LOGIT_BIASES:
        raise invalid("logit_bias", f"logit_bias may have {MAX_LOGIT_BIASES} entries.")
    for pair in logit_bias:
        if not isinstance(pair, tuple) or len(pair) != 2:
            raise invalid("logit_bias", "logit_bias must map token ids to numbers.")
        token_id, bias = pair
        if not _is_whole(token_id) or not 0 <= token_id < vocabulary_size:
            raise invalid(
                "logit_bias",
                f"The token id {_short(token_id)} is not in the vocabulary of {vocabulary_size}.",
                vocabulary_size=vocabulary_size,
            )
        _check_number("logit_bias", bias, least=-100, most=100)
    if len(dict(logit_bias)) < len(logit_bias):
        raise invalid("logit_bias", "logit_bias must name each token id once.")


def _check_number(
    param: str, value: object, *, least: float, most: float, is_above_least: bool = False
) -> None:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise invalid(param, f"{param} must be a number, not {_kind(value)}.")
    # Comparisons that a NaN fails and that integers of any size survive.
    is_high_enough = value > least if is_above_least else value >= least
    if not (is_high_enough and value <= most):
        relation = "above" if is_above_least else "at least"
        raise invalid(
            param,
            f"{param} must be {relation} {least} and at most {most}, not {_short(value)}.",
            **_finite(minimum=least, maximum=most, given=value),
        )


def _check_whole(param: str, value: object, *, least: int, most: int) -> None:
    if not _is_whole(value):
        raise invalid(param, f"{param} must be a whole number, not {_kind(value)}.")
    _check_number(param, value, least=least, most=most)


def _is_whole(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _finite(**numbers: float) -> dict[str, float]:
    """Those that JSON can carry and a reader can use."""
    return {name: value for name, value in numbers.items() if abs(value) < 2**63}


def _short(value: object) -> str:
    return str(value)[:40]


def _kind(value: object) -> str:
    return type(value).__name__
