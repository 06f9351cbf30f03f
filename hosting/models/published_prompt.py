"""System prompts that everybody's requests may use computed. Who computes them it knows not."""

from __future__ import annotations

import uuid

from django.db import models

from hosting.models.hosted_model import HostedModel


class PublishedPromptQuerySet(models.QuerySet["PublishedPrompt"]):
    def awaited(self) -> PublishedPromptQuerySet:
        return self.filter(state=PublishedPrompt.State.ASKED)

    def standing(self) -> PublishedPromptQuerySet:
        return self.filter(state=PublishedPrompt.State.PUBLISHED)


class PublishedPrompt(models.Model):
    """ASKED → PUBLISHED | FAILED. It is never changed: another text is another prompt.

    `engine_started_at` is of the newest engine when it was asked for: one started later may not
    have it in memory. `request_id` is that of the last asking.
    """

    class State(models.TextChoices):
        ASKED = "asked", "being computed"
        PUBLISHED = "published"
        FAILED = "failed"

    name = models.CharField(max_length=100, help_text="For administrators only.")
    model = models.ForeignKey(HostedModel, models.CASCADE, related_name="published_prompts")
    system_prompt = models.TextField(
        help_text="Exactly as clients send it: one letter more or less is another prompt."
    )
    tools = models.JSONField(
        default=list,
        blank=True,
        help_text="The tools that come with it, as a JSON list in OpenAI's form. Mostly none.",
    )
    state = models.CharField(max_length=16, choices=State, default=State.ASKED, editable=False)
    detail = models.TextField(blank=True, editable=False)
    prompt_tokens = models.PositiveIntegerField(default=0, editable=False)
    request_id = models.UUIDField(default=uuid.uuid4, editable=False)
    engine_started_at = models.FloatField(default=0, editable=False)
    asked_at = models.DateTimeField(auto_now_add=True)

    objects = PublishedPromptQuerySet.as_manager()

    class Meta:
        ordering = ["model", "name"]
        constraints = [
            models.UniqueConstraint(fields=["model", "name"], name="one_prompt_of_a_name")
        ]

    def __str__(self) -> str:
        return self.name

    @property
    def publication(self) -> str:
        """Its name on the wire, never used again."""
        return f"prompt:{self.pk}"
