"""What an action refuses to do for a person, with a code and the field at fault."""

from __future__ import annotations


class Refusal(Exception):
    """`code` is for programs, the message for people. `status` is HTTP's word for the kind."""

    def __init__(self, code: str, message: str, *, field: str | None = None, status: int = 400):
        super().__init__(message)
        self.code = code
        self.message = message
        self.field = field
        self.status = status


def not_found(what: str) -> Refusal:
    """Also for what belongs to somebody else: whether it exists is nobody else's business."""
    return Refusal("not_found", f"There is no such {what}.", status=404)
