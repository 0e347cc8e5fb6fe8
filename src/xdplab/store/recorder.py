"""A run kept while it is measured: each trial when it was taken, each group when it ends.

What happens to the store never happens to the run. Nothing is forced to the disk while trials
are taken, which would disturb them: a process that is killed loses nothing by that, a machine
that loses its power the last seconds. The end of a run is forced.
"""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from pathlib import Path

from xdplab.errors import StoreError
from xdplab.records import Document, Result, Trial
from xdplab.store.rows import (
    close_result,
    insert_result,
    insert_run,
    insert_trials,
    update_run,
)
from xdplab.store.schema import is_busy, transaction, worded
from xdplab.store.store import Store

_PATIENCE_MS = 200
"""How long a trial waits for another writer before it is kept with the next one: measuring must
not stand still."""

_PATIENCE_BETWEEN_MS = 30_000
"""The same where nothing is measured meanwhile."""


class Recorder:
    """Keeps one run in a store; the conductor's Keeper. StoreError where the file is of no use.

    `begun` is the run's document before it has results. Nothing is written before a group
    begins, so that a run that cannot be planned leaves nothing. `failure` is why the run is not
    kept, or not all of it; None as long as it is.
    """

    def __init__(self, path: Path, begun: Document) -> None:
        self.path = path
        self.failure: StoreError | None = None
        self._start = time.monotonic()
        self._begun = begun
        self._run: int | None = None
        self._rows: list[int] = []
        self._pending: list[tuple[int, Trial, int]] = []
        self._results = 0
        self._store = Store(path, write=True)
        self._connection = self._store.connection
        with worded(path):
            self._connection.execute("PRAGMA synchronous = NORMAL")
            # Copying the log into the file is work for between groups.
            self._connection.execute("PRAGMA wal_autocheckpoint = 0")

    def begin_group(self, rows: Sequence[Result]) -> None:
        """Write a group's rows down; they await their trials."""

        def write() -> None:
            with self._transaction(_PATIENCE_BETWEEN_MS):
                if self._run is None:
                    self._run = insert_run(self._connection, self._unfinished())
                self._rows = [
                    insert_result(self._connection, self._run, position, row, is_open=True)
                    for position, row in enumerate(rows, self._results)
                ]

        self._attempt(write)

    def keep_trial(self, row: int, trial: Trial, operations_per_call: int) -> None:
        """Write a trial down; or, while somebody else writes, with the next one."""

        def write() -> None:
            self._pending.append((self._rows[row], trial, operations_per_call))
            try:
                with self._transaction(_PATIENCE_MS):
                    insert_trials(self._connection, self._pending)
            except sqlite3.Error as error:
                if not is_busy(error):
                    raise
            else:
                self._pending.clear()

        self._attempt(write)

    def end_group(self, rows: Sequence[Result]) -> None:
        """Write the group's figures down, and the trials of each as one piece."""

        def write() -> None:
            with self._transaction(_PATIENCE_BETWEEN_MS):
                for number, row in zip(self._rows, rows, strict=True):
                    close_result(self._connection, number, row)
                if self._run is not None:
                    update_run(self._connection, self._run, self._unfinished())
            # The rows had all trials, pending ones included.
            self._pending.clear()
            self._results += len(rows)
            self._connection.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchall()

        self._attempt(write)

    def finish(self, document: Document) -> bool:
        """Bring the run up to its document and close the store; whether it is kept.

        A run without a single figure is not kept, and that is no failure. What failed on the way
        is tried once more as a whole: another writer may have ended, a disk may have room again.
        """
        worth_it = any(result.estimate for result in document.results)
        whole, self.failure = self.failure is None, None

        def write() -> None:
            self._connection.execute("PRAGMA synchronous = FULL")
            with self._transaction(_PATIENCE_BETWEEN_MS):
                if not whole or not worth_it:
                    self._forget()
                if worth_it:
                    self._complete(document)

        self._attempt(write)
        self._store.close()
        return worth_it and self.failure is None

    def _complete(self, document: Document) -> None:
        if self._run is None:
            self._run = insert_run(self._connection, document)
        # A group that failed before its first trial has no results in the document.
        self._connection.execute("DELETE FROM result WHERE run = ? AND is_open", (self._run,))
        for position, result in list(enumerate(document.results))[self._results :]:
            insert_result(self._connection, self._run, position, result)
        update_run(self._connection, self._run, document)

    def _forget(self) -> None:
        self._connection.execute("DELETE FROM run WHERE number = ?", (self._run,))
        self._run, self._results = None, 0

    def _unfinished(self) -> Document:
        run = replace(
            self._begun.run, complete=False, duration_s=round(time.monotonic() - self._start, 3)
        )
        return replace(self._begun, run=run)

    def _transaction(self, patience_ms: int) -> AbstractContextManager[None]:
        return transaction(self._connection, patience_ms)

    def _attempt(self, write: Callable[[], None]) -> None:
        """Write, unless that failed before."""
        if self.failure is not None:
            return
        try:
            with worded(self.path):
                write()
        except StoreError as failure:
            self.failure = failure
