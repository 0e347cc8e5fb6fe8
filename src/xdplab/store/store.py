"""Runs in a file: put in, looked up, read back, called by tags, removed."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from types import TracebackType
from typing import Self

from xdplab.documents import document_from_json
from xdplab.errors import UsageError
from xdplab.records import Document, Json, RunInfo
from xdplab.store.rows import column, insert_result, insert_run, read_samples, set_tags
from xdplab.store.schema import connect, sound, transaction, worded

_LAST = re.compile("last(?:~([0-9]{1,9}))?")
_TAG = re.compile(r"[^\W_][\w.+=/@-]{0,99}")
_LEAST_PREFIX = 4


@dataclass(frozen=True, slots=True)
class Summary:
    """A stored run without its samples. `figures` counts results that have one; a run that was
    killed has them when it is read, and here none for its last group."""

    run: RunInfo
    suites: tuple[str, ...]
    engines: tuple[str, ...]
    figures: int
    environment: Json


class Store:
    """The runs in one file. `write` makes the file, or brings it up to date; else it is read.

    A context manager. Everything here raises StoreError where the file is not as it should be,
    and UsageError for runs that are not in it.
    """

    def __init__(self, path: Path, *, write: bool = False) -> None:
        self.path = path
        self.connection = connect(path, write)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close the file; what was written is in it already."""
        self.connection.close()

    # --- in

    def add(self, document: Document) -> bool:
        """Put a whole document in; False if just this run is there already.

        UsageError where another run has its id.
        """
        with self._writing():
            known = self.connection.execute(
                "SELECT number FROM run WHERE id = ?", (column(document.run.id),)
            ).fetchone()
            if known is not None:
                if _nameless(self._document(known[0])) == _nameless(document):
                    return False
                raise UsageError(
                    f"another run in {self.path} has the id {document.run.id!r}: the two differ. "
                    f"Remove that one first (xdplab rm {document.run.id}), or import into another "
                    "file (--store FILE)"
                )
            run = insert_run(self.connection, document)
            for position, result in enumerate(document.results):
                insert_result(self.connection, run, position, result)
            return True

    # --- looked up

    def resolve(self, word: str) -> list[str]:
        """The ids of the runs that a user means by `word`, oldest first; empty for none.

        An id; a tag, which may name several; `last`, and `last~2` for the third last; the
        beginning of an id, or of its last part (four characters at least). UsageError where a
        beginning fits several.
        """
        with self._reading():
            if self._ids("SELECT id FROM run WHERE id = ?", column(word)):
                return [word]
            tagged = self._ids(
                "SELECT id FROM run WHERE number IN (SELECT run FROM tag WHERE name = ?) "
                "ORDER BY number",
                column(word),
            )
            if tagged:
                return tagged
            last = _LAST.fullmatch(word)
            if last:
                return self._ids(
                    "SELECT id FROM run ORDER BY number DESC LIMIT 1 OFFSET ?", int(last[1] or 0)
                )
            if len(word) < _LEAST_PREFIX:
                return []
            # GLOB and LIKE have wildcards of their own; ids of other makers may hold them.
            fitting = self._ids(
                "SELECT id FROM run WHERE substr(id, 1, ?1) = ?2 "
                "OR substr(id, instr(id, '-') + 1, ?1) = ?2",
                len(word),
                column(word),
            )
        if len(fitting) > 1:
            raise UsageError(
                f"{word!r} is the beginning of {len(fitting)} runs: {', '.join(fitting[:4])}"
                f"{' ...' if len(fitting) > 4 else ''}. Give more of it"
            )
        return fitting

    def runs(self, *, tag: str | None = None, limit: int | None = None) -> list[Summary]:
        """Stored runs, newest last: all, or the last `limit`, of those with `tag`."""
        tagged = "WHERE number IN (SELECT run FROM tag WHERE name = ?)" if tag is not None else ""
        arguments = [tag] if tag is not None else []
        with self._reading():
            rows = self.connection.execute(
                f"SELECT number, info, note, environment FROM run {tagged} "
                "ORDER BY number DESC LIMIT ?",
                (*arguments, -1 if limit is None else limit),
            ).fetchall()
            return [self._summary(*row) for row in reversed(rows)]

    def count(self, *, tag: str | None = None) -> int:
        """How many runs there are, of those with `tag`."""
        with self._reading():
            row = self.connection.execute(
                "SELECT count(*) FROM run"
                if tag is None
                else "SELECT count(DISTINCT run) FROM tag WHERE name = ?",
                () if tag is None else (tag,),
            ).fetchone()
            return int(row[0])

    def document(self, run_id: str) -> Document:
        """A run with everything that was measured; where it was killed, as far as it came."""
        with self._reading():
            return self._document(self._number(run_id))

    # --- called, removed

    def rename(
        self,
        run_id: str,
        *,
        add: Sequence[str] = (),
        remove: Sequence[str] = (),
        note: str | None = None,
    ) -> RunInfo:
        """Change a run's tags and, where one is given, its note; how it is called then."""
        with self._writing():
            number = self._number(run_id)
            tags = [tag for tag in self._tags(number) if tag not in remove]
            tags += [tag for tag in dict.fromkeys(add) if tag not in tags]
            set_tags(self.connection, number, tags)
            if note is not None:
                self.connection.execute(
                    "UPDATE run SET note = ? WHERE number = ?", (json.dumps(note), number)
                )
            row = self.connection.execute(
                "SELECT info, note FROM run WHERE number = ?", (number,)
            ).fetchone()
            return self._info(number, *row)

    def remove(self, run_ids: Sequence[str]) -> None:
        """Remove runs with all their samples, all or none, and give their room back."""
        with self._writing():
            numbers = [(self._number(run_id),) for run_id in run_ids]
            self.connection.executemany("DELETE FROM run WHERE number = ?", numbers)
        with worded(self.path):
            # It frees a page a step, of which execute() takes one alone.
            self.connection.executescript("PRAGMA incremental_vacuum")

    # --- rows

    @contextmanager
    def _reading(self) -> Iterator[None]:
        """All that is read within is of one moment, whoever writes meanwhile."""
        with worded(self.path), sound(self.path):
            self.connection.execute("BEGIN")
            try:
                yield
            finally:
                if self.connection.in_transaction:
                    self.connection.execute("ROLLBACK")

    @contextmanager
    def _writing(self) -> Iterator[None]:
        with worded(self.path), sound(self.path), transaction(self.connection):
            yield

    def _ids(self, statement: str, *arguments: object) -> list[str]:
        return [row[0] for row in self.connection.execute(statement, arguments)]

    def _number(self, run_id: str) -> int:
        row = self.connection.execute(
            "SELECT number FROM run WHERE id = ?", (column(run_id),)
        ).fetchone()
        if row is None:
            raise UsageError(f"the store {self.path} has no run {run_id!r}. See xdplab list")
        return int(row[0])

    def _tags(self, number: int) -> list[str]:
        return [
            row[0]
            for row in self.connection.execute(
                "SELECT name FROM tag WHERE run = ? ORDER BY position", (number,)
            )
        ]

    def _info(self, number: int, info: str, note: str) -> RunInfo:
        fields = json.loads(info)
        return RunInfo(
            **{**fields, "command": tuple(fields["command"])},
            tags=tuple(self._tags(number)),
            note=json.loads(note),
        )

    def _summary(self, number: int, info: str, note: str, environment: str) -> Summary:
        of_run = self.connection.execute(
            "SELECT suite, engine, count(point) FROM result "
            "WHERE run = ? GROUP BY suite, engine ORDER BY min(position)",
            (number,),
        ).fetchall()
        return Summary(
            run=self._info(number, info, note),
            suites=tuple(dict.fromkeys(row[0] for row in of_run)),
            engines=tuple(dict.fromkeys(row[1] for row in of_run)),
            figures=sum(row[2] for row in of_run),
            environment=json.loads(environment),
        )

    def _document(self, number: int) -> Document:
        schema, info, note, environment, warnings, findings = self.connection.execute(
            "SELECT schema, info, note, environment, warnings, findings FROM run WHERE number = ?",
            (number,),
        ).fetchone()
        rows = self.connection.execute(
            "SELECT number, body, samples, is_open FROM result WHERE run = ? ORDER BY position",
            (number,),
        ).fetchall()
        document = document_from_json(
            {
                "schema": schema,
                "run": {
                    **json.loads(info),
                    "tags": self._tags(number),
                    "note": json.loads(note),
                },
                "environment": json.loads(environment),
                "results": [
                    {
                        **json.loads(body),
                        "samples": read_samples(self.connection, result, samples),
                    }
                    for result, body, samples, _ in rows
                ],
                "warnings": json.loads(warnings),
                "findings": json.loads(findings),
            }
        )
        ended = sum(not is_open for *_, is_open in rows)
        if ended == len(rows):
            return document
        # Brings the statistics, which who only looks runs up should not wait for.
        from xdplab.judged import judged

        # The run was killed, or goes on: there is one such group, the last one.
        results = (*document.results[:ended], *judged(document.results[ended:]))
        return replace(document, results=results)


def _nameless(document: Document) -> Document:
    return replace(document, run=replace(document.run, tags=(), note=""))


def check_tag(tag: str) -> str:
    """The tag; UsageError for one that could be taken for something else on a command line."""
    if not _TAG.fullmatch(tag) or _LAST.fullmatch(tag):
        raise UsageError(
            f"{tag!r} is no tag: give a word of letters, digits and any of . _ + = / @ -, such as "
            "before; last and last~N stand for the newest runs"
        )
    return tag
