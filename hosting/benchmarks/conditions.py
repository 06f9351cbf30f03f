"""Under what a benchmark ran: machine, versions, model and its settings, as they were then."""

from __future__ import annotations

import importlib.metadata
import os
import platform
import tomllib
from pathlib import Path

import psutil
from django.conf import settings

from hosting.actions.heartbeats import heartbeats
from hosting.benchmarks.model_files import fingerprint_of, quantisation_of
from hosting.models import HostedModel

_GB = 1024**3


def conditions_of(model: HostedModel) -> dict[str, str]:
    """By what they are called on the page."""
    folder = Path(model.path)
    return {
        "Model's fingerprint": fingerprint_of(folder) or "its files cannot be read here",
        "Weights": f"{model.weight_bytes / _GB:.2f} GB, {quantisation_of(folder)}",
        "Settings": _settings(model),
        "Engines": _engines(),
        "Machine": _machine(),
        "Load when it began": _load(),
        "Versions": _versions(),
    }


def _settings(model: HostedModel) -> str:
    kv_cache = f"{model.kv_bits} bits" if model.kv_bits else "as computed"
    limit = model.context_limit_tokens
    context = f"{limit:,} tokens" if limit else "its own"
    drafts = f"up to {model.draft_tokens} tokens drafted" if model.draft_tokens else "no drafts"
    if model.draft_tokens and model.draft_model:
        drafts += f" by {model.draft_model.name}"
    return (
        f"at most {model.max_rows} answers at once, context {context}, KV cache {kv_cache}, "
        f"{drafts}, pieces of {model.slice_tokens:,} tokens, pace {model.get_pace_display()}"
    )


def _engines() -> str:
    """As they are now, when it begins."""
    told = [
        f"{beat.engine} on {beat.device}"
        + (f", memory limit {beat.memory.limit_bytes / _GB:.1f} GB" if beat.memory else "")
        for beat in heartbeats()
    ]
    return "; ".join(told) or "none was there when it began"


def _machine() -> str:
    memory = psutil.virtual_memory().total / _GB
    return (
        f"{_processor()}, {psutil.cpu_count()} processors, {memory:.0f} GB, "
        f"{platform.system()} {platform.release()} {platform.machine()}"
    )


def _load() -> str:
    """Of all programs, in the minute before: what is measured beside others is slower."""
    return f"{os.getloadavg()[0]:.1f} of {psutil.cpu_count()} processors"


def _processor() -> str:
    """Linux tells it here, and not by `platform`."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        lines = []
    names = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return next(names, "") or platform.processor() or "unknown processor"


def _versions() -> str:
    """Of this installation; an engine on another machine should have the same."""
    project = tomllib.loads((Path(settings.BASE_DIR) / "pyproject.toml").read_text())
    packages = ", ".join(f"{name} {_version(name)}" for name in ("mlx", "mlx-lm"))
    return f"Hearth {project['project']['version']}, {packages}, Python {platform.python_version()}"


def _version(package: str) -> str:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return "unknown"
