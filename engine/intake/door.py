"""From a Generate to the Work that an engine can do, or a Refusal.

It reads model folders. It does not know where requests come from.
"""

from __future__ import annotations

import time

from engine import wire
from engine.intake import refusal
from engine.intake.encode import Conversation, TooManyTokens
from engine.intake.limits import TooSlow
from engine.intake.messages import check_template_options, clean_messages, clean_tools
from engine.intake.model_folder import FolderUnusable, Library, ModelFolder
from engine.intake.prompt import check_form, tokenize_prompt
from engine.intake.refusal import check_budget, invalid
from engine.intake.sampling_check import check_limits, check_sampling
from engine.intake.template import TemplateRefused

# A generation prompt that ends so lets the model begin with its thoughts.
_REASONING_STARTS = (
    "<think>",
    "<longcat_think>",
    "<|think:start|>",
    "<thinking>",
    "<seed:think>",
    "[THINK]",
    "<|START_THINKING|>",
)


class Door:
    """Used by one thread, the main one: its time limits are signals."""

    def __init__(self, library: Library) -> None:
        self._library = library

    def check(self, generate: wire.Generate, spec: wire.ModelSpec) -> wire.Work:
        """Raises Refusal."""
        folder = self.open_folder(spec)
        check_limits(generate)
        check_sampling(generate.sampling, vocabulary_size=folder.vocabulary_size)
        check_form(generate)
        limit_tokens = spec.context_limit_tokens or folder.limit_tokens
        limit_tokens = min(limit_tokens, generate.max_context_tokens or limit_tokens)
        param = "prompt" if generate.messages is None else "messages"
        try:
            token_ids, starts_in_reasoning = self._tokenize(generate, folder, limit_tokens - 1)
        except TooManyTokens as error:
            raise refusal.prompt_too_long(
                param,
                limit_tokens=limit_tokens,
                prompt_tokens=error.num_tokens,
                is_estimate=error.is_estimate,
            ) from error
        if not token_ids:
            raise invalid(param, f"The {param} resulted in no tokens.")
        if generate.budget_tokens is not None:
            check_budget(generate.budget_tokens, len(token_ids))
            limit_tokens = min(limit_tokens, generate.budget_tokens)
        return _work(
            generate,
            token_ids,
            max_tokens=limit_tokens - len(token_ids),
            starts_in_reasoning=starts_in_reasoning,
        )

    def count(self, generate: wire.Generate, spec: wire.ModelSpec) -> int:
        """The prompt's tokens, also beyond what the model takes. Raises Refusal."""
        folder = self.open_folder(spec)
        check_form(generate)
        limit_tokens = spec.context_limit_tokens or folder.limit_tokens
        try:
            token_ids, _ = self._tokenize(generate, folder, limit_tokens)
        except TooManyTokens as error:
            return error.num_tokens
        return len(token_ids)

    def open_folder(self, spec: wire.ModelSpec) -> ModelFolder:
        """What the model's folder says, read if need be. Raises Refusal."""
        try:
            return self._library.folder(spec.path)
        except FolderUnusable as error:
            raise refusal.model_unusable(spec.name, str(error)) from error

    def _tokenize(
        self, generate: wire.Generate, folder: ModelFolder, max_tokens: int
    ) -> tuple[tuple[int, ...], bool]:
        if generate.messages is None:
            return tokenize_prompt(generate, folder, max_tokens), False
        rendered, marker = self._render(generate, folder)
        token_ids = folder.encoder.encode_rendered(rendered, marker=marker, max_tokens=max_tokens)
        return token_ids, rendered.rstrip().endswith(_REASONING_STARTS)

    def _render(self, generate: wire.Generate, folder: ModelFolder) -> tuple[str, str]:
        check_template_options(generate.template_options)
        messages = clean_messages(generate.messages or ())
        tools = clean_tools(generate.tools)
        template = folder.template(has_tools=bool(tools))
        if template is None:
            raise invalid("messages", "This model has no chat template: send a prompt instead.")
        said = folder.encoder.break_spellings(
            Conversation(
                messages=template.prepare(messages),
                tools=tools,
                options=generate.template_options,
            )
        )
        try:
            return template.render(said.messages, said.tools, said.options), said.marker
        except TemplateRefused as error:
            detail = f"The model's chat template does not take this conversation: {error}"
            raise invalid("messages", detail[:500]) from error
        except (TooSlow, MemoryError) as error:
            detail = "The model's chat template took too much time or memory for this conversation."
            raise invalid("messages", detail) from error


def _work(
    generate: wire.Generate,
    token_ids: tuple[int, ...],
    *,
    max_tokens: int,
    starts_in_reasoning: bool,
) -> wire.Work:
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
        prompt_token_ids=token_ids,
        max_tokens=min(generate.max_tokens or max_tokens, max_tokens),
        stop=generate.stop,
        tools=tuple(clean_tools(generate.tools)),
        tool_choice=generate.tool_choice,
        grammar=generate.grammar,
        starts_in_reasoning=starts_in_reasoning,
        deadline_at=None if deadline is None else generate.submitted_at + deadline,
    )
