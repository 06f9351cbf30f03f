"""The service in the administration: models, generations, the live page.

Conversations are not registered: administrators read them only where a policy lets them
(reading.py), and are seen reading.
"""

from hosting.admin import (
    batches,
    benchmarks,
    generations,
    hosted_models,
    published_prompts,
    quantisations,
    tool_servers,
)

__all__ = [
    "batches",
    "benchmarks",
    "generations",
    "hosted_models",
    "published_prompts",
    "quantisations",
    "tool_servers",
]
