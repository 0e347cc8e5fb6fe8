"""The store's file: SQLite with tables by migrations, and its errors in words.

A run's document is kept as its own JSON, cut into rows, so that whatever documents gain is kept
as well; the columns beside it are there to be searched by. Samples of a finished group stand
compressed with their result; before that each trial has a row of its own, written when it was
taken, so that a process may be killed at any time.
"""

from __future__ import annotations

import contextlib
import os
import shlex
import shutil
import sqlite3
import time
import zlib
from collections.abc import Iterator, Sequence
from pathlib import Path

from xdplab.errors import StoreError

VARIABLE = "XDPLAB_STORE"
"""The environment variable that names another file than the user's own."""

APPLICATION_ID = 0x7864706C
"""PRAGMA application_id of every store: the letters "xdpl"."""

_PATIENCE_MS = 30_000
"""How long somebody else's transaction is waited for: importing a long run takes half a second."""

_RUNS = """
CREATE TABLE run (
    number INTEGER PRIMARY KEY,
    id TEXT NOT NULL UNIQUE,
    schema INTEGER NOT NULL,     -- of the document that the JSON below is of
    info TEXT NOT NULL,          -- "run" without tags and note
    environment TEXT NOT NULL,
    warnings TEXT NOT NULL,
    findings TEXT NOT NULL,
    note TEXT NOT NULL           -- a JSON string, as it may hold anything
)
"""
_TAGS = """
CREATE TABLE tag (
    run INTEGER NOT NULL REFERENCES run ON DELETE CASCADE,
    position INTEGER NOT NULL,
    name TEXT NOT NULL,
    PRIMARY KEY (run, position)
) WITHOUT ROWID
"""
_RESULTS = """
CREATE TABLE result (
    number INTEGER PRIMARY KEY,
    run INTEGER NOT NULL REFERENCES run ON DELETE CASCADE,
    position INTEGER NOT NULL,
    suite TEXT NOT NULL,
    engine TEXT NOT NULL,
    series INTEGER NOT NULL,     -- equal for results of different runs that may be compared
    point REAL,                  -- of its estimate, NULL where it has none
    body TEXT NOT NULL,          -- the result without its samples
    is_open INTEGER NOT NULL,    -- whether its group has not ended: its figure is still to come
    samples BLOB                 -- "samples" as JSON, by zlib
)
"""
_TRIALS = """
CREATE TABLE trial (
    number INTEGER PRIMARY KEY,
    result INTEGER NOT NULL REFERENCES result ON DELETE CASCADE,
    body TEXT NOT NULL           -- [operations a call, the trial]
)
"""
MIGRATIONS: Sequence[Sequence[str]] = (
    (
        _RUNS,
        _TAGS,
        _RESULTS,
        _TRIALS,
        "CREATE INDEX tag_name ON tag (name)",
        "CREATE INDEX result_run ON result (run, position, suite, engine)",
        "CREATE INDEX result_series ON result (series, run)",
        "CREATE INDEX trial_result ON trial (result)",
    ),
)
"""Each takes the file from its place in this list (PRAGMA user_version) to the next."""


def default_path() -> Path:
    """The file of this user: XDPLAB_STORE, else results.sqlite in the user's data directory.

    StoreError where neither is known: a process without HOME, of a user that nobody knows.
    """
    named = os.environ.get(VARIABLE)
    if named:
        return Path(named)
    import platformdirs

    # Without a home directory it raises, or (older releases) leaves "~" as it is, which would
    # be made where one happens to be.
    try:
        directory = platformdirs.user_data_path("xdplab", appauthor=False)
    except RuntimeError:
        directory = Path("~")
    if not directory.is_absolute():
        raise StoreError(
            "the store has no place: you have no home directory (HOME is not set). Name one with "
            f"--store FILE or {VARIABLE}"
        )
    return directory / "results.sqlite"


