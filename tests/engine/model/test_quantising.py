"""Quantised copies: the weights are those of mlx-lm's own `convert`, the rest is the source's."""

from __future__ import annotations

import contextlib
import json
import os
import resource
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import mlx.core as mx
import psutil
import pytest
from mlx_lm.convert import convert
from mlx_lm.models import qwen3
from mlx_lm.utils import save_model

from engine.model.quantising import QuantisingFailed, write_quantised_copy
from engine.sizing.quantising import WAYS, Way, copy_bytes, is_quantised
from engine.sizing.tensors import tensors_of
from tests.tiny_models import HARMONY, tiny_model_path

FAMILIES = ("tiny-qwen3", "tiny-qwen3-next", "tiny-mamba", "tiny-llama4", HARMONY)


def read(path: Path) -> dict[str, Any]:
    value: dict[str, Any] = json.loads(path.read_text())
    return value


def weights_in(folder: Path) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for file in sorted(folder.glob("model*.safetensors")):
        found |= mx.load(str(file))
    return found


def assert_same_weights(ours: Path, theirs: Path) -> None:
    mine, expected = weights_in(ours), weights_in(theirs)
    assert mine.keys() == expected.keys()
    for name, array in expected.items():
        assert (mine[name].dtype, mine[name].shape) == (array.dtype, array.shape), name
        assert mx.array_equal(mine[name], array, equal_nan=True), name


def copy_of(source: Path, target: Path, way: Way) -> Path:
    assert list(write_quantised_copy(source, target, way))[-1] == 1.0
    return target


@pytest.mark.parametrize("way", WAYS, ids=str)
def test_a_copy_is_what_mlx_lm_would_have_written(tmp_path: Path, way: Way) -> None:
    source = tiny_model_path("tiny-qwen3")
    ours = copy_of(source, tmp_path / "ours", way)
    theirs = tmp_path / "theirs"
    convert(
        str(source), str(theirs), quantize=True,
        q_group_size=way.group_size, q_bits=way.bits, q_mode=way.mode,
    )  # fmt: skip
    assert_same_weights(ours, theirs)
    assert read(ours / "config.json") == read(theirs / "config.json")
    index = "model.safetensors.index.json"
    assert read(ours / index) == read(theirs / index)


@pytest.mark.parametrize("family", FAMILIES)
def test_families_are_copied_as_mlx_lm_does(tmp_path: Path, family: str) -> None:
    """Some have a say of their own in what is quantised, and in how many bits."""
    source = tiny_model_path(family)
    ours = copy_of(source, tmp_path / "ours", Way(group_size=32))
    theirs = tmp_path / "theirs"
    convert(str(source), str(theirs), quantize=True, q_group_size=32, q_bits=4)
    assert_same_weights(ours, theirs)
    assert read(ours / "config.json") == read(theirs / "config.json")


def test_a_copy_is_cast_to_what_the_config_names(tmp_path: Path) -> None:
    source = shutil.copytree(tiny_model_path("tiny-qwen3"), tmp_path / "source")
    config = read(source / "config.json") | {"torch_dtype": "bfloat16"}
    (source / "config.json").write_text(json.dumps(config))
    ours = copy_of(source, tmp_path / "ours", Way())
    convert(str(source), str(tmp_path / "theirs"), quantize=True, q_group_size=64, q_bits=4)
    assert_same_weights(ours, tmp_path / "theirs")
    assert weights_in(ours)["model.norm.weight"].dtype == mx.bfloat16


def test_tokenizer_and_generation_config_come_along(tmp_path: Path) -> None:
    source = shutil.copytree(tiny_model_path("tiny-qwen3"), tmp_path / "source")
    (source / "generation_config.json").write_text('{"temperature": 0.6}')
    (source / "modeling.py").write_text("never run")
    ours = copy_of(source, tmp_path / "ours", Way())
    for file in source.iterdir():
        if file.suffix in (".json", ".jinja") and file.name != "config.json":
            assert (ours / file.name).read_bytes() == file.read_bytes()
    assert not (ours / "modeling.py").exists()


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("way", [Way(), Way(bits=8, group_size=32), WAYS[-1]], ids=str)
def test_the_size_is_known_before(tmp_path: Path, family: str, way: Way) -> None:
    source = tiny_model_path(family)
    expected = copy_bytes(read(source / "config.json"), tensors_of(source), way)
    ours = copy_of(source, tmp_path / "ours", way)
    assert expected is not None
    assert sum(array.nbytes for array in weights_in(ours).values()) == pytest.approx(
        expected, rel=0.1
    )


