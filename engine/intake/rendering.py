"""A conversation as the model's tokens: cleaned, templated, tokenized. Raises Refusal.

It does not know limits of length, sampling or who asks.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

from engine import wire
from engine.intake import begun_answer, harmony
from engine.intake.boundaries import publishable, token_positions, turn_starts
from engine.intake.encode import Conversation, TooManyTokens
from engine.intake.image_form import expand
from engine.intake.images import Picture, placed
from engine.intake.limits import TooSlow
from engine.intake.messages import clean_messages, clean_template_options, clean_tools
from engine.intake.model_folder import ModelFolder
from engine.intake.refusal import invalid
from engine.intake.template import Template, TemplateRefused

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
# One that ends so has the thoughts behind it.
_REASONING_ENDS = (
    "</think>",
    "</longcat_think>",
    "<|think:end|>",
    "</thinking>",
    "</seed:think>",
    "[/THINK]",
    "<|END_THINKING|>",
    "<channel|>",
    harmony.ANSWER_START,
)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Prompt:
    """`boundaries`: token positions where other prompts will leave it (boundaries.py). `pixels`: of
    the images, by digest."""

    token_ids: tuple[int, ...]
    images: tuple[wire.PromptImage, ...] = ()
    pixels: dict[str, bytes] = dataclasses.field(default_factory=dict)
    boundaries: tuple[int, ...] = ()
    starts_in_reasoning: bool = False
    has_thought: bool = False


def render_prompt(
    generate: wire.Generate,
    folder: ModelFolder,
    max_tokens: int,
    *,
    pictures: Sequence[Picture],
    finds_boundaries: bool,
) -> Prompt:
    """A publication ends at a boundary, whoever wants others. `pictures`: what the messages' images
    show, in their order. Raises Refusal and TooManyTokens."""
    template, said = _understand(generate, folder)
    write = _as_it_is if folder.image_form is None else folder.image_form.write
    rendered = write(_render(template, said, is_begun=generate.continues_last))
    encoder = folder.encoder
    token_ids = encoder.encode_recurring(
        rendered, marker=said.marker, max_tokens=max_tokens, whose=generate.tenant
    )
    boundaries: tuple[int, ...] = ()
    if finds_boundaries or generate.publication is not None:
        starts = turn_starts(rendered, said, template, write=write)
        controls = encoder.controls_in(template.source)
        boundaries = token_positions(starts, rendered, token_ids, controls)
    if generate.publication is not None:
        return _published(token_ids, boundaries)
    ending = rendered.rstrip()
    prompt = Prompt(
        token_ids=token_ids,
        boundaries=boundaries,
        starts_in_reasoning=(not generate.continues_last and ending.endswith(_REASONING_STARTS)),
        has_thought=generate.continues_last or ending.endswith(_REASONING_ENDS),
    )
    return _with_images(prompt, folder, pictures, max_tokens) if pictures else prompt


def _as_it_is(text: str) -> str:
    return text


def _with_images(
    prompt: Prompt, folder: ModelFolder, pictures: Sequence[Picture], max_tokens: int
) -> Prompt:
    """Raises TooManyTokens."""
    form = folder.image_form
    assert form is not None
    expanded = expand(prompt.token_ids, form)
    if len(expanded.starts) != len(pictures) or expanded.token_ids[-1] == form.token_id:
        raise invalid("messages", "The model's chat template does not show these images.")
    if len(expanded.token_ids) > max_tokens:
        raise TooManyTokens(len(expanded.token_ids))
    return dataclasses.replace(
        prompt,
        token_ids=expanded.token_ids,
        images=placed(pictures, expanded.starts, form),
        pixels={one.digest: one.pixels for one in pictures},
        boundaries=tuple(map(expanded.position, prompt.boundaries)),
    )


def _understand(generate: wire.Generate, folder: ModelFolder) -> tuple[Template, Conversation]:
    messages = clean_messages(generate.messages or ())
    tools = clean_tools(generate.tools)
    template = folder.template(has_tools=bool(tools))
    if template is None:
        raise invalid("messages", "This model has no chat template: send a prompt instead.")
    said = folder.encoder.break_spellings(
        Conversation(
            messages=template.prepare(messages),
            tools=tools,
            options=clean_template_options(generate.template_options),
        )
    )
    if generate.continues_last:
        said = begun_answer.marked(said)
    return template, said if generate.publication is None else publishable(said)


def _render(template: Template, said: Conversation, *, is_begun: bool) -> str:
    try:
        rendered = template.render(
            said.messages, said.tools, said.options, adds_generation_prompt=not is_begun
        )
    except TemplateRefused as error:
        detail = f"The model's chat template does not take this conversation: {error}"
        raise invalid("messages", detail[:500]) from error
    except (TooSlow, MemoryError) as error:
        detail = "The model's chat template took too much time or memory for this conversation."
        raise invalid("messages", detail) from error
    return begun_answer.cut(rendered) if is_begun else rendered


def _published(token_ids: tuple[int, ...], boundaries: tuple[int, ...]) -> Prompt:
    """The tokens of the system prompt alone."""
    if not boundaries:
        raise invalid("messages", "Where the system prompt ends cannot be told for this model.")
    return Prompt(token_ids=token_ids[: boundaries[0]])
