"""Compiled programs on disk: kept, found again, and no trouble where that cannot be."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from tests.user.programs import EXIT, linked, mov, object_of
from xdplab.packets.frame import Frame
from xdplab.user import jit
from xdplab.user.cache import MAXIMUM_ENTRIES, ObjectCache
from xdplab.user.machine import UserObject
from xdplab.user.options import Mode, Options

FRAME = Frame(bytes(64))


def retval(cache: ObjectCache | None, number: int, options: Options | None = None) -> int:
    with UserObject(object_of(), options, cache=cache) as owner:
        return owner.add(linked([mov(0, number), EXIT])).run(FRAME).retval


@pytest.fixture
def compiled(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Keys of what was compiled and not taken from the cache."""
    keys: list[str] = []
    write = ObjectCache.write

    def noting(self: ObjectCache, key: str, data: bytes) -> None:
        keys.append(key)
        write(self, key, data)

    monkeypatch.setattr(ObjectCache, "write", noting)
    return keys


def test_a_program_is_compiled_once(tmp_path: Path, compiled: list[str]) -> None:
    for _ in range(3):
        assert retval(ObjectCache(tmp_path), 2) == 2
    assert len(compiled) == 1
    assert retval(ObjectCache(tmp_path), 3) == 3
    assert retval(ObjectCache(tmp_path), 3, Options(Mode.CHECKED)) == 3
    assert len(set(compiled)) == len(compiled) == 3


@pytest.mark.parametrize("damage", [b"", b"short", b"\0" * 5000])
def test_a_damaged_entry_is_replaced(tmp_path: Path, compiled: list[str], damage: bytes) -> None:
    assert retval(ObjectCache(tmp_path), 2) == 2
    (entry,) = tmp_path.iterdir()
    whole = entry.read_bytes()
    for data in (damage, whole[:-1], whole + b"x", bytes([whole[0] ^ 1]) + whole[1:]):
        entry.write_bytes(data)
        assert retval(ObjectCache(tmp_path), 2) == 2
        assert entry.read_bytes() == whole
    assert len(compiled) == 5


def test_a_folder_that_cannot_be_is_no_error(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_text("no folder")
    assert retval(ObjectCache(file / "inside"), 2) == 2


def test_old_entries_go(tmp_path: Path) -> None:
    cache = ObjectCache(tmp_path)
    for number in range(MAXIMUM_ENTRIES):
        (tmp_path / f"{number}.o").write_bytes(b"old")
    cache.write("new", b"data")
    assert cache.read("new") == b"data"
    assert len(list(tmp_path.iterdir())) == MAXIMUM_ENTRIES // 2 + 1


def test_writers_at_once_leave_a_whole_entry(tmp_path: Path) -> None:
    cache = ObjectCache(tmp_path)
    data = [bytes([number]) * 100_000 for number in range(8)]
    threads = [threading.Thread(target=cache.write, args=("key", one)) for one in data]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert cache.read("key") in data
    assert [path.name for path in tmp_path.iterdir()] == ["key.o"]


def test_code_is_loaded_anew_elsewhere() -> None:
    with UserObject(object_of()) as owner:
        program = owner.add(linked([mov(0, 2), EXIT]))
        first = program.address
        keeper = jit.LoadedCode(program._data, program._symbols)
        program.place_anew()
        assert len({first, keeper.address, program.address}) == 3
        assert program.run(FRAME).retval == 2


def test_a_home_that_is_not_there_is_not_made(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    monkeypatch.setenv("HOME", str(tmp_path / "nonexistent"))
    assert retval(ObjectCache(), 3) == 3
    assert not list(tmp_path.iterdir())
    # One that is there gets its cache folder, which may be its first.
    (tmp_path / "nonexistent").mkdir()
    assert retval(ObjectCache(), 3) == 3
    assert len(list(ObjectCache().folder.glob("*.o"))) == 1


def test_a_relative_cache_folder_is_ignored(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "home").mkdir()
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setenv("XDG_CACHE_HOME", "cache")
    assert retval(ObjectCache(), 3) == 3
    assert not list((tmp_path / "here").iterdir())
    assert tmp_path / "home" in ObjectCache().folder.parents