def connect(path: Path, write: bool) -> sqlite3.Connection:
    """Open a store, to write or only to read; one to write is made, or brought up to date.

    StoreError says what is wrong with the file; it is then as it was. The connection commits
    each statement, except within `transaction`.
    """
    with worded(path):
        if write:
            path.parent.mkdir(parents=True, exist_ok=True)
            connection = _opened(path, "rwc")
        else:
            connection = _readable(path)
        try:
            _check(connection, path, write)
            connection.execute("PRAGMA foreign_keys = ON")
        except BaseException:
            connection.close()
            raise
        return connection


_LEAST_ROOM_BYTES = 64 << 10
"""What SQLite wants for the index of its log, 32 KiB, and some more."""


@contextlib.contextmanager
def transaction(connection: sqlite3.Connection, patience_ms: int = _PATIENCE_MS) -> Iterator[None]:
    """All of it or nothing; other writers are waited for as long as `patience_ms` says."""
    connection.execute(f"PRAGMA busy_timeout = {patience_ms}")
    connection.execute("BEGIN IMMEDIATE")
    try:
        yield
        connection.execute("COMMIT")
    except BaseException:
        # What failed may have ended the transaction by itself (a full disk does).
        with contextlib.suppress(sqlite3.Error):
            connection.execute("ROLLBACK")
        raise


@contextlib.contextmanager
def worded(path: Path) -> Iterator[None]:
    """Errors of SQLite and of the file as StoreError with the remedy."""
    try:
        yield
    except sqlite3.Error as error:
        raise StoreError(f"the store {path} {_reason(error, path)}") from error
    except OSError as error:
        raise StoreError(
            f"the store {path} cannot be opened: {error.strerror or error}. Give another with "
            f"--store FILE or {VARIABLE}"
        ) from error


@contextlib.contextmanager
def sound(path: Path) -> Iterator[None]:
    """What rows hold and cannot have been written by xdplab, as StoreError."""
    try:
        yield
    except (ValueError, TypeError, LookupError, AttributeError, zlib.error) as error:
        raise StoreError(
            f"the store {path} holds something that xdplab did not write ({error}): it is damaged. "
            "Nothing was changed; the other runs can still be read, and xdplab rm removes this one"
        ) from error


def is_busy(error: sqlite3.Error) -> bool:
    """Whether somebody else was writing; later it may work."""
    return _code(error) in {sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED}


def _code(error: sqlite3.Error) -> int | None:
    # Python's own errors of this module have none. The low byte is the primary code.
    code = getattr(error, "sqlite_errorcode", None)
    return None if code is None else code & 0xFF


def _reason(error: sqlite3.Error, path: Path) -> str:
    code = _code(error)
    elsewhere = f"Give another with --store FILE or {VARIABLE}"
    here, there = shlex.quote(str(path)), shlex.quote(f"{path}.damaged")
    if code in {sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_CORRUPT}:
        return (
            f"is damaged or no store ({error}); nothing in it was changed. Move it away (mv {here} "
            f"{there}) and a new one is made; `sqlite3 {there} .recover` prints what can still be "
            "read"
        )
    if code == sqlite3.SQLITE_FULL or (code == sqlite3.SQLITE_IOERR and _is_full(path)):
        return f"has no room: the disk is full. Make room there. {elsewhere}"
    if code in {sqlite3.SQLITE_READONLY, sqlite3.SQLITE_PERM}:
        return f"may not be written to ({error}). {elsewhere}"
    if code == sqlite3.SQLITE_CANTOPEN:
        # Not path.is_dir(), which raises where one may not look.
        why = "it is a directory" if os.path.isdir(path) else str(error)  # noqa: PTH112
        return f"cannot be opened ({why}). {elsewhere}"
    if code in {sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED}:
        return "is being written to by another process, and does not become free. Try again"
    return f"failed: {error}. {elsewhere}"


