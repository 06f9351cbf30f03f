"""Images that people have given for their messages. The bytes lie in the data folder."""

from __future__ import annotations

import uuid

from django.conf import settings
from django.db import models
from django.utils import timezone

from hosting.models.conversation import Message


class Image(models.Model):
    """A row is there only when all bytes are (actions/images.py). Of the same bytes a person has
    one, in however many messages it is; `given_at` is when they gave it last."""

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    owner = models.ForeignKey(settings.AUTH_USER_MODEL, models.CASCADE, related_name="+")
    digest = models.CharField(max_length=64)
    media_type = models.CharField(max_length=16)
    num_bytes = models.PositiveIntegerField()
    given_at = models.DateTimeField(default=timezone.now)

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["owner", "digest"], name="one_image_of_its_bytes")
        ]

    def __str__(self) -> str:
        return f"image {self.pk}"


class MessageImage(models.Model):
    """An image in its place in a message."""

    message = models.ForeignKey(Message, models.CASCADE, related_name="message_images")
    image = models.ForeignKey(Image, models.CASCADE, related_name="message_images")
    number = models.PositiveSmallIntegerField()

    class Meta:
        ordering = ["message", "number"]
        constraints = [
            models.UniqueConstraint(fields=["message", "number"], name="one_image_in_its_place")
        ]

    def __str__(self) -> str:
        return f"{self.image} in {self.message}"
