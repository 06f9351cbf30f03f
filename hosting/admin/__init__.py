"""The service in the administration: models, generations, the live page.

Conversations are not registered: administrators do not read them.
"""

from hosting.admin import generations, hosted_models, published_prompts

__all__ = ["generations", "hosted_models", "published_prompts"]