def _is_full(path: Path) -> bool:
    with contextlib.suppress(OSError):
        return shutil.disk_usage(path.parent).free < _LEAST_ROOM_BYTES
    return False


def _opened(path: Path, mode: str) -> sqlite3.Connection:
    uri = f"{path.absolute().as_uri()}?mode={mode}"
    return sqlite3.connect(uri, uri=True, timeout=_PATIENCE_MS / 1000, isolation_level=None)


def _readable(path: Path) -> sqlite3.Connection:
    """A connection that reads; also where this user may not write beside the file."""
    if not path.exists():
        raise StoreError(
            f"there is no store {path} yet: xdplab run makes it. Another is named by --store FILE "
            f"or {VARIABLE}"
        )
    connection = _opened(path, "ro")
    try:
        connection.execute("PRAGMA schema_version").fetchone()
    except sqlite3.OperationalError:
        connection.close()
        # Readers of a WAL file need its -shm file, which cannot be made here. Without a log
        # beside it there is nobody who writes, and nothing but the file itself to read.
        log = Path(f"{path}-wal")
        if log.exists() and log.stat().st_size:
            raise
        return _opened(path, "ro&immutable=1")
    return connection


def _check(connection: sqlite3.Connection, path: Path, write: bool) -> None:
    version = _version(connection, path)
    if version == len(MIGRATIONS):
        return
    if not write:
        raise StoreError(
            f"the store {path} is of an older xdplab (version {version}, not {len(MIGRATIONS)}). "
            "Any command that writes to it brings it up to date, such as xdplab run"
            if version
            else f"the store {path} is empty: xdplab run fills it"
        )
    # Takes effect only before the first table; later `rm` could not give its room back.
    connection.execute("PRAGMA auto_vacuum = INCREMENTAL")
    _use_log(connection)
    with transaction(connection):
        # Another process may have done it while this one waited.
        for number in range(_version(connection, path), len(MIGRATIONS)):
            for statement in MIGRATIONS[number]:
                connection.execute(statement)
        connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
        connection.execute(f"PRAGMA user_version = {len(MIGRATIONS)}")


def _version(connection: sqlite3.Connection, path: Path) -> int:
    """How many migrations the file has seen; StoreError where it is not ours to read."""
    with _one_moment(connection):
        (application,) = connection.execute("PRAGMA application_id").fetchone()
        (version,) = connection.execute("PRAGMA user_version").fetchone()
        (tables,) = connection.execute("SELECT count(*) FROM sqlite_master").fetchone()
    if tables and application != APPLICATION_ID:
        raise StoreError(
            f"{path} is an SQLite database, but no store of xdplab; it was left as it is. Give "
            f"another file with --store FILE or {VARIABLE}"
        )
    if version > len(MIGRATIONS):
        raise StoreError(
            f"the store {path} was written by a newer xdplab (version {version}; this one knows "
            f"{len(MIGRATIONS)}). Update xdplab, or give another file with --store FILE"
        )
    return int(version)


@contextlib.contextmanager
def _one_moment(connection: sqlite3.Connection) -> Iterator[None]:
    """What is read within is of one moment. Without it a file that another process is just making
    would show its tables and not yet its application_id, as if it were somebody else's."""
    if connection.in_transaction:
        yield
        return
    connection.execute("BEGIN")
    try:
        yield
    finally:
        if connection.in_transaction:
            connection.execute("ROLLBACK")


def _use_log(connection: sqlite3.Connection) -> None:
    """Write-ahead log: readers and the writer do not wait for one another.

    Two processes that switch at once get "locked" without waiting (SQLite's documentation of
    PRAGMA journal_mode). Where the file system cannot have it, the file stays as it was.
    """
    until = time.monotonic() + _PATIENCE_MS / 1000
    while True:
        try:
            connection.execute("PRAGMA journal_mode = WAL")
            return
        except sqlite3.OperationalError as error:
            if not is_busy(error) or time.monotonic() > until:
                raise
            time.sleep(0.01)
