"""Stored runs as tables: the list of them, and one as it was shown when it was measured."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import groupby
from typing import Any

from xdplab.records import Document, Result, RunInfo
from xdplab.store.store import Summary
from xdplab.suites.picture import Picture
from xdplab.suites.table import Column, Figure, Row, Table
from xdplab.views.format import duration, one_line, unit_of

_LIST_COLUMNS = (
    *("run", "started (UTC)", "took", "suites", "engines", "figures", "tags", "kernel", "note"),
)


def list_table(summaries: Sequence[Summary], where: str, total: int) -> Table:
    """Stored runs, a row each; `where` names the store, `total` is how many it holds."""
    notes = []
    if len(summaries) < total:
        notes.append(f"The last {len(summaries)} of {total} runs; --limit 0 lists all.")
    if any(not summary.run.complete for summary in summaries):
        notes.append("*: not run to its end; what was measured until then is kept.")
    return Table(
        f"runs in {where}",
        [Column(heading) for heading in _LIST_COLUMNS],
        [Row(_list_cells(summary)) for summary in summaries],
        notes,
    )


def _list_cells(summary: Summary) -> list[str | int]:
    run = summary.run
    return [
        run.id,
        f"{run.started_at[:16].replace('T', ' ')}{'' if run.complete else ' *'}",
        duration(run.duration_s),
        ", ".join(summary.suites),
        ", ".join(summary.engines),
        summary.figures,
        ", ".join(run.tags),
        _kernel(summary),
        run.note,
    ]


def _kernel(summary: Summary) -> str:
    kernel = summary.environment.get("kernel")
    return str(kernel.get("release") or "") if isinstance(kernel, dict) else ""


def list_rows(summaries: Sequence[Summary]) -> list[dict[str, Any]]:
    """The same for programs: plain values by name."""
    return [
        {
            **summary.run.to_json(),
            "suites": list(summary.suites),
            "engines": list(summary.engines),
            "figures": summary.figures,
            "environment": summary.environment,
        }
        for summary in summaries
    ]


def heading(run: RunInfo) -> str:
    """A run's id, its tags and its note on one line."""
    tags = f" ({', '.join(run.tags)})" if run.tags else ""
    return one_line(f"run {run.id}{tags}{f': {run.note}' if run.note else ''}")


@dataclass(frozen=True, slots=True)
class Part:
    """What a document has of one suite on one engine, `chosen` of its data path.

    The engine is "" for what is the same on any. `pictures` are the suite's own, in its words.
    """

    name: str
    engine: str
    chosen: Mapping[str, str]
    results: Sequence[Result]
    tables: Sequence[Table]
    pictures: Callable[[], Sequence[Picture]]


def document_parts(document: Document) -> Iterator[Part]:
    """A document by suites and engines, with tables as when it was measured.

    What is of no suite that this xdplab has is listed plainly.
    """
    # Here, since the list of runs should not wait for every suite and engine.
    from xdplab.before_after.tables import tables as guest_tables
    from xdplab.counting import tables_of
    from xdplab.suites import own_tables
    from xdplab.suites.base import CHOSEN_PREFIX, Results, find_suites, first_column

    suites = find_suites()
    of_suite = groupby(document.results, key=lambda result: (result.suite, result.engine))
    for (name, engine), grouped in of_suite:
        results = list(grouped)
        notes = [f.text for f in document.findings if (f.suite, f.engine) == (name, engine)]
        chosen = {
            parameter.removeprefix(CHOSEN_PREFIX): str(value)
            for parameter, value in results[0].parameters.items()
            if parameter.startswith(CHOSEN_PREFIX)
        }
        drawn: Callable[[Results, Sequence[Table]], Sequence[Picture]] = first_column
        where = engine
        if engine == "guest":
            tables: Sequence[Table] = guest_tables(replace(document, results=tuple(results)))
        elif name in suites:
            tables = suites[name].tables(Results(results), notes)
            drawn = suites[name].pictures
        elif name == own_tables.NAME and own_tables.are_whole(results):
            tables = own_tables.tables(Results(results), notes)
        elif any(result.metric == "insns" for result in results):
            where = ""
            tables = tables_of(results, [warning.message for warning in document.warnings])
        else:
            tables = [_plain_table(name, results, notes)]
        pictures = partial(drawn, Results(results), tables)
        yield Part(name, where, chosen if where else {}, results, tables, pictures)


def document_tables(
    document: Document,
) -> Iterator[tuple[str, Mapping[str, str], Sequence[Table]]]:
    """Engine, its choices and tables of each part of a document."""
    for part in document_parts(document):
        yield part.engine, part.chosen, part.tables


def _plain_table(name: str, results: Sequence[Result], notes: Sequence[str]) -> Table:
    columns = [Column(text) for text in ("variant", "over", "with", "method", "figure", "unit")]
    return Table(name, columns, [_plain_row(result) for result in results], notes)


def _plain_row(result: Result) -> Row:
    parameters = ", ".join(f"{name} {value}" for name, value in result.parameters.items())
    size = abs(result.estimate.point) if result.estimate else 0.0
    # Four digits that say something, whether of nanoseconds or of packets a second.
    digits = max(0, min(4, 3 - math.floor(math.log10(size)))) if size > 0 else 2
    figure = Figure.of(result, digits=digits, signed=result.baseline is not None)
    counted = result.estimate if result.method == "counted" else None
    cells = (
        result.variant,
        result.baseline or "",
        parameters,
        result.method,
        int(counted.point) if counted and counted.point.is_integer() else figure,
        unit_of(result.metric),
    )
    return Row(cells, note="" if figure else result.note)
