"""Who may import whom, read from the source by AST: arrows never turn back."""

from __future__ import annotations

import ast
import dataclasses
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
OURS = ("engine", "hosting", "accounts", "tests")
MLX = ("mlx", "mlx_lm")
DJANGO = ("django", "rest_framework", "channels", "celery")
WEB_AND_STORES = (*DJANGO, "redis", "daphne", "psycopg")


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """`ours`: what `package` may import of ours. `never`: what it may not of anybody. `libraries`:
    all that it may besides the standard library; None: any."""

    package: str
    ours: tuple[str, ...]
    never: tuple[str, ...] = ()
    libraries: tuple[str, ...] | None = None


# The first rule that fits a module counts: the longest package names come first.
RULES = (
    Rule(package="engine.wire", ours=("engine.wire",), libraries=("msgspec",)),
    Rule(
        package="engine.sizing",
        ours=("engine.wire", "engine.sizing"),
        libraries=(),
    ),
    Rule(
        package="engine.core",
        ours=("engine.wire", "engine.core"),
        never=(*MLX, *WEB_AND_STORES, "threading", "time", "socket", "subprocess"),
    ),
    Rule(
        package="engine.cache",
        ours=("engine.core", "engine.cache", "engine.wire"),
        never=(*MLX, *WEB_AND_STORES),
    ),
    Rule(
        package="engine.model",
        ours=("engine.core", "engine.cache", "engine.wire", "engine.sizing", "engine.model"),
        never=WEB_AND_STORES,
    ),
    Rule(
        package="engine.intake",
        ours=(
            "engine.config",
            "engine.core",
            "engine.wire",
            "engine.sizing",
            "engine.transport",
            "engine.intake",
        ),
        never=(*MLX, *DJANGO),
    ),
    Rule(
        package="engine.transport",
        ours=("engine.core", "engine.wire", "engine.transport"),
        never=MLX,
    ),
    Rule(package="engine.demo", ours=("engine",), never=WEB_AND_STORES),
    Rule(package="engine", ours=("engine",), never=WEB_AND_STORES),
    Rule(package="accounts", ours=("accounts",), never=(*MLX, "redis")),
    Rule(
        package="hosting.engine_client",
        ours=("engine.wire", "hosting.engine_client"),
        never=MLX,
    ),
    Rule(
        package="hosting.mcp",
        ours=("engine.wire", "hosting.mcp"),
        libraries=(),
    ),
    Rule(
        package="hosting.models",
        ours=("accounts", "engine.wire", "hosting.models"),
        never=(*MLX, "redis", "celery", "channels"),
    ),
    Rule(
        package="hosting.actions",
        ours=(
            "accounts",
            "engine.wire",
            "engine.sizing",
            "hosting.models",
            "hosting.actions",
            "hosting.engine_client",
            "hosting.mcp",
        ),
        never=(*MLX, "redis"),
    ),
    Rule(  # it tells a wrong setting before anything starts
        package="hosting.management.commands.up",
        ours=("accounts", "engine.config", "hosting"),
        never=(*MLX, "redis"),
    ),
    Rule(
        package="hosting",
        ours=("accounts", "engine.wire", "engine.sizing", "hosting"),
        never=(*MLX, "redis"),
    ),
)
# Inside hosting: what a layer's modules never import, so that arrows point one way only.
OUTER_LAYERS = (
    *("hosting.api", "hosting.chat", "hosting.sockets", "hosting.tasks", "hosting.admin"),
    *("hosting.usage", "hosting.tools", "hosting.management", "hosting.batches"),
    "hosting.benchmarks",
)
NEVER_TO_OUTER = (
    "hosting.models",
    "hosting.actions",
    "hosting.engine_client",
    "hosting.mcp",
    "hosting.supervisor",
)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Import:
    module: str
    line: int


def source_files() -> list[Path]:
    return sorted(path for package in OURS[:3] for path in (ROOT / package).rglob("*.py"))


