"""The store: what is put in comes out, is found by every name, and damage is told."""

from __future__ import annotations

import os
import shutil
import sqlite3
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings

from tests.records.strategies import DOCUMENTS
from tests.store.made import document, result
from xdplab.errors import StoreError, UsageError
from xdplab.records import Document
from xdplab.store import schema
from xdplab.store.store import Store, check_tag


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "a directory" / "results.sqlite"


@pytest.fixture
def store(path: Path) -> Iterator[Store]:
    with Store(path, write=True) as opened:
        yield opened


def names(count: int) -> list[str]:
    return [f"20260101T00000{number}-{number}bcdef" for number in range(count)]


# --- in and out


@settings(max_examples=60, suppress_health_check=[HealthCheck.too_slow])
@given(DOCUMENTS)
def test_a_document_comes_back_as_it_was(document: Document) -> None:
    with tempfile.TemporaryDirectory() as directory:
        path = Path(directory) / "s.sqlite"
        with Store(path, write=True) as store:
            assert store.add(document)
            assert not store.add(document)
        with Store(path) as store:
            assert store.document(document.run.id) == document
            assert store.document(document.run.id).to_json() == document.to_json()


def test_two_runs_of_one_id_are_told_apart(store: Store) -> None:
    store.add(document())
    other = replace(document(), environment={})
    with pytest.raises(UsageError, match="another run in .* has the id"):
        store.add(other)
    assert store.document(other.run.id) == document()


def test_what_a_run_is_called_does_not_make_it_another(store: Store) -> None:
    store.add(document(tags=["before"]))
    assert not store.add(document(tags=["after"], note="else"))
    assert store.document(document().run.id).run.tags == ("before",)


def test_a_text_that_is_no_unicode_is_kept(store: Store) -> None:
    odd = document(run_id="\udc80", results=[result("\ud800", where="\udfff")])
    store.add(odd)
    assert store.document("\udc80") == odd


# --- looked up


def test_runs_are_found_by_all_their_names(store: Store) -> None:
    for number, run_id in enumerate(names(3)):
        store.add(document(run_id, tags=["odd" if number % 2 else "even"]))
    first, second, third = names(3)
    assert store.resolve(first) == [first]
    assert store.resolve("even") == [first, third]
    assert store.resolve("odd") == [second]
    assert store.resolve("last") == store.resolve("last~0") == [third]
    assert store.resolve("last~2") == [first]
    assert store.resolve("last~3") == []
    assert store.resolve("20260101T000001") == [second]
    assert store.resolve("2bcd") == [third]
    # Shorter than four characters could be anything.
    assert store.resolve("2bc") == store.resolve("") == store.resolve("before") == []
    with pytest.raises(UsageError, match="'20260101' is the beginning of 3 runs"):
        store.resolve("20260101")


def test_an_id_comes_before_a_tag_and_a_tag_before_a_beginning(store: Store) -> None:
    first, second = names(2)
    store.add(document(first))
    store.add(document(second, tags=[first, "0bcde"]))
    assert store.resolve(first) == [first]
    assert store.resolve("0bcde") == [second]


@pytest.mark.parametrize("word", ["%bcd", "_bcd", "*bcd", "[0-9]bcd", "'; DROP"])
def test_there_are_no_wildcards(store: Store, word: str) -> None:
    store.add(document(names(1)[0]))
    assert store.resolve(word) == []


def test_the_list_has_the_newest_last(store: Store) -> None:
    for number, run_id in enumerate(names(3)):
        of_run = [result("a"), replace(result("b"), estimate=None, trials=())]
        store.add(document(run_id, of_run, tags=["odd"] if number % 2 else [], note=f"n{number}"))
    assert [summary.run.id for summary in store.runs()] == names(3)
    assert [summary.run.id for summary in store.runs(limit=2)] == names(3)[1:]
    (summary,) = store.runs(tag="odd")
    assert summary.run == replace(document(names(3)[1], tags=["odd"], note="n1").run)
    assert (summary.suites, summary.engines, summary.figures) == (("made",), ("scripted",), 1)
    assert summary.environment == document().environment
    assert (store.count(), store.count(tag="odd"), store.count(tag="none")) == (3, 1, 0)


