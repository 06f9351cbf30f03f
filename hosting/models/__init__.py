"""The rows of the service: models it hosts, conversations of people, generations."""

from hosting.models.batch import Batch, BatchAnswer, BatchLine
from hosting.models.benchmark import Benchmark, BenchmarkAnswer, QuestionSet
from hosting.models.conversation import Conversation, Message
from hosting.models.forgetting import Forgetting
from hosting.models.generation import Generation
from hosting.models.hosted_model import HostedModel
from hosting.models.idempotency_key import IdempotencyKey
from hosting.models.image import Image, MessageImage
from hosting.models.memory_limit import MemoryLimit
from hosting.models.published_prompt import PublishedPrompt
from hosting.models.quantisation import Quantisation
from hosting.models.reading import EngineReading
from hosting.models.stored_file import StoredFile
from hosting.models.tool_call import ToolCall, ToolConsent, ToolOffer
from hosting.models.tool_server import ToolServer

__all__ = [
    "Batch",
    "BatchAnswer",
    "BatchLine",
    "Benchmark",
    "BenchmarkAnswer",
    "Conversation",
    "EngineReading",
    "Forgetting",
    "Generation",
    "HostedModel",
    "IdempotencyKey",
    "Image",
    "MemoryLimit",
    "Message",
    "MessageImage",
    "PublishedPrompt",
    "Quantisation",
    "QuestionSet",
    "StoredFile",
    "ToolCall",
    "ToolConsent",
    "ToolOffer",
    "ToolServer",
]
