"""A model in full precision, and what is asked of it: what the tests of quantised copies share."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from engine.sizing.quantising import Way
from hosting.actions.hosted_models import add_model
from hosting.actions.quantisations import ask_for_copy
from hosting.models import HostedModel, Quantisation
from tests.engine.transport.rig import Rig
from tests.tiny_models import tiny_model_path

TASK = "hosting.tasks.run_quantisations"


@pytest.fixture(autouse=True)
def data_folder(tmp_path: Path, settings: Any) -> Path:
    settings.DATA_DIR = tmp_path
    settings.MODELS_DIR = tmp_path / "models"
    settings.MIN_FREE_DISK_BYTES = 1
    return tmp_path


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return shutil.copytree(tiny_model_path("tiny-qwen3"), tmp_path / "source")


@pytest.fixture
def model(rig: Rig, folder: Path) -> HostedModel:
    return add_model(str(folder), name="full")


def ask(model: HostedModel, name: str = "small", way: Way | None = None) -> Quantisation:
    return ask_for_copy(model, name=name, way=way or Way(), by=None)


def change_config(folder: Path, **changes: Any) -> None:
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps(config | changes))


def tasks(rig: Rig) -> list[str]:
    queue = rig.redis.lrange("hearth-celery:celery", 0, -1)
    return [json.loads(one)["headers"]["task"] for one in queue]
