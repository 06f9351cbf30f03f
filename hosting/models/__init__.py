"""The rows of the service: models it hosts, conversations of people, generations."""

from hosting.models.conversation import Conversation, Message
from hosting.models.forgetting import Forgetting
from hosting.models.generation import Generation
from hosting.models.hosted_model import HostedModel
from hosting.models.idempotency_key import IdempotencyKey
from hosting.models.memory_limit import MemoryLimit
from hosting.models.published_prompt import PublishedPrompt
from hosting.models.reading import EngineReading

__all__ = [
    "Conversation",
    "EngineReading",
    "Forgetting",
    "Generation",
    "HostedModel",
    "IdempotencyKey",
    "MemoryLimit",
    "Message",
    "PublishedPrompt",
]
