"""From a Generate to the Work that an engine can do, or a Refusal.

It reads model folders. It does not know where requests come from.
"""

from __future__ import annotations

import time
from collections.abc import Sequence

from engine import wire
from engine.intake import refusal
from engine.intake.begun_answer import check_begun
from engine.intake.encode import TooManyTokens
from engine.intake.images import Looking, Picture, has_images, look
from engine.intake.messages import clean_tools
from engine.intake.model_folder import FolderUnusable, Library, ModelFolder
from engine.intake.prompt import check_form, tokenize_prompt
from engine.intake.refusal import check_budget, invalid
from engine.intake.rendering import Prompt, render_prompt
from engine.intake.sampling_check import check_limits, check_sampling
from engine.intake.vector_door import Reading, check_vectors


class Door:
    """Used by one thread, the main one: its time limits are signals."""

    def __init__(self, library: Library) -> None:
        self._library = library

    def check(
        self,
        generate: wire.Generate,
        spec: wire.ModelSpec,
        *,
        pictures: Sequence[Picture] = (),
        finds_boundaries: bool = True,
    ) -> wire.Work:
        """Raises Refusal. `pictures`: what `look` found. Boundaries take another rendering each."""
        folder = self.open_folder(spec)
        check_limits(generate)
        check_sampling(generate.sampling, vocabulary_size=folder.vocabulary_size)
        check_form(generate)
        check_begun(generate)
        limit_tokens = spec.context_limit_tokens or folder.limit_tokens
        limit_tokens = min(limit_tokens, generate.max_context_tokens or limit_tokens)
        try:
            prompt = _prompt(
                generate,
                folder,
                limit_tokens - 1,
                pictures=pictures,
                finds_boundaries=finds_boundaries,
            )
        except TooManyTokens as error:
            raise _too_long(generate, limit_tokens, error) from error
        if not prompt.token_ids:
            param = _param(generate)
            raise invalid(param, f"The {param} resulted in no tokens.")
        if generate.budget_tokens is not None:
            check_budget(generate.budget_tokens, len(prompt.token_ids))
            limit_tokens = min(limit_tokens, generate.budget_tokens)
        return _work(generate, prompt, max_tokens=limit_tokens - len(prompt.token_ids))

    def look(self, generate: wire.Generate, spec: wire.ModelSpec) -> Looking | None:
        """What the images of the messages show, one a step, for `check` and `count`; None where
        there are none. Raises Refusal, also at each step."""
        if not has_images(generate):
            return None
        folder = self.open_folder(spec)
        return look(generate, folder.image_form, folder.album)

    def count(
        self,
        generate: wire.Generate,
        spec: wire.ModelSpec,
        *,
        pictures: Sequence[Picture] = (),
    ) -> int:
        """The prompt's tokens, also of twice what the model takes. Raises Refusal, beyond that
        too: counting all of a far longer one would keep others waiting."""
        folder = self.open_folder(spec)
        check_form(generate)
        check_begun(generate)
        limit_tokens = spec.context_limit_tokens or folder.limit_tokens
        try:
            prompt = _prompt(
                generate, folder, limit_tokens, pictures=pictures, finds_boundaries=False
            )
            return len(prompt.token_ids)
        except TooManyTokens as error:
            if error.is_estimate:
                raise _too_long(generate, limit_tokens, error) from error
            return error.num_tokens

    def check_vectors(self, command: wire.Embed | wire.Rerank, spec: wire.ModelSpec) -> Reading:
        """Raises Refusal, also at each step."""
        return check_vectors(command, spec, self.open_folder(spec))

    def open_folder(self, spec: wire.ModelSpec) -> ModelFolder:
        """What the model's folder says, read if need be. Raises Refusal."""
        try:
            return self._library.folder(spec.path)
        except FolderUnusable as error:
            raise refusal.model_unusable(spec.name, str(error)) from error

    def forget_texts(self, *, at_once: bool) -> None:
        """And images. Those that nobody has sent for a while, or all."""
        self._library.forget_texts(at_once=at_once)


def _prompt(
    generate: wire.Generate,
    folder: ModelFolder,
    max_tokens: int,
    *,
    pictures: Sequence[Picture],
    finds_boundaries: bool,
) -> Prompt:
    if generate.messages is not None:
        return render_prompt(
            generate, folder, max_tokens, pictures=pictures, finds_boundaries=finds_boundaries
        )
    return Prompt(token_ids=tokenize_prompt(generate, folder, max_tokens))


def _param(generate: wire.Generate) -> str:
    return "prompt" if generate.messages is None else "messages"


def _too_long(generate: wire.Generate, limit_tokens: int, error: TooManyTokens) -> refusal.Refusal:
    return refusal.prompt_too_long(
        _param(generate),
        limit_tokens=limit_tokens,
        prompt_tokens=error.num_tokens,
        is_estimate=error.is_estimate,
    )


def _work(generate: wire.Generate, prompt: Prompt, *, max_tokens: int) -> wire.Work:
    now = time.time()
    deadline = generate.deadline_seconds
    return wire.Work(
        request_id=generate.request_id,
        model=generate.model,
        tenant=generate.tenant,
        priority=generate.priority,
        submitted_at=generate.submitted_at,
        accepted_at=now,
        sampling=generate.sampling,
        prompt_token_ids=prompt.token_ids,
        max_tokens=min(generate.max_tokens or max_tokens, max_tokens),
        stop=generate.stop,
        tools=tuple(clean_tools(generate.tools)),
        tool_choice=generate.tool_choice,
        grammar=generate.grammar,
        is_raw=generate.messages is None,
        continues_last=generate.continues_last,
        starts_in_reasoning=prompt.starts_in_reasoning,
        has_thought=prompt.has_thought,
        deadline_at=None if deadline is None else generate.submitted_at + deadline,
        boundaries=prompt.boundaries,
        images=prompt.images,
        pixels=prompt.pixels,
        cache_teams=generate.cache_teams,
        publication=generate.publication,
    )
