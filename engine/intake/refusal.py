"""How the parts of intake say no."""

from __future__ import annotations

from engine import wire
from engine.sizing.words import allowed_size, needed_size


class Refusal(Exception):
    """This request is refused."""

    def __init__(self, refused: wire.Refused) -> None:
        super().__init__(refused.detail)
        self.refused = refused


def invalid(param: str | None, detail: str, **numbers: float) -> Refusal:
    """The field `param` has a value that cannot be served."""
    return Refusal(
        wire.Refused(
            code=wire.Code.INVALID_VALUE, detail=detail, param=param, numbers=dict(numbers)
        )
    )


def model_not_found(name: str) -> Refusal:
    return Refusal(
        wire.Refused(
            code=wire.Code.MODEL_NOT_FOUND,
            detail=f"The model '{name}' does not exist.",
            param="model",
        )
    )


def wrong_kind(name: str, *, wanted: wire.ModelKind, kind: wire.ModelKind) -> Refusal:
    does = {
        wire.ModelKind.GENERATE: "answers",
        wire.ModelKind.EMBED: "makes embeddings",
        wire.ModelKind.RERANK: "reranks",
    }
    return invalid("model", f"The model '{name}' {does[kind]}; one that {does[wanted]} is needed.")


def model_unusable(name: str, reason: str) -> Refusal:
    detail = f"The model '{name}' cannot be used: {reason}."
    return Refusal(wire.Refused(code=wire.Code.MODEL_LOAD_FAILED, detail=detail, param="model"))


def prompt_too_long(
    param: str, *, limit_tokens: int, prompt_tokens: int, is_estimate: bool
) -> Refusal:
    """`is_estimate`: counting stopped early, the prompt is longer still."""
    what = "messages" if param == "messages" else "prompt"
    at_least = "at least " if is_estimate else ""
    return Refusal(
        wire.Refused(
            code=wire.Code.CONTEXT_LENGTH_EXCEEDED,
            detail=(
                f"This model's maximum context length is {limit_tokens} tokens. However, your "
                f"{what} resulted in {at_least}{prompt_tokens} tokens. Please reduce the length "
                f"of the {what}."
            ),
            param=param,
            numbers={"limit_tokens": limit_tokens, "prompt_tokens": prompt_tokens},
        )
    )


def does_not_fit(
    param: str,
    *,
    needed_bytes: int,
    limit_bytes: int,
    shorter_by_tokens: int,
    fitting_output_tokens: int,
    unloadable: str | None,
) -> Refusal:
    """It would never fit into memory: what would help is said."""
    helps = [f"shorten the {param} by {shorter_by_tokens} tokens"]
    if fitting_output_tokens > 0:
        helps.append(f"ask for at most {fitting_output_tokens} output tokens")
    if unloadable is not None:
        helps.append(f"have the model {unloadable!r} unloaded")
    return Refusal(
        wire.Refused(
            code=wire.Code.DOES_NOT_FIT,
            detail=(
                f"This request needs {needed_size(needed_bytes)} of memory and the limit is "
                f"{allowed_size(limit_bytes)}. What would help: {', or '.join(helps)}."
            ),
            param=param,
            numbers={
                "needed_bytes": needed_bytes,
                "limit_bytes": limit_bytes,
                "shorter_by_tokens": shorter_by_tokens,
                "max_tokens": fitting_output_tokens,
            },
        )
    )


def check_budget(budget_tokens: int, prompt_tokens: int, *, least_answer_tokens: int = 1) -> None:
    """Raises Refusal when the prompt leaves no room for an answer in what may be spent."""
    if prompt_tokens + least_answer_tokens > budget_tokens:
        raise Refusal(
            wire.Refused(
                code=wire.Code.BUDGET_EXCEEDED,
                detail=f"The prompt has {prompt_tokens} tokens, and {budget_tokens} may be used.",
                numbers={"limit_tokens": budget_tokens, "prompt_tokens": prompt_tokens},
            )
        )


def queue_full(code: wire.Code, *, num_waiting: int, limit: int, room_seconds: float) -> Refusal:
    retry = {"retry_seconds": room_seconds} if room_seconds else {}
    whose = "Your" if code == wire.Code.TENANT_QUEUE_FULL else "The model's"
    return Refusal(
        wire.Refused(
            code=code,
            detail=f"{whose} queue is full: {num_waiting} requests wait already.",
            param="model",
            numbers={"waiting": num_waiting, "limit": limit, **retry},
        )
    )
