"""What a model is called in the cache: another name wherever its numbers may be others."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import mlx.core as mx
import pytest
from mlx import nn

from engine.model.identity import identity_of, stamps_of
from tests.tiny_models import tiny_model_path


class Toy(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.weight = mx.zeros((4, 4))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    shutil.copytree(tiny_model_path("tiny-qwen3"), tmp_path / "model")
    return tmp_path / "model"


def test_a_folder_has_one_name(folder: Path) -> None:
    assert identity_of(folder, Toy()) == identity_of(folder, Toy())


def test_what_macos_lays_beside_a_file_is_none_of_the_weights(folder: Path) -> None:
    """On disks that cannot store a file's attributes, as exFAT: the first eight bytes, taken for
    the length of a safetensors header, are 2.2 TB."""
    before, stamps = identity_of(folder, Toy()), stamps_of(folder)
    (folder / "._model.safetensors").write_bytes(b"\0\x05\x16\x07\0\2\0\0Mac OS X".ljust(4096))
    assert identity_of(folder, Toy()) == before
    assert stamps_of(folder) == stamps


@pytest.mark.parametrize("size", [20_000, 40_000_000])
@pytest.mark.parametrize("place", [0.0, 0.37, 1.0])
def test_other_weights_of_the_same_size_and_time_are_another_model(
    tmp_path: Path, size: int, place: float
) -> None:
    """A stretch of them: a quantised row at the least, a matrix in a large file."""
    file, num_changed = tmp_path / "model.safetensors", max(4096, size // 500)
    mx.save_safetensors(str(file), {"a": mx.zeros(size // 4)})
    before, about = identity_of(tmp_path, Toy()), file.stat()
    start = round(place * (about.st_size - num_changed))
    with file.open("r+b") as stream:
        stream.seek(max(start, about.st_size - size))
        stream.write(b"\x01" * num_changed)
    os.utime(file, ns=(about.st_atime_ns, about.st_mtime_ns))
    assert file.stat().st_size == about.st_size
    assert identity_of(tmp_path, Toy()) != before


@pytest.mark.parametrize("name", ["config.json", "tokenizer.json"])
def test_another_config_or_tokenizer_is_another_model(folder: Path, name: str) -> None:
    before = identity_of(folder, Toy())
    (folder / name).write_text((folder / name).read_text() + " ")
    assert identity_of(folder, Toy()) != before


@pytest.mark.parametrize("what", ["mlx.core.__version__", "engine.model.identity.KERNELS"])
def test_what_another_version_computed_is_not_taken(
    folder: Path, monkeypatch: pytest.MonkeyPatch, what: str
) -> None:
    before = identity_of(folder, Toy())
    monkeypatch.setattr(what, "another")
    assert identity_of(folder, Toy()) != before


def test_a_quantised_model_in_other_numbers_is_another_model(folder: Path) -> None:
    """Its first parameters are packed integers, however its scales are cast."""
    layer = nn.QuantizedLinear(64, 64)
    before = identity_of(folder, layer)
    layer.set_dtype(mx.bfloat16)
    assert {array.dtype for array in layer.parameters().values()} == {mx.uint32, mx.bfloat16}
    assert identity_of(folder, layer) != before
