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
        """As it is registered where no folder of it is found."""
        registered = Path(spec.path)
        if registered.is_dir():
            return spec
        for folder in self._folders:
            for name in (spec.name, registered.name):
                if (folder / name / "config.json").is_file():
                    return wire.replace(spec, path=str(folder / name))
        return spec
