"""Whether one model may draft for another: they have to have the same tokens.

The engine refuses what is not alike when it loads the two; here it is told when it is chosen.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from hosting.models import HostedModel


def why_not(model: HostedModel, draft: HostedModel) -> str:
    """The reason why `draft` cannot draft for `model`; empty where nothing speaks against it."""
    if draft.pk == model.pk:
        return "A model cannot draft for itself."
    if draft.state != HostedModel.State.READY:
        return f"{draft.name} is not here yet: the two are loaded together."
    if draft.kind != HostedModel.Kind.GENERATE:
        return "A model that makes no answers cannot draft any."
    ours, theirs = _vocabulary(Path(model.path)), _vocabulary(Path(draft.path))
    if ours is not None and theirs is not None and ours != theirs:
        return f"{draft.name} has another vocabulary. Choose a smaller model of the same family."
    return ""


def _vocabulary(folder: Path) -> tuple[Any, Any] | None:
    """None where it is not in the usual form: then only the engine knows."""
    try:
        tokenizer = json.loads((folder / "tokenizer.json").read_text("utf-8"))
        added = {one["content"]: one["id"] for one in tokenizer.get("added_tokens", ())}
        return tokenizer["model"]["vocab"], added
    except (OSError, ValueError, LookupError, TypeError, AttributeError):
        return None
