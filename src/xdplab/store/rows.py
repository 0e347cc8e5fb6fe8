"""A document's parts as rows of the store, written here alone."""

from __future__ import annotations

import hashlib
import json
import sqlite3
import zlib
from collections.abc import Sequence

from xdplab.records import SCHEMA, Document, Json, Result, Trial


def series(result: Result) -> int:
    """A 64-bit number that results of different runs share if they are of the same thing."""
    key = [
        result.suite,
        result.engine,
        result.method,
        result.variant,
        result.baseline,
        result.metric,
        sorted(result.parameters.items()),
    ]
    digest = hashlib.blake2b(json.dumps(key).encode(), digest_size=8).digest()
    return int.from_bytes(digest, "big", signed=True)


def insert_run(connection: sqlite3.Connection, document: Document) -> int:
    """A run's row with its tags; its number."""
    number = connection.execute(
        "INSERT INTO run (id, schema, info, environment, warnings, findings, note) "
        "VALUES (?, ?, ?, ?, ?, ?, ?)",
        (column(document.run.id), SCHEMA, *_run_columns(document), json.dumps(document.run.note)),
    ).lastrowid
    if number is None:
        raise RuntimeError("SQLite gave the inserted run no number")
    set_tags(connection, number, document.run.tags)
    return number


def update_run(connection: sqlite3.Connection, number: int, document: Document) -> None:
    """A run's row brought up to what its document says now; tags and note stay."""
    connection.execute(
        "UPDATE run SET schema = ?, info = ?, environment = ?, warnings = ?, findings = ? "
        "WHERE number = ?",
        (SCHEMA, *_run_columns(document), number),
    )


def set_tags(connection: sqlite3.Connection, number: int, tags: Sequence[str]) -> None:
    """A run's tags in their order, in place of those it has."""
    connection.execute("DELETE FROM tag WHERE run = ?", (number,))
    connection.executemany(
        "INSERT INTO tag (run, position, name) VALUES (?, ?, ?)",
        [(number, position, column(tag)) for position, tag in enumerate(tags)],
    )


def insert_result(
    connection: sqlite3.Connection,
    run: int,
    position: int,
    result: Result,
    is_open: bool = False,
) -> int:
    """A result's row; its number. An open one awaits its trials and its figure."""
    number = connection.execute(
        "INSERT INTO result (run, position, suite, engine, series, point, body, "
        "is_open, samples) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
        (
            run,
            position,
            column(result.suite),
            column(result.engine),
            series(result),
            *_figure_columns(result),
            is_open,
            None if is_open else _samples_column(result),
        ),
    ).lastrowid
    if number is None:
        raise RuntimeError("SQLite gave the inserted result no number")
    return number


def close_result(connection: sqlite3.Connection, number: int, result: Result) -> None:
    """What an open row becomes when its group ends: its figure, and its trials with it."""
    connection.execute(
        "UPDATE result SET point = ?, body = ?, is_open = 0, samples = ? WHERE number = ?",
        (*_figure_columns(result), _samples_column(result), number),
    )
    connection.execute("DELETE FROM trial WHERE result = ?", (number,))


def insert_trials(connection: sqlite3.Connection, trials: Sequence[tuple[int, Trial, int]]) -> None:
    """Trials of open groups: the number of the result's row, the trial, its operations a call."""
    connection.executemany(
        "INSERT INTO trial (result, body) VALUES (?, ?)",
        [(result, _compact([operations, trial.to_json()])) for result, trial, operations in trials],
    )


def read_samples(connection: sqlite3.Connection, result: int, column: bytes | None) -> Json:
    """A result's "samples", from its column or from the rows of its trials so far."""
    if column is not None:
        return dict(json.loads(zlib.decompress(column)))
    rows = connection.execute("SELECT body FROM trial WHERE result = ? ORDER BY number", (result,))
    read = [json.loads(body) for (body,) in rows]
    return {
        "operations_per_call": read[-1][0] if read else 1,
        "trials": [trial for _, trial in read],
    }


def _figure_columns(result: Result) -> tuple[float | None, str]:
    body = result.to_json()
    del body["samples"]
    return None if result.estimate is None else float(result.estimate.point), json.dumps(body)


def _samples_column(result: Result) -> bytes:
    return zlib.compress(_compact(result.to_json()["samples"]).encode())


def _compact(value: Json | list[Json | int]) -> str:
    return json.dumps(value, separators=(",", ":"))


def _run_columns(document: Document) -> tuple[str, str, str, str]:
    data = document.to_json()
    info = {k: v for k, v in data["run"].items() if k not in {"tags", "note"}}
    parts = (info, data["environment"], data["warnings"], data["findings"])
    one, two, three, four = (json.dumps(part) for part in parts)
    return one, two, three, four


def column(text: str) -> str:
    """Text as SQLite can hold it, which lone surrogates are not; to be searched by."""
    return text.encode("utf-8", "backslashreplace").decode()
