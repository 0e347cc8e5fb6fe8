"""A run is kept as it is measured, whatever becomes of it, of the disk and of other writers."""

from __future__ import annotations

import json
import os
import random
import signal
import sqlite3
import sys
import time
import traceback
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import IO

import pytest

from tests.store.made import document, result, row, trial
from xdplab.errors import StoreError
from xdplab.judged import judged
from xdplab.records import RESOLVED, TWIN, Document, Result
from xdplab.store import recorder as recorder_module
from xdplab.store.recorder import Recorder
from xdplab.store.store import Store

GROUP = [row("a"), row("b", size_bytes=6), row(TWIN)]
NANOSECONDS = {0: 3000, 1: 5000, 2: 1}


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "results.sqlite"


@pytest.fixture
def recorder(path: Path) -> Iterator[Recorder]:
    made = Recorder(path, document(results=()))
    yield made
    made.finish(document(results=()))


def read(path: Path) -> Document:
    with Store(path) as store:
        (summary,) = store.runs()
        return store.document(summary.run.id)


def measured(count: int) -> list[Result]:
    """The group with `count` trials of each row, judged."""
    rows = [
        replace(of, operations_per_call=1000, trials=(trial(NANOSECONDS[place]),) * count)
        for place, of in enumerate(GROUP)
    ]
    return judged(rows)


def take(recorder: Recorder, count: int) -> None:
    for _ in range(count):
        for place in range(len(GROUP)):
            recorder.keep_trial(place, trial(NANOSECONDS[place]), 1000)


def test_a_run_is_kept_as_its_document_is(recorder: Recorder, path: Path) -> None:
    for _ in range(2):
        recorder.begin_group(GROUP)
        take(recorder, 6)
        recorder.end_group(measured(6))
    whole = document(results=measured(6) * 2, tags=["before"], note="n")
    assert recorder.finish(whole)
    # What it is called is said at its beginning.
    assert read(path) == replace(whole, run=replace(whole.run, tags=(), note=""))
    with Store(path) as store:
        assert store.connection.execute("SELECT count(*) FROM trial").fetchone() == (0,)


def test_trials_can_be_read_while_it_is_measured(recorder: Recorder, path: Path) -> None:
    recorder.begin_group(GROUP)
    for count in range(1, 8):
        take(recorder, 1)
        seen = read(path)
        assert not seen.run.complete
        assert seen.results == tuple(measured(count))
    # As many loads as an interval needs: what a run that is killed here leaves is judged.
    assert [of.verdict for of in seen.results[:2]] == [RESOLVED, RESOLVED]
    assert seen.results[0].resolution is not None
    assert seen.environment == document().environment


def test_what_never_was_in_a_group_is_kept_at_the_end(recorder: Recorder, path: Path) -> None:
    assert recorder.finish(document())
    assert read(path) == document()


def test_a_run_without_a_figure_leaves_nothing(recorder: Recorder, path: Path) -> None:
    recorder.begin_group(GROUP)
    assert not recorder.finish(document(results=()))
    assert recorder.failure is None
    with Store(path) as store:
        assert store.runs() == []


def test_a_group_that_failed_before_its_first_trial_is_not_in_the_run(
    recorder: Recorder, path: Path
) -> None:
    recorder.begin_group(GROUP)
    take(recorder, 5)
    recorder.end_group(measured(5))
    recorder.begin_group([row("c")])
    whole = document(results=measured(5))
    assert recorder.finish(whole)
    assert read(path) == whole


# --- kill -9


def forked(child: Callable[[IO[str]], None]) -> tuple[int, int]:
    """A process that does `child`, with a pipe to write to; its number and the reading end."""
    reader, writer = os.pipe()
    process = os.fork()
    if process == 0:
        try:
            os.close(reader)
            with os.fdopen(writer, "w") as pipe:
                child(pipe)
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(1)
    os.close(writer)
    return process, reader


needs_fork = pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork()")


@needs_fork
def test_whoever_is_killed_loses_no_trial_that_was_taken(path: Path) -> None:
    rng = random.Random(os.getpid())
    kept = 0
    for number in range(50):
        run_id = f"killed-{number}"

        def measure(pipe: IO[str], run_id: str = run_id) -> None:
            made = Recorder(path, document(run_id, results=()))
            groups = 0
            while True:
                made.begin_group(GROUP)
                for count in range(1, 8):
                    take(made, 1)
                    pipe.write(f"{json.dumps([groups, count])}\n")
                    pipe.flush()
                made.end_group(measured(7))
                groups += 1

        process, reader = forked(measure)
        with os.fdopen(reader) as pipe:
            pipe.readline()
            time.sleep(rng.uniform(0, 0.05))
            os.kill(process, signal.SIGKILL)
            os.waitpid(process, 0)
            # The last line may be half a one.
            said = [line for line in pipe.read().splitlines(keepends=True) if line[-1] == "\n"]
        groups, count = json.loads(said[-1]) if said else (0, 1)
        with Store(path) as store:
            results = store.document(run_id).results
        trials = [len(of.trials) for of in results]
        assert len(trials) % len(GROUP) == 0
        assert trials[: groups * len(GROUP)] == [7] * groups * len(GROUP)
        last = trials[groups * len(GROUP) : (groups + 1) * len(GROUP)]
        assert min(last) >= count
        kept += sum(trials)
    assert kept > 50 * len(GROUP)
    with Store(path, write=True) as store:
        assert store.count() == 50
        assert store.connection.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
        assert store.connection.execute("PRAGMA foreign_key_check").fetchall() == []


