"""What the files of sentence-transformers say: how one vector is made of all tokens' states."""

from __future__ import annotations

import dataclasses
import enum
import json
from pathlib import Path
from typing import Any

from engine.model.loader import LoadFailed

_KNOWN_MODULES = frozenset({"Transformer", "Pooling", "Normalize"})


class PoolingKind(enum.Enum):
    MEAN = "pooling_mode_mean_tokens"
    FIRST = "pooling_mode_cls_token"
    LAST = "pooling_mode_lasttoken"


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Pooling:
    """`is_normalized`: vectors are brought to length 1."""

    kind: PoolingKind = PoolingKind.LAST
    is_normalized: bool = True


def read_pooling(path: Path, *, default: PoolingKind) -> Pooling:
    """`default` counts in a folder without such files. Raises LoadFailed."""
    modules = _modules(path)
    unknown = set(modules) - _KNOWN_MODULES
    if unknown:
        raise LoadFailed(f"its module {sorted(unknown)[0]} is not supported")
    kind = _pooling_kind(path / (modules.get("Pooling") or "1_Pooling")) or default
    return Pooling(kind=kind, is_normalized=not modules or "Normalize" in modules)


def _modules(path: Path) -> dict[str, str]:
    """The folder of each module, by the module's kind."""
    listed = _read_json(path / "modules.json") or []
    try:
        return {one["type"].rpartition(".")[2]: one["path"] for one in listed}
    except (LookupError, TypeError, AttributeError) as error:
        raise LoadFailed("its modules.json is none of sentence-transformers") from error


def _pooling_kind(folder: Path) -> PoolingKind | None:
    settings = _read_json(folder / "config.json")
    if settings is None:
        return None
    modes = [name for name, is_on in settings.items() if "pooling_mode_" in name and is_on is True]
    known = [kind for kind in PoolingKind if modes == [kind.value]]
    if not known:
        raise LoadFailed(f"its way of pooling is not supported: {', '.join(modes) or 'none'}")
    return known[0]


def _read_json(path: Path) -> Any:
    try:
        return json.loads(path.read_text("utf-8"))
    except FileNotFoundError:
        return None
    except (OSError, ValueError) as error:
        where = "/".join(path.parts[-2:])
        raise LoadFailed(f"{where} cannot be read: {error}") from error
