"""One program that has everything the reader must find, compiled once."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.program.sources import HEADER, SOURCE
from xdplab.program import ObjectSpec, compile_object, compiler_version, read_object


@pytest.fixture(scope="session")
def source_path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The program's source, with its header beside it."""
    directory = tmp_path_factory.mktemp("source")
    (directory / "common.h").write_text(HEADER)
    path = directory / "everything.bpf.c"
    path.write_text(SOURCE)
    return path


class ObjectBytes(bytes):
    """An object file whose repr does not fill the screen when a test fails."""

    def __repr__(self) -> str:
        return f"<object of {len(self)} bytes>"


@pytest.fixture(scope="session")
def compiled(source_path: Path) -> bytes:
    """The program's object file."""
    if compiler_version() is None:
        pytest.skip("no BPF compiler: neither ziglang nor clang is installed")
    return ObjectBytes(compile_object(source_path))


@pytest.fixture(scope="session")
def everything(compiled: bytes) -> ObjectSpec:
    """The program as read."""
    return read_object(compiled, "everything")
