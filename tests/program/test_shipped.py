"""The package's own objects: measured as the build wrote them, or not at all."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from importlib import resources
from pathlib import Path

import pytest

from xdplab.errors import XdplabError
from xdplab.program.shipped import shipped_object


@pytest.fixture
def objects(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A copy of the package's objects that a test may damage."""
    folder = tmp_path / "bpf" / "objects"
    with resources.as_file(resources.files("xdplab") / "bpf" / "objects") as real:
        shutil.copytree(real, folder)
    monkeypatch.setattr("xdplab.program.shipped.resources.files", lambda _name: tmp_path)
    shipped_object.cache_clear()
    yield folder
    shipped_object.cache_clear()


def test_what_the_build_wrote_is_read(objects: Path) -> None:
    assert "once_helper" in shipped_object("adjust_head").programs


@pytest.mark.parametrize(
    "damage", ["flipped", "truncated", "empty", "missing", "another", "unlisted"]
)
def test_anything_else_is_refused_with_the_remedy(objects: Path, damage: str) -> None:
    path = objects / "adjust_head.bpf.o"
    data = bytearray(path.read_bytes())
    if damage == "flipped":
        data[len(data) // 2] ^= 1
        path.write_bytes(data)
    elif damage == "truncated":
        path.write_bytes(data[:1000])
    elif damage == "empty":
        path.write_bytes(b"")
    elif damage == "missing":
        path.unlink()
    elif damage == "another":
        path.write_bytes((objects / "calibrate.bpf.o").read_bytes())
    else:
        (objects / "BUILD.json").write_text("{}")
    with pytest.raises(XdplabError, match="install xdplab again") as caught:
        shipped_object("adjust_head")
    # The user asked for nothing wrong.
    assert caught.value.exit_code == 3
