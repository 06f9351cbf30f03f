"""Which engines one machine runs, and what each has of it. Pure, but for what is handed in.

    HEARTH_ENGINES=2            engine-1 and engine-2
    HEARTH_ENGINES=left,right   these names
    HEARTH_ENGINES=gpus         one for each NVIDIA GPU

Without it there is one, named by HEARTH_ENGINE_NAME. Names are to be one engine's only among all
that share a Redis.
"""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Mapping, Sequence
from importlib.metadata import distributions
from pathlib import Path

from django.core.exceptions import ImproperlyConfigured

MOST_ENGINES = 64
_GPUS = Path("/proc/driver/nvidia/gpus")


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Seat:
    """`gpu`: the one that it sees, as CUDA_VISIBLE_DEVICES has it; None: whatever there is.
    `num_sharing`: so many engines share its memory."""

    name: str
    gpu: str | None = None
    num_sharing: int = 1

    @property
    def environment(self) -> dict[str, str]:
        own_gpu = {} if self.gpu is None else {"CUDA_VISIBLE_DEVICES": self.gpu}
        is_shared = self.num_sharing > 1
        return own_gpu | (
            {"HEARTH_MEMORY_SHARE": f"{1 / self.num_sharing:.4f}"} if is_shared else {}
        )


def find_seats(environ: Mapping[str, str], *, gpus: Sequence[str]) -> list[Seat]:
    """`gpus`: those that engines can use. Each engine gets one while there are enough.

    Raises ImproperlyConfigured.
    """
    names = _names(environ, num_gpus=len(gpus))
    if len(names) == 1:
        return [Seat(name=names[0])]
    own = [gpus[number % len(gpus)] if gpus else None for number in range(len(names))]
    sharing = Counter(own)
    return [
        Seat(name=name, gpu=gpu, num_sharing=sharing[gpu])
        for name, gpu in zip(names, own, strict=True)
    ]


def _names(environ: Mapping[str, str], *, num_gpus: int) -> list[str]:
    told = environ.get("HEARTH_ENGINES", "").strip()
    first = environ.get("HEARTH_ENGINE_NAME") or "engine-1"
    if not told:
        return [first]
    if told == "gpus" and not num_gpus:
        raise ImproperlyConfigured("HEARTH_ENGINES=gpus: there is no NVIDIA GPU that MLX can use.")
    if told == "gpus" or told.isdigit():
        number = num_gpus if told == "gpus" else int(told)
        if not 1 <= number <= MOST_ENGINES:
            raise ImproperlyConfigured(f"HEARTH_ENGINES is 1 to {MOST_ENGINES}, not {told}.")
        stem = environ.get("HEARTH_ENGINE_NAME") or "engine"
        return [f"{stem}-{one}" for one in range(1, number + 1)] if number > 1 else [first]
    names = [name.strip() for name in told.split(",") if name.strip()]
    if len(set(names)) < len(names):
        raise ImproperlyConfigured(f"HEARTH_ENGINES={told}: each engine needs a name of its own.")
    return names


def usable_gpus(environ: Mapping[str, str]) -> list[str]:
    """NVIDIA's, where this MLX computes on them: those of CUDA_VISIBLE_DEVICES, or all."""
    if not any(one.name.startswith("mlx-cuda") for one in distributions()):
        return []
    told = environ.get("CUDA_VISIBLE_DEVICES")
    if told is not None:
        return [one.strip() for one in told.split(",") if one.strip()]
    return [str(number) for number, _ in enumerate(_GPUS.glob("*"))]