# --- called and removed


def test_tags_and_notes_change_later(store: Store) -> None:
    run_id = document().run.id
    store.add(document(tags=["x"], note="old"))
    assert store.rename(run_id, add=["y", "x", "z"]).tags == ("x", "y", "z")
    assert store.rename(run_id, remove=["x"], note="new").note == "new"
    assert store.document(run_id).run == replace(document().run, tags=("y", "z"), note="new")
    assert store.resolve("x") == []
    with pytest.raises(UsageError, match="no run 'nobody'"):
        store.rename("nobody", add=["x"])


@pytest.mark.parametrize("tag", ["before", "a/b", "v6.18-rc1+", "größer", "1", "last-one"])
def test_a_tag(tag: str) -> None:
    assert check_tag(tag) == tag


@pytest.mark.parametrize("tag", ["", "-x", "a b", "last", "last~2", "a\n", "x" * 101, "~", "a,b"])
def test_no_tag(tag: str) -> None:
    with pytest.raises(UsageError, match="is no tag"):
        check_tag(tag)


def test_a_removed_run_is_gone_with_its_samples_and_its_room(store: Store, path: Path) -> None:
    first, second = names(2)
    store.add(document(first, [result(str(number)) for number in range(2000)], tags=["t"]))
    store.add(document(second))
    store.connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
    before = path.stat().st_size
    with pytest.raises(UsageError, match="no run 'nobody'"):
        store.remove([first, "nobody"])
    assert store.count() == 2
    store.remove([first])
    for table, left in {"run": 1, "result": 1, "trial": 0, "tag": 0}.items():
        assert store.connection.execute(f"SELECT count(*) FROM {table}").fetchone() == (left,)
    store.connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
    assert path.stat().st_size < before / 2


# --- the file


