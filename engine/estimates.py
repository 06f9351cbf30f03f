"""The estimates of all models of an engine, and what was learned for them, across restarts.

    data folder / estimates / <engine>.json
    {"version": 2, "models": {key: {"slices": {"factors": [...], "seen": [...]}, "steps": ...,
                                    "cost": {"moments": [[...], ...], ...} or null}}}

A key stands for the model's config and how it is computed. A file that cannot be read is counted,
told, and written anew: the formula alone is what a new engine has too. Owner: the model thread.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
import logging
import math
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from engine.config import EngineConfig
from engine.core.cost import CostModel, Measured
from engine.model.memory import DeviceKind
from engine.peaks import ModelPeaks
from engine.sizing.encoder import EncoderEstimate
from engine.sizing.estimate import (
    CPU_CORRECTION,
    CUDA_CORRECTION,
    METAL_CORRECTION,
    Estimate,
    Numbers,
)
from engine.sizing.learning import Learned
from engine.sizing.shape import read_shape

_VERSION = 2
_SAVE_SECONDS = 5.0
_MOST_MODELS = 200
_LARGEST_FACTOR = 1000.0
_USUAL = {"cpu": CPU_CORRECTION, "cuda": CUDA_CORRECTION, "metal": METAL_CORRECTION}
logger = logging.getLogger(__name__)


class Estimates:
    """`file` None: nothing outlives the process. `note_lost` hears of what cannot be read."""

    def __init__(
        self,
        file: Path | None,
        *,
        device: DeviceKind,
        note_lost: Callable[[], None] = lambda: None,
        clock: Callable[[], float] = time.monotonic,
    ):
        self._file = file
        self._usual = _USUAL[device]
        self._runs_ahead = device != "cpu"
        self._clock = clock
        self._models: dict[str, ModelPeaks] = {}
        self._note_lost = note_lost
        self._stored = self._read()
        self._saved_at = clock()

    def get(
        self,
        folder: Path,
        numbers: Numbers,
        *,
        makes_vectors: bool = False,
        is_encoder: bool = False,
    ) -> ModelPeaks:
        """The same one for the same config and use. Raises UnreadableConfig."""
        shape = read_shape(folder)
        key = _key(folder, numbers) + ("-vectors" if makes_vectors else "")
        if key not in self._models:
            formula = EncoderEstimate if is_encoder else Estimate
            estimate = formula(shape, numbers, correction=self._usual)
            self._models[key] = ModelPeaks(
                estimate, runs_ahead=self._runs_ahead, **self._learned(key)
            )
        return self._models[key]

    def note_learned(self) -> None:
        """Save it, now and then: what is lost with the process is learned again soon."""
        if self._clock() - self._saved_at >= _SAVE_SECONDS:
            self.save()

    def save(self) -> None:
        """A crash leaves the file before or after, never half of one."""
        self._saved_at = self._clock()
        if self._file is None or not self._models:
            return
        for key, model in self._models.items():
            self._stored.pop(key, None)
            measured = model.cost.measured
            self._stored[key] = {
                "slices": _plain(model.slices),
                "steps": _plain(model.steps),
                "cost": dataclasses.asdict(measured) if measured else None,
            }
        kept = dict(list(self._stored.items())[-_MOST_MODELS:])
        temporary = self._file.with_suffix(".tmp")
        try:
            self._file.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            temporary.write_text(json.dumps({"version": _VERSION, "models": kept}))
            os.replace(temporary, self._file)
        except OSError as error:
            logger.warning("estimates not saved", extra={"error": str(error)})

    def _read(self) -> dict[str, Any]:
        if self._file is None:
            return {}
        try:
            content = json.loads(self._file.read_text("utf-8"))
            if content["version"] != _VERSION:
                return {}
            return dict(content["models"])
        except FileNotFoundError:
            return {}
        except (OSError, ValueError, TypeError, LookupError) as error:
            self._lose(error)
            return {}

    def _learned(self, key: str) -> dict[str, Any]:
        """Of slices, of steps, and the cost of slices."""
        stored = self._stored.get(key)
        if stored is None:
            return {}
        try:
            factors = {name: _as_learned(stored[name]) for name in ("slices", "steps")}
            return factors | {"cost": CostModel(_as_measured(stored["cost"]))}
        except (ArithmeticError, ValueError, TypeError, LookupError) as error:
            self._lose(error)
            return {}

    def _lose(self, error: Exception) -> None:
        self._note_lost()
        logger.warning("learned estimates lost", extra={"error": repr(error)})


def estimates_file(config: EngineConfig) -> Path:
    return config.data_dir / "estimates" / f"{config.name}.json"


def _key(folder: Path, numbers: Numbers) -> str:
    digest = hashlib.sha256((folder / "config.json").read_bytes())
    digest.update(repr(numbers).encode())
    return digest.hexdigest()[:32]


def _plain(learner: Any) -> dict[str, list[float]]:
    learned = learner.learned
    return {"factors": list(learned.factors), "seen": list(learned.seen)}


def _as_learned(plain: dict[str, list[float]]) -> Learned:
    factors, seen = _numbers(plain["factors"]), _numbers(plain["seen"])
    if not all(0 < one <= _LARGEST_FACTOR for one in factors):
        raise ValueError(f"factors {factors}")
    return Learned(factors=factors, seen=seen)


def _as_measured(plain: dict[str, Any] | None) -> Measured | None:
    if plain is None:
        return None
    first, second, third = (_numbers(row) for row in plain["moments"])
    variance, trusted_tokens, _ = _numbers([plain["variance"], plain["trusted_tokens"], 0.0])
    return Measured(
        moments=(first, second, third),
        targets=_numbers(plain["targets"]),
        variance=variance,
        trusted_tokens=int(trusted_tokens),
    )


def _numbers(values: list[float]) -> tuple[float, float, float]:
    first, second, third = (float(one) for one in values)
    if not all(math.isfinite(one) and one >= 0 for one in (first, second, third)):
        raise ValueError(f"numbers {values}")
    return first, second, third
