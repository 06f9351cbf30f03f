"""The rows of the service: models it hosts, conversations of people, generations."""

from hosting.models.conversation import Conversation, Message
from hosting.models.generation import Generation
from hosting.models.hosted_model import HostedModel

__all__ = ["Conversation", "Generation", "HostedModel", "Message"]
