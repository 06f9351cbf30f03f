"""What goes wrong with a tool server, in sentences for people and models."""

from __future__ import annotations


class ToolServerError(Exception):
    """The message is a sentence. `may_have_run`: a call had been sent when it happened."""

    def __init__(self, message: str) -> None:
        super().__init__(message)
        self.message = message
        self.may_have_run = False


class ServerRefused(ToolServerError):
    """It was asked and answered no, in the protocol's own words."""


class NoLongerWanted(ToolServerError):
    """Whoever asked has gone, or is told to end."""
