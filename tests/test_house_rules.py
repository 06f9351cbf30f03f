"""Sizes, names and the shape of the tree. A limit that hurts is a file that has two subjects."""

from __future__ import annotations

import ast
import functools
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
MAX_FILE_LINES = 400
MAX_FUNCTION_LINES = 60
MAX_DEMO_MODEL_BYTES = 12 * 1024 * 1024
FORBIDDEN_NAMES = {"utils.py", "helpers.py", "common.py", "managers.py"}
TOP_LEVEL = {
    *("manage.py", "hosting", "engine", "accounts", "templates", "tests", "requirements.txt"),
    *("README.md", "CHANGELOG.md", "LICENSE", "Makefile", "pyproject.toml", "docs"),
    *(".ci", ".gitignore", ".gitattributes"),
}

# Where a thread, a task or a request ends, with how many there are in the file.
BROAD_EXCEPTS: dict[str, int] = {
    "engine/cache/io_thread.py": 1,  # end of one job: logged, the thread goes on
    "engine/cache/records.py": 1,  # what the device does not take: a miss
    "engine/core/grammar_text.py": 1,  # llguidance's converter raises plain Exception
    "engine/handle.py": 4,  # a step, and one request of it: the request at fault ends
    "engine/safe_reuse.py": 1,  # a cache fault is a miss
    "engine/intake/doorman.py": 1,  # end of a request: refused
    "engine/intake/images.py": 1,  # Pillow raises whatever a broken file provokes
    "engine/intake/model_folder.py": 1,  # tokenizers raises plain Exception
    "engine/intake/seams.py": 1,  # tokenizers raises plain Exception
    "engine/model/encoder_vectors.py": 1,  # tokenizers raises plain Exception
    "engine/model/loader.py": 1,  # end of a load: mlx_lm raises whatever a broken folder provokes
    "engine/model/quantising.py": 1,  # end of a copy: mlx_lm raises whatever it raises
    "engine/vector_handle.py": 1,  # a bundle: the request at fault ends
    "engine/transport/transport.py": 1,  # end of a thread: handed to the model thread
    "hosting/admin/socket.py": 1,  # end of a task: the page connects again
    "hosting/batches/beginning.py": 1,  # end of a line: told in the file of errors
    "hosting/batches/ending.py": 1,  # the same
    "hosting/batches/runner.py": 1,  # end of a batch's turn: the next one tries again
    "hosting/benchmarks/runner.py": 1,  # end of a run: told in its row
    "hosting/actions/hints.py": 1,  # a lossy message: the layer raises whatever it raises
    "hosting/actions/tool_rounds.py": 1,  # a missed round that cannot begin: the others can
    "hosting/actions/tool_running.py": 1,  # end of a thread: the call is lost, and asked about
    "hosting/api/answer_view.py": 1,  # end of a request: DRF makes the error body of it
    "hosting/api/following.py": 1,  # end of a task: handed to whoever reads on
    "hosting/api/run.py": 1,  # end of a stream: told in its last line
    "hosting/download.py": 1,  # end of a process: told to whoever started it
    "hosting/engine_client/reader.py": 1,  # end of a task: its followers are told
    "hosting/management/commands/consume_ledger.py": 1,  # one entry: it comes again
    "hosting/sockets.py": 1,  # end of a task: told to the page
    "hosting/supervisor/supervisor.py": 1,  # end of a thread: handed to whoever awaits it
}


@functools.cache
def tracked_files() -> list[str]:
    listing = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    return [name for name in listing.stdout.splitlines() if (ROOT / name).exists()]


def python_files() -> list[str]:
    return [name for name in tracked_files() if name.endswith(".py") and "/migrations/" not in name]


@functools.cache
def tree_of(name: str) -> ast.Module:
    return ast.parse((ROOT / name).read_text())


def functions_of(tree: ast.Module) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield node


def num_lines(node: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    assert node.end_lineno is not None
    return node.end_lineno - node.lineno + 1


def is_broad(handler: ast.ExceptHandler) -> bool:
    caught = handler.type.elts if isinstance(handler.type, ast.Tuple) else [handler.type]
    return any(
        one is None or (isinstance(one, ast.Name) and one.id in ("Exception", "BaseException"))
        for one in caught
    )


def num_broad_excepts(name: str) -> int:
    handlers = (node for node in ast.walk(tree_of(name)) if isinstance(node, ast.ExceptHandler))
    return sum(map(is_broad, handlers))


def test_no_file_is_longer_than_the_limit() -> None:
    sizes = {name: len((ROOT / name).read_text().splitlines()) for name in python_files()}
    assert not {name: size for name, size in sizes.items() if size > MAX_FILE_LINES}


def test_no_function_is_longer_than_the_limit() -> None:
    long = [
        f"{name}:{node.lineno} {node.name} has {num_lines(node)} lines"
        for name in python_files()
        for node in functions_of(tree_of(name))
        if num_lines(node) > MAX_FUNCTION_LINES
    ]
    assert not long, "\n".join(long)


def test_no_file_has_a_name_that_says_nothing() -> None:
    assert not [name for name in tracked_files() if Path(name).name in FORBIDDEN_NAMES]


def test_the_top_level_is_fixed() -> None:
    assert {name.split("/")[0] for name in tracked_files()} <= TOP_LEVEL


def test_every_file_says_first_what_it_is() -> None:
    silent = [
        name
        for name in python_files()
        if (ROOT / name).read_text().strip() and ast.get_docstring(tree_of(name)) is None
    ]
    assert not silent


def test_every_signature_is_typed() -> None:
    untyped = [
        f"{name}:{node.lineno} {node.name}"
        for name in python_files()
        for node in functions_of(tree_of(name))
        if (node.returns is None and node.name != "__init__")
        or any(argument.annotation is None for argument in _arguments(node))
    ]
    assert not untyped, "\n".join(untyped)


def _arguments(node: ast.FunctionDef | ast.AsyncFunctionDef) -> list[ast.arg]:
    positional = [*node.args.posonlyargs, *node.args.args]
    if positional and positional[0].arg in ("self", "cls"):
        positional = positional[1:]
    return [*positional, *node.args.kwonlyargs]


@pytest.mark.parametrize("package", ["engine", "hosting", "accounts"])
def test_every_broad_except_is_known(package: str) -> None:
    files = [name for name in python_files() if name.startswith(f"{package}/")]
    found = {name: count for name in files if (count := num_broad_excepts(name))}
    known = {name: n for name, n in BROAD_EXCEPTS.items() if name.startswith(f"{package}/")}
    assert found == known


def test_no_unfinished_work_is_marked() -> None:
    marks = ("TO" + "DO", "FIX" + "ME", "XX" + "X ")
    marked = [
        f"{name}:{number}"
        for name in python_files()
        for number, line in enumerate((ROOT / name).read_text().splitlines(), start=1)
        if any(mark in line for mark in marks)
    ]
    assert not marked


def test_requirements_are_pinned_in_one_list() -> None:
    lines = (ROOT / "requirements.txt").read_text().splitlines()
    wanted = [line for line in lines if line.strip() and not line.startswith("#")]
    assert not [line for line in wanted if "==" not in line]
    assert [name for name in tracked_files() if "requirements" in Path(name).name] == [
        "requirements.txt"
    ]


def test_the_demo_model_stays_small() -> None:
    files = (ROOT / "engine" / "demo" / "model").rglob("*")
    assert sum(path.stat().st_size for path in files if path.is_file()) <= MAX_DEMO_MODEL_BYTES