def test_the_path_is_the_users_own_unless_another_is_named(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    import platformdirs

    monkeypatch.setattr(platformdirs, "user_data_path", lambda *_, **__: tmp_path)
    monkeypatch.setenv("XDPLAB_STORE", "/else/where")
    assert schema.default_path() == Path("/else/where")
    # As a shell has it that set the variable to nothing.
    monkeypatch.setenv("XDPLAB_STORE", "")
    assert schema.default_path() == tmp_path / "results.sqlite"


def test_without_a_home_there_is_no_place_of_its_own(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.delenv("XDPLAB_STORE")
    for variable in ("HOME", "XDG_DATA_HOME"):
        monkeypatch.delenv(variable, raising=False)
    # As for a user that no file knows, which a container's often is.
    monkeypatch.setattr(os.path, "expanduser", lambda path: path)
    monkeypatch.chdir(tmp_path)
    with pytest.raises(StoreError, match="has no place: you have no home directory"):
        schema.default_path()
    assert list(tmp_path.iterdir()) == []


def test_a_store_to_read_must_be_there(path: Path) -> None:
    with pytest.raises(StoreError, match="there is no store .* yet: xdplab run makes it"):
        Store(path)
    assert not path.parent.exists()
    path.parent.mkdir()
    path.touch()
    with pytest.raises(StoreError, match="is empty: xdplab run fills it"):
        Store(path)
    assert path.stat().st_size == 0
    # To be written to it is as good as none.
    with Store(path, write=True) as store:
        assert store.add(document())


DAMAGE = {
    "text": b"this is no database, whatever its name says. " * 100,
    "no header": bytes(8192),
    "cut short": None,
    "garbage in the middle": None,
}


@pytest.mark.parametrize("damage", DAMAGE)
@pytest.mark.parametrize("write", [False, True])
def test_a_damaged_file_is_told_and_left_alone(path: Path, damage: str, write: bool) -> None:
    with Store(path, write=True) as store:
        for run_id in names(9):
            store.add(document(run_id, [result(str(number)) for number in range(40)]))
    whole = path.read_bytes()
    if damage == "cut short":
        path.write_bytes(whole[: len(whole) // 3])
    elif damage == "garbage in the middle":
        path.write_bytes(whole[:4096] + os.urandom(len(whole) - 8192) + whole[-4096:])
    else:
        path.write_bytes(DAMAGE[damage] or b"")
    damaged = path.read_bytes()

    def read() -> None:
        with Store(path, write=write) as store:
            store.runs()
            store.document(names(9)[4])

    with pytest.raises(StoreError) as caught:
        read()
    assert "is damaged or no store" in str(caught.value)
    assert "Move it away" in str(caught.value)
    assert path.read_bytes() == damaged


def test_a_damaged_row_is_told_and_the_others_are_read(path: Path) -> None:
    with Store(path, write=True) as store:
        for run_id in names(2):
            store.add(document(run_id))
        store.connection.execute("UPDATE result SET samples = x'00ff' WHERE run = 1")
        with pytest.raises(StoreError, match="is damaged"):
            store.document(names(2)[0])
        assert store.document(names(2)[1]) == document(names(2)[1])


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE run SET info = '{' WHERE number = 1",
        "UPDATE run SET info = '[]' WHERE number = 1",
        "UPDATE run SET info = 'null' WHERE number = 1",
    ],
)
def test_a_damaged_run_is_told_by_whatever_asks_for_it_and_can_be_removed(
    path: Path, statement: str
) -> None:
    first, second = names(2)
    with Store(path, write=True) as store:
        for run_id in (first, second):
            store.add(document(run_id))
        store.connection.execute(statement)
        for ask in (
            store.runs,
            lambda: store.document(first),
            lambda: store.rename(first, add=["slow"]),
        ):
            with pytest.raises(StoreError, match="xdplab rm removes"):
                ask()
        store.remove([first])
        assert [one.run.id for one in store.runs()] == [second]


@pytest.mark.parametrize("body", ["[]", "3", "null", "{"])
def test_a_damaged_figure_is_told(path: Path, body: str) -> None:
    with Store(path, write=True) as store:
        store.add(document(names(1)[0]))
        store.connection.execute("UPDATE result SET body = ?", (body,))
        with pytest.raises(StoreError, match="is damaged"):
            store.document(names(1)[0])


@pytest.mark.skipif(os.geteuid() != 0, reason="mounting a small file system needs root")
def test_on_a_full_disk_runs_are_read_and_who_writes_is_told(path: Path) -> None:
    with Store(path, write=True) as store:
        store.add(document(names(1)[0]))
    # A mount namespace of its own, which ends with the process.
    script = """
set -e
mount -t tmpfs -o size=300k none "$2"
cp "$1" "$2/store"
dd if=/dev/zero of="$2/rest" bs=1k 2>/dev/null || true
exec "$3" -c '
import sys
from pathlib import Path
from xdplab.errors import StoreError
from xdplab.store.store import Store
path = Path(sys.argv[1])
with Store(path) as store:
    print(len(store.runs()))
try:
    with Store(path, write=True) as store:
        store.rename(store.resolve("last")[0], add=["x"])
except StoreError as error:
    print(error)
' "$2/store"
"""
    place = path.parent / "small"
    place.mkdir()
    called = subprocess.run(
        ["unshare", "-m", "sh", "-c", script, "sh", str(path), str(place), sys.executable],
        capture_output=True,
        text=True,
        check=False,
    )
    if "mount:" in called.stderr or "unshare:" in called.stderr:
        pytest.skip(f"no file system can be mounted here: {called.stderr.strip()}")
    count, told = called.stdout.splitlines()
    assert count == "1", called.stderr
    assert "the disk is full. Make room there" in told


def test_somebody_elses_database_is_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "theirs.sqlite"
    with sqlite3.connect(path) as theirs:
        theirs.execute("CREATE TABLE bookmarks (url TEXT)")
    theirs.close()
    before = path.read_bytes()
    for write in (False, True):
        with pytest.raises(StoreError, match="is an SQLite database, but no store of xdplab"):
            Store(path, write=write)
    assert path.read_bytes() == before


def test_a_store_of_a_newer_xdplab_is_left_alone(path: Path, store: Store) -> None:
    store.connection.execute("PRAGMA user_version = 99")
    for write in (False, True):
        with pytest.raises(StoreError, match="written by a newer xdplab .version 99"):
            Store(path, write=write)


def test_an_older_store_is_brought_up_to_date(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with Store(path, write=True) as store:
        store.add(document())
    later = (*schema.MIGRATIONS, ("ALTER TABLE run ADD COLUMN colour TEXT",))
    monkeypatch.setattr(schema, "MIGRATIONS", later)
    with pytest.raises(StoreError, match="of an older xdplab .version 1, not 2"):
        Store(path)
    with Store(path, write=True) as store:
        assert store.document(document().run.id) == document()
        assert store.connection.execute("SELECT colour FROM run").fetchall() == [(None,)]
    with Store(path) as store:
        assert store.count() == 1


def test_a_migration_that_fails_leaves_the_store_as_it_was(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Store(path, write=True) as store:
        store.add(document())
    later = (*schema.MIGRATIONS, ("ALTER TABLE run ADD COLUMN colour TEXT", "no SQL at all"))
    with monkeypatch.context() as patched:
        patched.setattr(schema, "MIGRATIONS", later)
        with pytest.raises(StoreError, match="syntax error"):
            Store(path, write=True)
    with Store(path) as store:
        assert store.document(document().run.id) == document()


def test_a_file_in_the_place_of_a_directory_and_the_other_way_round(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match=r"cannot be opened .it is a directory"):
        Store(tmp_path, write=True)
    (tmp_path / "file").touch()
    with pytest.raises(StoreError, match="cannot be opened: "):
        Store(tmp_path / "file" / "s.sqlite", write=True)


needs_other_user = pytest.mark.skipif(
    not hasattr(os, "geteuid") or os.geteuid() != 0 or shutil.which("setpriv") is None,
    reason="only root can become somebody who may not write",
)


@needs_other_user
def test_who_may_not_write_can_read(tmp_path: Path) -> None:
    """In a process of another user: root may write everywhere."""
    import subprocess
    import sys

    path = tmp_path / "s.sqlite"
    with Store(path, write=True) as store:
        store.add(document())
    for above in (tmp_path, *tmp_path.parents[:3]):
        above.chmod(0o755)
    code = (
        "import sys; from pathlib import Path; from xdplab.store.store import Store\n"
        "from xdplab.errors import StoreError\n"
        "print(len(Store(Path(sys.argv[1])).runs()))\n"
        "try: Store(Path(sys.argv[1]), write=True).rename(sys.argv[2], add=['x'])\n"
        "except StoreError as error: print(error)\n"
    )
    root = Path(schema.__file__).parents[2]
    if not os.access(root, os.R_OK) or any(not p.stat().st_mode & 1 for p in root.parents):
        pytest.skip("xdplab lies where nobody else may read")
    someone = ("setpriv", "--reuid=65534", "--clear-groups")
    said = subprocess.run(
        [*someone, sys.executable, "-c", code, str(path), document().run.id],
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert said.returncode == 0, said.stderr
    count, refusal = said.stdout.splitlines()
    assert count == "1"
    assert "may not be written to" in refusal
    # Where not even its directory may be looked into.
    tmp_path.chmod(0o700)
    opening = code.partition("\n")[0] + "\nStore(Path(sys.argv[1]), write=sys.argv[2] == 'write')"
    for how in ("read", "write"):
        closed = subprocess.run(
            [*someone, sys.executable, "-c", opening, str(path), how],
            capture_output=True,
            text=True,
            check=False,
            timeout=60,
        )
        assert f"StoreError: the store {path} cannot be opened" in closed.stderr.splitlines()[-1]