@needs_fork
def test_four_that_write_at_once_and_one_that_reads_lose_nothing(path: Path) -> None:
    def measure(pipe: IO[str], run_id: str) -> None:
        # All four make the file as well.
        made = Recorder(path, document(run_id, results=()))
        results: list[Result] = []
        for _ in range(3):
            made.begin_group(GROUP)
            take(made, 20)
            made.end_group(measured(20))
            results += measured(20)
        kept = made.finish(document(run_id, results=results))
        pipe.write("kept" if kept else f"not kept: {made.failure}")

    writers = [
        forked(lambda pipe, run_id=f"writer-{number}": measure(pipe, run_id))  # type: ignore[misc]
        for number in range(4)
    ]
    seen = 0
    while any(os.waitpid(process, os.WNOHANG) == (0, 0) for process, _ in writers[:1]):
        try:
            with Store(path) as store:
                for summary in store.runs():
                    trials = [len(of.trials) for of in store.document(summary.run.id).results]
                    seen = max(seen, sum(trials))
        except StoreError as error:
            # Before the first of them has made it.
            assert "yet" in str(error) or "empty" in str(error), error  # noqa: PT017
    for process, reader in writers:
        with os.fdopen(reader) as pipe:
            assert pipe.read() == "kept"
        if process != writers[0][0]:
            os.waitpid(process, 0)
    assert seen > 0
    with Store(path) as store:
        assert store.count() == 4
        for number in range(4):
            whole = store.document(f"writer-{number}")
            assert whole.results == tuple(measured(20) * 3)


@needs_fork
def test_whoever_makes_the_store_at_the_same_time_as_others_has_it(tmp_path: Path) -> None:
    """Before the file's head was read at one moment, one in thirteen took it for another's."""

    def make(pipe: IO[str], path: Path) -> None:
        Store(path, write=True).close()
        pipe.write("made")

    for number in range(12):
        path = tmp_path / f"{number}.sqlite"
        makers = [forked(lambda pipe, path=path: make(pipe, path)) for _ in range(4)]  # type: ignore[misc]
        for process, reader in makers:
            with os.fdopen(reader) as pipe:
                assert pipe.read() == "made"
            os.waitpid(process, 0)


# --- others in the way


def test_while_somebody_else_writes_trials_wait_and_are_kept(
    recorder: Recorder, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(recorder_module, "_PATIENCE_MS", 1)
    recorder.begin_group(GROUP)
    other = sqlite3.connect(path, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    take(recorder, 3)
    assert recorder.failure is None
    assert all(not of.trials for of in read(path).results)
    other.execute("ROLLBACK")
    other.close()
    take(recorder, 1)
    assert read(path).results == tuple(measured(4))


def test_where_somebody_else_never_ends_the_run_goes_on_and_says_so(
    recorder: Recorder, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(recorder_module, "_PATIENCE_BETWEEN_MS", 1)
    other = sqlite3.connect(path, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    recorder.begin_group(GROUP)
    take(recorder, 5)
    recorder.end_group(measured(5))
    assert "written to by another process" in str(recorder.failure)
    # The other one ends in time: nothing was lost after all.
    other.execute("ROLLBACK")
    other.close()
    assert recorder.finish(document(results=measured(5)))
    assert read(path) == document(results=measured(5))


def test_a_full_disk_is_said_once_and_what_was_kept_stays(recorder: Recorder, path: Path) -> None:
    connection = recorder._connection
    recorder.begin_group(GROUP)
    take(recorder, 5)
    (pages,) = connection.execute("PRAGMA page_count").fetchone()
    # A disk that has room for one page more.
    connection.execute(f"PRAGMA max_page_count = {pages + 1}")
    take(recorder, 500)
    assert "has no room: the disk is full" in str(recorder.failure)
    recorder.end_group(measured(505))
    assert not recorder.finish(document(results=[result(str(n)) for n in range(500)]))
    assert "has no room" in str(recorder.failure)
    left = read(path)
    assert not left.run.complete
    assert min(len(of.trials) for of in left.results) >= 5


def test_a_disk_that_has_room_again_has_the_whole_run(recorder: Recorder, path: Path) -> None:
    connection = recorder._connection
    recorder.begin_group(GROUP)
    (pages,) = connection.execute("PRAGMA page_count").fetchone()
    connection.execute(f"PRAGMA max_page_count = {pages + 1}")
    take(recorder, 500)
    assert recorder.failure is not None
    recorder.end_group(measured(500))
    connection.execute("PRAGMA max_page_count = 1000000")
    assert recorder.finish(document(results=measured(500)))
    assert read(path) == document(results=measured(500))


def test_a_file_that_is_of_no_use_is_said_at_once(tmp_path: Path) -> None:
    path = tmp_path / "s.sqlite"
    path.write_text("no database" * 100)
    with pytest.raises(StoreError, match="is damaged or no store"):
        Recorder(path, document(results=()))
    assert path.read_text() == "no database" * 100


@pytest.mark.skipif(sys.platform != "linux", reason="/proc is Linux's")
def test_no_descriptor_outlives_a_recorder(path: Path) -> None:
    def opened() -> list[str]:
        links = [entry for entry in Path("/proc/self/fd").iterdir() if entry.exists()]
        return [str(link.readlink()) for link in links if str(path) in str(link.readlink())]

    made = Recorder(path, document(results=()))
    made.begin_group(GROUP)
    assert opened()
    made.finish(document())
    assert not opened()
