"""Where a model's folder is on this machine: as registered, or in a folder of models named here.

It reads no model.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from engine import wire


class ModelFolders:
    """`folders` are looked through in this order, for the model's name and for its folder's."""

    def __init__(self, folders: Sequence[Path] = ()) -> None:
        self._folders = folders

    def locate(self, spec: wire.ModelSpec) -> wire.ModelSpec:
        """As it is registered where no folder of it is found; so is what drafts for it."""
        draft_path = self._locate(spec.draft_path) if spec.draft_path is not None else None
        return wire.replace(spec, path=self._locate(spec.path, spec.name), draft_path=draft_path)

    def _locate(self, registered: str, *names: str) -> str:
        path = Path(registered)
        if path.is_dir():
            return registered
        for folder in self._folders:
            for name in (*names, path.name):
                if (folder / name / "config.json").is_file():
                    return str(folder / name)
        return registered
