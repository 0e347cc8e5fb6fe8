"""What earlier runs of a store said of a document's results."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import dataclass

from xdplab.environments import unlike
from xdplab.records import Document, Estimate, RunInfo
from xdplab.store.rows import column, series
from xdplab.store.schema import sound, worded
from xdplab.store.store import Store


@dataclass(frozen=True, slots=True)
class Past:
    """One run's figure: `started_at` in ISO 8601, `is_like` False if its environment differs."""

    run_id: str
    started_at: str
    estimate: Estimate
    is_like: bool


def history(store: Store, document: Document, runs: int) -> list[Sequence[Past]]:
    """For each result of the document its figures in at most `runs` stored runs, oldest first.

    The document's own run is the last of them, and nothing later is looked at; where the store
    does not have it all are empty. StoreError where the file is not as it should be.
    """
    with worded(store.path), sound(store.path):
        row = store.connection.execute(
            "SELECT number FROM run WHERE id = ?", (column(document.run.id),)
        ).fetchone()
        if row is None:
            return [()] * len(document.results)
        found = [
            store.connection.execute(
                "SELECT run, body FROM result WHERE series = ? AND run <= ? AND point IS NOT NULL "
                "ORDER BY run DESC LIMIT ?",
                (series(result), row[0], runs),
            ).fetchall()
            for result in document.results
        ]
        seen = {number for rows in found for number, _ in rows}
        told = {number: _told(store, number, document) for number in seen}
        return [
            [
                Past(*told[number][:2], estimate, told[number][2])
                for number, body in reversed(rows)
                if (estimate := _estimate(body)) is not None
            ]
            for rows in found
        ]


def _told(store: Store, number: int, document: Document) -> tuple[str, str, bool]:
    name, info, environment = store.connection.execute(
        "SELECT id, info, environment FROM run WHERE number = ?", (number,)
    ).fetchone()
    fields = json.loads(info)
    run = RunInfo(name, fields["started_at"], 0.0, (), fields["xdplab_version"])
    there = Document(run, json.loads(environment), ())
    return name, run.started_at, not any(one.decides for one in unlike([[document], [there]]))


def _estimate(body: str) -> Estimate | None:
    item = json.loads(body)
    point, low, high = (item.get(name) for name in ("point", "low", "high"))
    if point is None:
        return None
    return Estimate(
        point,
        -math.inf if low is None else low,
        math.inf if high is None else high,
        item["level"],
        item["n"],
    )
