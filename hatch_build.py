"""Build hook: compiles the laboratory's own C when the package is built.

In wheels and in editable installs
- every src/xdplab/bpf/NAME.bpf.c becomes src/xdplab/bpf/objects/NAME.bpf.o;
- src/xdplab/user/runtime/runtime.c becomes runtime/objects/runtime.ARCHITECTURE.ll, the user-space
  engine's runtime as LLVM IR, for each architecture below;
- every src/xdplab/native/NAME.c becomes native/objects/NAME.ARCHITECTURE.ll in the same way;
- src/xdplab/guests/runner/runner.c becomes runner/objects/runner.x86_64, the static program that a
  guest kernel runs.

The objects are the same wherever they are built, so the wheel is pure. BUILD.json beside them
says what they were made from.
"""

from __future__ import annotations

import hashlib
import importlib.util
import json
import os
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

ARCHITECTURES = ("aarch64", "x86_64")


class ObjectsHook(BuildHookInterface[Any]):
    """Called by hatchling once per built target."""

    PLUGIN_NAME = "custom"

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Write the objects and have the wheel take them although git ignores them."""
        root = Path(self.root)
        try:
            compiler = _load_compiler(root)
            _build_bpf_objects(compiler, root / "src" / "xdplab" / "bpf")
            _build_runtime(compiler, root / "src" / "xdplab" / "user" / "runtime")
            _build_native(compiler, root / "src" / "xdplab" / "native")
            _build_runner(compiler, root / "src" / "xdplab" / "guests" / "runner")
        except Exception as error:
            # A front end shows a traceback for anything but SystemExit, and the
            # compiler's own words would drown in it.
            if type(error).__module__ != "xdplab.errors":
                raise
            raise SystemExit(f"xdplab: {error}") from None
        build_data["artifacts"] += [
            "/src/xdplab/bpf/objects/*",
            "/src/xdplab/user/runtime/objects/*",
            "/src/xdplab/native/objects/*",
            "/src/xdplab/guests/runner/objects/*",
        ]


def _build_bpf_objects(compiler: ModuleType, bpf: Path) -> None:
    built = {
        f"{source.stem}.o": compiler.compile_object(source)
        for source in sorted(bpf.glob("*.bpf.c"))
    }
    _write(compiler, [*bpf.glob("*.bpf.c"), *bpf.glob("*.h")], bpf / "objects", built)


def _build_runtime(compiler: ModuleType, runtime: Path) -> None:
    built = {
        f"runtime.{architecture}.ll": compiler.compile_native(
            runtime / "runtime.c", architecture
        ).encode()
        for architecture in ARCHITECTURES
    }
    _write(compiler, [*runtime.glob("*.c"), *runtime.glob("*.h")], runtime / "objects", built)


def _build_native(compiler: ModuleType, native: Path) -> None:
    # A loop that clears memory is measured: it must not become what it is compared with.
    built = {
        f"{source.stem}.{architecture}.ll": compiler.compile_native(
            source, architecture, builtins=False
        ).encode()
        for source in sorted(native.glob("*.c"))
        for architecture in ARCHITECTURES
    }
    _write(compiler, [*native.glob("*.c"), *native.glob("*.h")], native / "objects", built)


def _build_runner(compiler: ModuleType, runner: Path) -> None:
    # Guests are x86-64 alone: their kernels are counted by a machine that QEMU emulates.
    built = {"runner.x86_64": compiler.compile_static(runner / "runner.c", "x86_64")}
    _write(compiler, [runner / "runner.c"], runner / "objects", built)


def _write(
    compiler: ModuleType, inputs: list[Path], objects: Path, built: dict[str, bytes]
) -> None:
    objects.mkdir(parents=True, exist_ok=True)
    record = {
        "schema": 1,
        "compiler": compiler.compiler_version(),
        "sources": {path.name: _sha256(path.read_bytes()) for path in sorted(inputs)},
        "objects": {name: _sha256(data) for name, data in built.items()},
    }
    for stale in [*objects.glob("*.bpf.o"), *objects.glob("*.ll")]:
        if stale.name not in built:
            stale.unlink()
    for name, data in built.items():
        _replace(objects / name, data)
    _replace(objects / "BUILD.json", (json.dumps(record, indent=2) + "\n").encode())


def _load_compiler(root: Path) -> ModuleType:
    # By path: xdplab.program's __init__ needs dependencies that a build does not have.
    sys.path.insert(0, str(root / "src"))
    path = root / "src" / "xdplab" / "program" / "compile.py"
    spec = importlib.util.spec_from_file_location("xdplab_build_compile", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    # dataclasses look their module up by name.
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


def _replace(path: Path, data: bytes) -> None:
    # Two builds at once must never leave half a file.
    scratch = path.with_name(f".{path.name}.{os.getpid()}")
    scratch.write_bytes(data)
    scratch.replace(path)


def _sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()