def test_whether_a_model_is_quantised_is_seen(tmp_path: Path) -> None:
    source = tiny_model_path("tiny-qwen3")
    ours = copy_of(source, tmp_path / "ours", Way())
    assert not is_quantised(read(source / "config.json"), tensors_of(source))
    assert is_quantised(read(ours / "config.json"), tensors_of(ours))
    assert is_quantised(read(source / "config.json"), tensors_of(ours))


def test_a_folder_that_changes_meanwhile_makes_no_copy(tmp_path: Path) -> None:
    source = shutil.copytree(tiny_model_path("tiny-qwen3"), tmp_path / "source")
    writing = write_quantised_copy(source, tmp_path / "ours", Way())
    next(writing)
    (source / "config.json").touch()
    with pytest.raises(QuantisingFailed, match="were changed"):
        list(writing)


@contextlib.contextmanager
def quantising(*arguments: str | Path, **options: Any) -> Iterator[subprocess.Popen[str]]:
    command = [sys.executable, "-m", "engine.quantize", *map(str, arguments)]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, **options
    ) as child:
        yield child


def told_by(child: subprocess.Popen[str]) -> list[dict[str, Any]]:
    assert child.stdout is not None
    told = [json.loads(line) for line in child.stdout]
    child.wait()
    return told


def test_the_process_tells_how_far_it_is_and_nothing_else(tmp_path: Path) -> None:
    with quantising(tiny_model_path("tiny-qwen3"), tmp_path / "ours") as child:
        fractions = [told["fraction"] for told in told_by(child)]
    assert child.returncode == 0
    assert fractions == sorted(fractions) and fractions[-1] == 1.0


def test_the_process_says_why_it_failed(tmp_path: Path) -> None:
    source = shutil.copytree(tiny_model_path("tiny-qwen3"), tmp_path / "source")
    config = read(source / "config.json") | {"model_type": "nothing-known"}
    (source / "config.json").write_text(json.dumps(config))
    with quantising(source, tmp_path / "ours") as child:
        (told,) = told_by(child)
    assert child.returncode == 1
    assert told == {"error": "mlx-lm does not know the architecture 'nothing-known'"}


def test_a_full_disk_is_told(tmp_path: Path) -> None:
    """A limit on the size of files stands for it."""
    with quantising(
        tiny_model_path("tiny-qwen3"), tmp_path / "ours", preexec_fn=_write_little
    ) as child:
        (*_, told) = told_by(child)
    assert told == {"error": "File too large"}


def _write_little() -> None:
    resource.setrlimit(resource.RLIMIT_FSIZE, (400_000, 400_000))


def test_memory_does_not_grow_with_the_model(tmp_path: Path) -> None:
    """No more than a tensor is kept, of some hundred megabytes."""
    source = deep_model(tmp_path / "deep", num_layers=12)
    weight_bytes = (source / "model.safetensors").stat().st_size
    assert weight_bytes > 250e6
    memory: list[int] = []
    with quantising(source, tmp_path / "ours") as child:
        assert child.stdout is not None
        for _ in child.stdout:
            with contextlib.suppress(psutil.Error):  # it has ended
                memory.append(psutil.Process(child.pid).memory_info().rss)
        assert child.wait() == 0
    assert len(memory) > 100 and max(memory) < weight_bytes / 2


def deep_model(folder: Path, *, num_layers: int) -> Path:
    """Of random numbers, which nobody must have in memory to write them."""
    shutil.copytree(tiny_model_path("tiny-qwen3"), folder)
    config = read(folder / "config.json") | {
        "hidden_size": 1024,
        "intermediate_size": 3072,
        "num_hidden_layers": num_layers,
        "num_attention_heads": 16,
        "head_dim": 64,
    }
    (folder / "config.json").write_text(json.dumps(config))
    model = qwen3.Model(qwen3.ModelArgs.from_dict(config))
    model.set_dtype(mx.bfloat16)
    save_model(folder, model, donate_model=True)
    return folder


def test_the_process_ends_with_who_started_it(tmp_path: Path) -> None:
    """Also in the middle of its work, which here never ends."""
    source = tmp_path / "source"
    source.mkdir()
    os.mkfifo(source / "config.json")
    with quantising(source, tmp_path / "ours") as child:
        assert child.stdin is not None
        child.stdin.close()
        assert child.wait(timeout=60) == 3
