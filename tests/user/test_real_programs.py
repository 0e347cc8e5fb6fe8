"""The comparison of anybody's objects on both engines, on objects of our own."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from benchmarks.traffic import Traffic

from tests.user.test_objects import made_object
from xdplab.program import MapSpec
from xdplab.user.maps import UserMap

ROOT = Path(__file__).resolve().parents[2]


def compare(path: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    script = ROOT / "benchmarks" / "real_programs.py"
    return subprocess.run(
        [sys.executable, script, path, "--packets", "200", *arguments],
        cwd=path.parent,
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )


@pytest.mark.needs_kernel
def test_programs_of_an_object_are_compared_one_a_line(tmp_path: Path) -> None:
    path = tmp_path / "made.bpf.o"
    path.write_bytes(made_object().raw)
    setup = tmp_path / "setup.json"
    setup.write_text(json.dumps({"maps": {}}))
    result = compare(path, "--quick", "--setup", str(setup))
    assert result.returncode == 0, result.stdout + result.stderr
    lines = result.stdout.splitlines()
    assert {line.split(":")[0] for line in lines} == {f"made {n}" for n in made_object().programs}
    assert all("200 equal, 0 different" in line for line in lines)
    assert not any("DIFFERENT" in line for line in lines)


@pytest.mark.needs_kernel
def test_an_object_that_cannot_be_read_is_told_and_counts(tmp_path: Path) -> None:
    path = tmp_path / "nothing.o"
    path.write_bytes(b"nothing")
    result = compare(path)
    assert result.returncode == 1
    assert result.stdout.startswith("nothing.o: not read:")


def test_traffic_is_the_same_for_a_seed_and_of_every_kind() -> None:
    first, again, other = Traffic(7), Traffic(7), Traffic(8)
    frames = [first.frame() for _ in range(2000)]
    assert frames == [again.frame() for _ in range(2000)]
    assert frames != [other.frame() for _ in range(2000)]
    assert {14, 60} <= {len(frame.data) for frame in frames}
    assert max(len(frame.data) for frame in frames) <= 1500
    kinds = {frame.data[12:14] for frame in frames}
    assert {b"\x08\0", b"\x86\xdd", b"\x81\0", b"\x88\xa8", b"\x08\x06"} <= kinds
    protocols = {frame.data[23:24] for frame in frames if frame.data[12:15] == b"\x08\0\x45"}
    assert {bytes((n,)) for n in (1, 4, 6, 17, 41, 47)} <= protocols
    assert {len(frame.metadata) for frame in frames} == {0, 4, 8, 16, 32}
    large = [len(other.frame(9000).data) for _ in range(200)]
    assert 1500 < max(large) <= 9000


@pytest.mark.parametrize("kind", [1, 2, 5, 6, 9, 10, 11, 14, 16, 25])
def test_entries_fit_their_maps(kind: int) -> None:
    flags = 1 if kind == 11 else 0
    key_size = 8 if kind == 11 else 4
    value_size = 4 if kind in (14, 16, 25) else 20
    spec = MapSpec("map", kind, "", key_size, value_size, 2 if kind == 16 else 100, flags)
    with UserMap(spec) as one:
        entries = Traffic(3).entries(spec)
        assert entries
        for key, value in entries:
            one.update(key, value)
