"""A body, held against the fields that its call declares."""

from __future__ import annotations

import functools
from typing import Any

from rest_framework.serializers import Serializer


def checked(shape: type[Serializer[Any]], body: Any) -> dict[str, Any]:
    """What it says, converted. Raises ValidationError."""
    said: dict[str, Any] = _reader(shape).run_validation(body)
    return said


@functools.cache
def _reader(shape: type[Serializer[Any]]) -> Serializer[Any]:
    """One for all requests: each instance copies its fields, which takes longer than to read most
    bodies. It holds nothing of what it reads."""
    return shape()
