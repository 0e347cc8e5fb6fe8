"""Data flows one way: which part of xdplab may import which.

A part imports itself, parts of its own row, and parts of earlier rows; no two parts import
one another. The table is read top to bottom as a packet travels: from the program to
the page that shows its cost.
"""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

PACKAGE = Path(__file__).resolve().parents[2] / "src" / "xdplab"

ROWS = (
    {"errors", "records", "documents"},
    {"program", "packets", "stats", "traits"},
    {"kernel", "user", "native", "net"},
    {"engines", "live"},
    {"guests"},
    {"suites"},
    {"comparison", "environments", "matching", "judged", "noticed", "counting", "before_after"},
    {"experiment", "run"},
    {"store"},
    {"lab"},
    {"views"},
    {"pytest_baselines"},
    {"cli", "pytest_plugin", "__main__"},
)

# Parts that know less than their row allows: what they may import of xdplab.
STRICTER = {
    "errors": set[str](),
    "records": {"errors"},
    "documents": {"errors", "records"},
    # The vocabulary of results, and nobody who reads a clock or a file.
    "stats": {"errors", "records"},
    # Who receives packets wants to read them, and nothing of a laboratory.
    "traits": {"errors"},
    "suites": {"errors", "records", "program", "packets", "stats", "traits", "engines"},
}

# The package's own __init__ (the version) is open to all and imports nobody.
OPEN = "__init__"


def allowed(part: str) -> set[str]:
    """What `part` may import, itself included."""
    row = next(number for number, parts in enumerate(ROWS) if part in parts)
    known = set[str]().union(*ROWS[: row + 1])
    return STRICTER.get(part, known) | {part, OPEN}


def part_of(module: Path) -> str:
    """`kernel` for src/xdplab/kernel/libbpf.py, `errors` for src/xdplab/errors.py."""
    return module.relative_to(PACKAGE).parts[0].removesuffix(".py")


def imported_parts(module: Path) -> Iterator[tuple[int, str]]:
    """Line and part for every import of xdplab, at any depth of the file."""
    for node in ast.walk(ast.parse(module.read_text(), str(module))):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{module}:{node.lineno}: imports are absolute here"
            names = [f"{node.module}.{alias.name}" for alias in node.names]
        else:
            continue
        for name in names:
            head, _, rest = name.partition(".")
            if head == "xdplab":
                part = rest.split(".")[0]
                yield node.lineno, part if is_part(part) else OPEN


def is_part(name: str) -> bool:
    """Whether xdplab has a module or a package of that name."""
    return (PACKAGE / name).is_dir() or (PACKAGE / f"{name}.py").is_file()


def modules() -> list[Path]:
    """Every module of the package but its own __init__."""
    return [path for path in sorted(PACKAGE.rglob("*.py")) if path != PACKAGE / "__init__.py"]


@pytest.mark.parametrize("module", modules(), ids=lambda path: str(path.relative_to(PACKAGE)))
def test_imports_go_one_way(module: Path) -> None:
    part = part_of(module)
    assert any(part in parts for parts in ROWS), f"{part} is in no row of the table"
    wrong = [
        f"{module.relative_to(PACKAGE)}:{line}: {part} must not import {target}"
        for line, target in imported_parts(module)
        if target not in allowed(part)
    ]
    assert not wrong, "\n".join(wrong)


def test_no_two_parts_import_one_another() -> None:
    edges = {
        (part_of(module), target) for module in modules() for _, target in imported_parts(module)
    }
    mutual = {(one, other) for one, other in edges if one < other and (other, one) in edges}
    assert not mutual


def run_python(code: str) -> str:
    """Standard output of `code` in an interpreter of its own."""
    result = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=False, timeout=60
    )
    assert result.returncode == 0, result.stderr
    return result.stdout.strip()


@pytest.mark.parametrize("platform", ["linux", "darwin"])
def test_importing_the_package_needs_no_linux(platform: str) -> None:
    code = (
        f"import sys; sys.platform = {platform!r}; import xdplab, xdplab.program; "
        "print([m for m in sys.modules if m.startswith(('xdplab.kernel', 'xdplab.net'))])"
    )
    assert run_python(code) == "[]"


def test_compiling_needs_the_standard_library_only() -> None:
    """The build hook loads the compiler before any dependency is there."""
    code = (
        "import sys; sys.path_importer_cache.clear(); before = set(sys.modules); "
        "import importlib.util; "
        f"path = {str(PACKAGE / 'program' / 'compile.py')!r}; "
        "spec = importlib.util.spec_from_file_location('alone', path); "
        "module = importlib.util.module_from_spec(spec); sys.modules['alone'] = module; "
        "spec.loader.exec_module(module); "
        "new = {m.split('.')[0] for m in set(sys.modules) - before}; "
        "print(sorted(m for m in new - {'alone'} if m not in sys.stdlib_module_names))"
    )
    assert run_python(code) == "['xdplab']"
