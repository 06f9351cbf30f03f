"""Why a model could not be loaded, in words that say what can be done."""

from __future__ import annotations

# A part of the engine's reason, and what helps against it. The first that fits counts.
_REMEDIES = (
    ("folder is not on the machine", "Copy it there, or name where it lies: HEARTH_MODEL_FOLDERS."),
    ("the weights need", "Choose a smaller model, or give it more memory."),
    ("config.json", "Without its sizes it is not served. Fetch the model again."),
    ("safetensors", "A file of the weights is missing or cut off. Fetch the model again."),
    ("not supported", "mlx-lm does not know this architecture."),
    ("Missing", "The weights do not belong to this config. Fetch the model again."),
    ("tokenizer", "The tokenizer's files are missing or damaged. Fetch the model again."),
    ("KV cache", "Choose another precision of the KV cache."),
)
_ELSE = "The engine's log has the rest. It tries again when somebody asks for the model."


def explanation(detail: str) -> str:
    """The reason, and what to do about it."""
    remedy = next((help_ for part, help_ in _REMEDIES if part.lower() in detail.lower()), _ELSE)
    reason = detail[:1].upper() + detail[1:]
    end = "" if reason.endswith((".", "?", "!")) else "."
    return f"{reason}{end} {remedy}"
