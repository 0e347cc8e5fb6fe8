"""The wheel: pure, with objects inside, and usable where there is no compiler."""

from __future__ import annotations

import hashlib
import importlib.util
import json
import os
import subprocess
import sys
import venv
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
BPF = "xdplab/bpf"

pytestmark = pytest.mark.skipif(
    importlib.util.find_spec("ziglang") is None or importlib.util.find_spec("hatchling") is None,
    reason="building needs ziglang and hatchling, which the extra `dev` brings",
)


def run(argv: list[str], **environment: str) -> subprocess.CompletedProcess[str]:
    """Runs `argv`; these variables replace those of the same name."""
    return subprocess.run(
        argv,
        env=os.environ | environment,
        cwd=os.sep,
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )


def build(target: str, source: Path, directory: Path) -> Path:
    """The distribution that hatchling builds from `source`."""
    argv = [sys.executable, "-m", "hatchling", "build", "-t", target, "-d", str(directory)]
    result = subprocess.run(argv, cwd=source, capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stderr
    (path,) = directory.iterdir()
    return path


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A wheel of this tree."""
    return build("wheel", ROOT, tmp_path_factory.mktemp("wheel"))


@pytest.fixture(scope="module")
def second_wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A wheel of an unpacked source distribution, elsewhere."""
    archive = build("sdist", ROOT, tmp_path_factory.mktemp("sdist"))
    place = tmp_path_factory.mktemp("unpacked")
    assert run(["tar", "-xzf", str(archive), "-C", str(place)]).returncode == 0
    (source,) = place.iterdir()
    assert not (source / "src" / BPF / "objects").exists()
    return build("wheel", source, tmp_path_factory.mktemp("second"))


def objects(path: Path) -> dict[str, bytes]:
    """The compiled objects in a wheel, by name."""
    with zipfile.ZipFile(path) as archive:
        return {
            name.rsplit("/", 1)[1]: archive.read(name)
            for name in archive.namelist()
            if name.startswith(f"{BPF}/objects/") and name.endswith(".bpf.o")
        }


def test_wheel_is_pure_and_has_every_program(wheel: Path) -> None:
    assert wheel.name.endswith("-py3-none-any.whl")
    sources = sorted((ROOT / "src" / BPF).glob("*.bpf.c"))
    assert sources
    assert sorted(objects(wheel)) == [f"{path.stem}.o" for path in sources]
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
        assert {f"{BPF}/{path.name}" for path in sources} <= set(names)
        # The headers are there for users' own programs (docs/traits.md).
        assert {f"{BPF}/traits.bpf.h", f"{BPF}/xdplab.bpf.h"} <= set(names)
        record = json.loads(archive.read(f"{BPF}/objects/BUILD.json"))
    assert "clang" in record["compiler"]
    assert record["objects"] == {
        name: hashlib.sha256(data).hexdigest() for name, data in objects(wheel).items()
    }
    for path in sources:
        assert record["sources"][path.name] == hashlib.sha256(path.read_bytes()).hexdigest()


def test_the_wheel_has_every_native_function_for_both_architectures(wheel: Path) -> None:
    sources = sorted(path.stem for path in (ROOT / "src/xdplab/native").glob("*.c"))
    assert sources
    with zipfile.ZipFile(wheel) as archive:
        names = set(archive.namelist())
        for name in sources:
            for architecture in ("x86_64", "aarch64"):
                path = f"xdplab/native/objects/{name}.{architecture}.ll"
                assert b"@native_time(" in archive.read(path)
    assert {"xdplab/native/native.h", "xdplab/native/thunks.x86_64.s"} <= names


def guest_runner(path: Path) -> bytes:
    """The static program that guests boot, out of a wheel."""
    with zipfile.ZipFile(path) as archive:
        return archive.read("xdplab/guests/runner/objects/runner.x86_64")


def test_objects_are_the_same_from_a_source_distribution(wheel: Path, second_wheel: Path) -> None:
    assert objects(wheel) == objects(second_wheel)
    assert guest_runner(wheel) == guest_runner(second_wheel)
    assert guest_runner(wheel).startswith(b"\x7fELF")
    with zipfile.ZipFile(wheel) as archive:
        assert b"CONFIG_BPF_SYSCALL=y" in archive.read("xdplab/guests/guest.config")


def test_wheel_works_without_a_compiler(wheel: Path, tmp_path: Path) -> None:
    place = tmp_path / "venv"
    venv.create(place, with_pip=True, symlinks=True)
    python = str(place / "bin" / "python")
    reach = run([python, "-m", "pip", "download", "-q", "--no-deps", "-d", str(tmp_path), "click"])
    if reach.returncode != 0:
        pytest.skip(f"the package index cannot be reached: {reach.stderr.strip()[-200:]}")
    installed = run([python, "-m", "pip", "install", "-q", "--no-compile", str(wheel)])
    assert installed.returncode == 0, installed.stderr
    nowhere = {"PATH": str(place / "bin"), "HOME": str(tmp_path), "PYTHONPATH": ""}
    xdplab = str(place / "bin" / "xdplab")
    version = run([xdplab, "--version"], **nowhere)
    assert version.returncode == 0, version.stderr
    assert wheel.name.split("-")[1] in version.stdout
    doctor = run([xdplab, "doctor"], **nowhere)
    assert doctor.returncode == 0, doctor.stderr
    code = (
        "from pathlib import Path; import xdplab; from xdplab.program import read_object; "
        "found = sorted(Path(xdplab.__file__).parent.glob('bpf/objects/*.bpf.o')); "
        "print(len([read_object(path) for path in found]))"
    )
    where = run([python, "-c", "import xdplab.traits as t; print(t.include_folder())"], **nowhere)
    assert (Path(where.stdout.strip()) / "traits.bpf.h").is_file(), where.stderr
    read = run([python, "-c", code], **nowhere)
    assert read.stdout.strip() == str(len(objects(wheel))), read.stderr