def module_name(path: Path) -> str:
    parts = path.relative_to(ROOT).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def imports_of(path: Path) -> Iterator[Import]:
    """Every module named by an import, wherever it stands in the file."""
    package = module_name(path).split(".")
    package = package if path.name == "__init__.py" else package[:-1]
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield Import(module=alias.name, line=node.lineno)
        elif isinstance(node, ast.ImportFrom):
            base = package[: len(package) - node.level + 1] if node.level else []
            module = ".".join([*base, *filter(None, [node.module])])
            yield from (
                Import(module=name, line=node.lineno) for name in _names(module, node.names)
            )


def _names(module: str, aliases: list[ast.alias]) -> list[str]:
    """`from engine import wire` names the module engine.wire, not engine."""
    found = [f"{module}.{alias.name}" for alias in aliases if _is_module(f"{module}.{alias.name}")]
    return found if len(found) == len(aliases) else [module, *found]


def _is_module(name: str) -> bool:
    path = ROOT / name.replace(".", "/")
    return path.with_suffix(".py").is_file() or path.is_dir()


def is_inside(module: str, packages: tuple[str, ...]) -> bool:
    return any(module == one or module.startswith(f"{one}.") for one in packages)


def rule_for(module: str) -> Rule:
    return next(rule for rule in RULES if is_inside(module, (rule.package,)))


def faults_of(path: Path) -> Iterator[str]:
    module = module_name(path)
    rule = rule_for(module)
    for found in imports_of(path):
        where = f"{path.relative_to(ROOT)}:{found.line} imports {found.module}"
        if is_inside(found.module, OURS):
            if not is_inside(found.module, rule.ours):
                yield f"{where}; {rule.package} may import only {', '.join(rule.ours)}"
        elif is_inside(found.module, rule.never):
            yield f"{where}; {rule.package} never does"
        elif rule.libraries is not None and not _is_library(found.module, rule.libraries):
            yield f"{where}; {rule.package} may not"


def _is_library(module: str, libraries: tuple[str, ...]) -> bool:
    name = module.split(".")[0]
    return name in sys.stdlib_module_names or name in libraries


@pytest.mark.parametrize("package", [rule.package for rule in RULES])
def test_imports_follow_the_table(package: str) -> None:
    faults = [
        fault
        for path in source_files()
        if rule_for(module_name(path)).package == package
        for fault in faults_of(path)
    ]
    assert not faults, "\n".join(faults)


def test_inner_layers_of_hosting_never_import_outer_ones() -> None:
    faults = [
        f"{path.relative_to(ROOT)}:{found.line} imports {found.module}"
        for path in source_files()
        if is_inside(module_name(path), NEVER_TO_OUTER)
        for found in imports_of(path)
        if is_inside(found.module, OUTER_LAYERS)
    ]
    assert not faults, "\n".join(faults)


def test_the_product_never_imports_its_tests() -> None:
    faults = [
        f"{path.relative_to(ROOT)}:{found.line}"
        for path in source_files()
        for found in imports_of(path)
        if is_inside(found.module, ("tests",))
    ]
    assert not faults, "\n".join(faults)


def test_a_forbidden_import_is_seen(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The test of the test: each kind of import statement, also inside a function."""
    monkeypatch.setattr(sys.modules[__name__], "ROOT", tmp_path)
    (tmp_path / "engine" / "core").mkdir(parents=True)
    (tmp_path / "engine" / "model").mkdir()
    module = tmp_path / "engine" / "core" / "scheduler.py"
    module.write_text(
        "import mlx.core\n"
        "from engine import model\n"
        "def late():\n    from ..model import runner\n"
        "import dataclasses\n"
    )
    lines = [fault.split(" imports ")[0] for fault in faults_of(module)]
    assert lines == [f"engine/core/scheduler.py:{number}" for number in (1, 2, 4)]
