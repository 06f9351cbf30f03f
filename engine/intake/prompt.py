"""A prompt that is no conversation: raw text, token ids, or the two sides of a gap."""

from __future__ import annotations

from engine import wire
from engine.intake.encode import TooManyTokens
from engine.intake.fill_in_middle import find_layout
from engine.intake.messages import check_text
from engine.intake.model_folder import ModelFolder
from engine.intake.refusal import invalid


def check_form(generate: wire.Generate) -> None:
    """One of the three forms, and a suffix only where it can be. Raises Refusal."""
    forms = (generate.messages, generate.prompt, generate.prompt_token_ids)
    if sum(form is not None for form in forms) != 1:
        raise invalid(
            "messages", "Exactly one of messages, prompt and prompt_token_ids must be given."
        )
    if generate.suffix is not None and generate.prompt is None:
        raise invalid("suffix", "A suffix needs a prompt that is text.")


def tokenize_prompt(
    generate: wire.Generate, folder: ModelFolder, max_tokens: int
) -> tuple[int, ...]:
    """Raises Refusal or TooManyTokens."""
    if generate.prompt_token_ids is not None:
        return _checked_ids(generate.prompt_token_ids, folder.vocabulary_size, max_tokens)
    if generate.suffix is not None:
        return _fill_in_middle(generate, folder, max_tokens)
    prompt = check_text("prompt", generate.prompt)
    if not prompt:
        raise invalid("prompt", "prompt must not be empty.")
    return folder.encoder.encode_prompt(prompt, max_tokens=max_tokens)


def _fill_in_middle(
    generate: wire.Generate, folder: ModelFolder, max_tokens: int
) -> tuple[int, ...]:
    layout = find_layout(folder.encoder.token_id)
    if layout is None:
        raise invalid("suffix", "This model cannot fill in the middle: it has no tokens for it.")
    return folder.encoder.encode_fill_in_middle(
        layout,
        prefix=check_text("prompt", generate.prompt),
        suffix=check_text("suffix", generate.suffix),
        max_tokens=max_tokens,
        whose=generate.tenant,
    )


def _checked_ids(
    token_ids: tuple[int, ...], vocabulary_size: int, max_tokens: int
) -> tuple[int, ...]:
    if not token_ids:
        raise invalid("prompt", "prompt must not be empty.")
    if len(token_ids) > max_tokens:
        raise TooManyTokens(len(token_ids))
    for token_id in token_ids:
        is_whole = isinstance(token_id, int) and not isinstance(token_id, bool)
        if not is_whole or not 0 <= token_id < vocabulary_size:
            raise invalid(
                "prompt",
                f"The token id {str(token_id)[:40]} is not in the vocabulary of {vocabulary_size}.",
                vocabulary_size=vocabulary_size,
            )
    return token_ids
