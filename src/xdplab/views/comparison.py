"""Comparisons as tables, as text for a patch's message, as rows for programs."""

from __future__ import annotations

import math
import textwrap
from collections.abc import Sequence
from typing import Any

from xdplab.comparison import ALLOWANCE, EQUAL, NOT_JUDGED, Comparison, Difference, Side
from xdplab.environments import Unlike
from xdplab.records import PARTS, RESOLVED, TOO_FEW_LOADS, WITHIN_NOISE, Estimate, Json, Result
from xdplab.suites.table import Cell, Column, Figure, Row, Table
from xdplab.views.environment import machine_lines
from xdplab.views.exports import csv_text
from xdplab.views.format import figure_text, one_line, result_name, telling_digits, unit_of

COMMIT_COLUMNS = 72
"""How wide a patch's message may be."""

BUDGET_NS = 6.72
"""Time between packets of 64 bytes at 100 Gbit/s: (64 + 20) bytes on the wire, 148.8 Mpps."""

_MOST_NAMED = 5

_MARKS = {
    WITHIN_NOISE: "within noise",
    NOT_JUDGED: "not judged",
    EQUAL: "equal",
    TOO_FEW_LOADS: "too few loads",
}
"""What stands for a change that is none, or is not known to be one, in a patch's message."""

_REFUSED = (
    "No verdicts: figures depend on what differs here, so that a difference need not come from "
    "what was changed. --across judges all the same."
)


def comparison_tables(comparison: Comparison, rate_mpps: float) -> list[Table]:
    """What the environments differ in, then one table a suite on an engine and method, with what
    must be known of both sides below the last.

    `rate_mpps` is the packet rate that the column on a CPU's share is for.
    """
    groups: dict[tuple[str, str, str], list[Difference]] = {}
    for row in comparison.rows:
        result = row.result
        groups.setdefault((result.suite, result.engine, result.method), []).append(row)
    before, after = comparison.before.name, comparison.after.name
    headings = ("what", before, after, "change", "change, %", "verdict")
    share = f"CPU at {rate_mpps:g} Mpps"
    tables = []
    for (suite, engine, method), rows in groups.items():
        timed = any(_means_time(comparison, row) for row in rows)
        columns = [Column(heading) for heading in headings]
        columns += [Column(share, "%"), Column("of 100G's budget", "%")] if timed else []
        tables.append(
            Table(
                f"{suite}, {engine} engine, {method} method: {after} against {before}",
                columns,
                [_row(comparison, row, rate_mpps, timed) for row in rows],
            )
        )
    notes = _notes(comparison)
    if not tables:
        title = f"{after} against {before}: nothing that differs in what both measured"
        tables = [Table(title, [Column("")], [])]
    last = tables[-1]
    tables[-1] = Table(last.title, last.columns, last.rows, notes)
    sides = (comparison.before, comparison.after)
    return [*unlike_tables(sides, comparison.unlike, comparison.is_judged), *tables]


def unlike_tables(sides: Sequence[Side], unlike: Sequence[Unlike], are_judged: bool) -> list[Table]:
    """What environments differ in, a row each; none where they are alike."""
    if not unlike:
        return []
    notes = [] if are_judged else [_REFUSED]
    if any(not one.decides for one in unlike):
        notes.append("*: moves no figure by itself, and decides nothing.")
    return [
        Table(
            "the environments differ",
            [Column(""), *(Column(side.name) for side in sides)],
            [
                Row([one.name + " *" * (not one.decides), *(" | ".join(v) for v in one.values)])
                for one in unlike
            ],
            notes,
        )
    ]


def columns_table(
    sides: Sequence[Side], rows: Sequence[tuple[Result, list[Estimate | None]]], unit: str
) -> Table:
    """A row a figure, a column a side; each side's machine stands below."""
    notes = [
        f"{side.name}: {line}"
        for side in sides
        if "cpu" in side.documents[0].environment
        for line in machine_lines(side.documents[0].environment)
    ]
    return Table(
        "figures side by side",
        [Column("what"), Column("unit"), *(Column(side.name) for side in sides)],
        [
            Row(
                [
                    result_name(result),
                    unit or unit_of(result.metric),
                    *(None if e is None else Figure(e, telling_digits(e.point)) for e in figures),
                ]
            )
            for result, figures in rows
        ],
        notes,
    )


def commit_text(comparison: Comparison) -> str:
    """Plain text of 72 columns at most, for a patch's message; ends with a line feed."""
    lines: list[str] = []
    for one in comparison.unlike:
        lines += _wrapped(f"{one.name}: {' -> '.join('/'.join(v) for v in one.values)}")
    if not comparison.is_judged:
        lines += ["", *_wrapped(_REFUSED)]
    group = None
    for row in comparison.rows:
        if row.result.metric in PARTS:
            # Lines and functions are for who edits the source, not for who reads its history.
            continue
        result = row.result
        title = f"{result.suite} ({result.engine}, {result.method}), {_unit(comparison, row)}:"
        if title != group:
            group = title
            lines += ["", *_wrapped(title)]
            lines.append(f"  {'':<32}{'before':>10}{'after':>10}{'change':>17}")
        lines += _commit_lines(row)
    environment = comparison.after.documents[-1].environment
    # Counts know a compiler at most: they are the same on every machine.
    told = machine_lines(environment) if "cpu" in environment else []
    for note in (*told, *_notes(comparison)):
        lines += ["", *_wrapped(note)]
    return "\n".join(lines).strip("\n") + "\n"


def comparison_json(comparison: Comparison) -> Json:
    """The comparison as plain values. Intervals without an end are null."""
    return {
        "before": _side_json(comparison.before),
        "after": _side_json(comparison.after),
        "judged": comparison.is_judged,
        "unlike": [
            {
                "name": one.name,
                "before": list(one.values[0]),
                "after": list(one.values[1]),
                "decides": one.decides,
            }
            for one in comparison.unlike
        ],
        "rows": [_row_json(comparison, row) for row in comparison.rows],
        "only_before": [result_name(result) for result in comparison.only[0]],
        "only_after": [result_name(result) for result in comparison.only[1]],
        "notes": list(comparison.notes),
    }


def comparison_csv(comparison: Comparison) -> str:
    """A row a figure of both sides, headed."""
    rows = [_row_json(comparison, row) for row in comparison.rows]
    ends = ("before", "after", "change", "percent")
    headings = ["what", "unit"]
    headings += [f"{name}{end}" for name in ends for end in ("", "_low", "_high")]
    return csv_text(
        [*headings, "resolution", "chance", "verdict"],
        [
            [
                row["what"],
                row["unit"],
                *((row[name] or {}).get(end) for name in ends for end in ("point", "low", "high")),
                row["resolution"],
                row["chance"],
                row["verdict"],
            ]
            for row in rows
        ],
    )


def _row(comparison: Comparison, row: Difference, rate_mpps: float, timed: bool) -> Row:
    digits = row_digits(row)
    cells: list[Cell] = [
        _what(row.result),
        Figure(row.before, digits, bare=row.is_exact),
        Figure(row.after, digits, bare=row.is_exact),
        Figure(row.change, digits, signed=True, bare=row.is_exact),
        None if row.percent is None else Figure(row.percent, 1, signed=True, bare=True),
        _verdict(row),
    ]
    if timed:
        means = _means_time(comparison, row) and row.verdict == RESOLVED
        # d ns a packet at r million a second are d * r / 1000 of a CPU's time.
        cells += [
            f"{row.change.point * rate_mpps / 10:+.1f}" if means else None,
            f"{100 * row.change.point / BUDGET_NS:+.1f}" if means else None,
        ]
    return Row(cells)


def _verdict(row: Difference) -> str:
    if row.verdict != RESOLVED:
        return f"{row.verdict} ({row.note})" if row.note else row.verdict
    if not row.change.point:
        # Equal medians: it is the packets with the fewest or the most that moved.
        return f"{RESOLVED}, in its extremes"
    return f"{RESOLVED}, {'worse' if row.is_worse else 'better'}"


def _means_time(comparison: Comparison, row: Difference) -> bool:
    return _unit(comparison, row) == "ns"


def _unit(comparison: Comparison, row: Difference) -> str:
    unit = unit_of(row.result.metric)
    return comparison.unit or unit if unit == "ns" else unit


def _what(result: Result) -> str:
    words = [result.variant]
    words += [f"over {result.baseline}"] if result.baseline is not None else []
    words += [f"{name}={value}" for name, value in result.parameters.items()]
    words += [] if result.metric in {"cost_ns", "gross_ns", "insns"} else [result.metric]
    return one_line(" ".join(words))


def row_digits(row: Difference) -> int:
    """Digits after the point with which both sides are told."""
    if row.is_exact:
        # Medians of counts: whole, or halves.
        return 0 if all(e.point.is_integer() for e in (row.before, row.after)) else 1
    return telling_digits(max(abs(row.before.point), abs(row.after.point)))


def _commit_lines(row: Difference) -> list[str]:
    digits = row_digits(row)
    name = _short(row.result)
    head = [name] if len(name) <= 31 else textwrap.wrap(name, COMMIT_COLUMNS - 2)
    change = figure_text(Figure(row.change, digits, signed=True, bare=True)).point
    percent = "" if row.percent is None else f" ({row.percent.point:+.1f} %)"
    mark = _MARKS.get(row.verdict)
    text = mark or f"{change}{percent}"
    sides = [f"{one.point:.{digits}f}" for one in (row.before, row.after)]
    figures = f"{sides[0]:>10}{sides[1]:>10}{text:>17}"
    if len(head) == 1:
        # A long change takes from the name's column before it breaks the line.
        line = f"  {head[0]:<32}{figures}"
        if len(line) <= COMMIT_COLUMNS:
            return [line]
    lines = [f"  {part}" for part in head]
    # What does not fit a line is broken between figures, and never within one that is as long as
    # any that was measured.
    if len(figures) <= COMMIT_COLUMNS:
        return [*lines, f"{figures:>{COMMIT_COLUMNS - 1}}"]
    told = f"{sides[0]} -> {sides[1]}: {text}"
    return [*lines, *(f"    {part}" for part in textwrap.wrap(told, COMMIT_COLUMNS - 4))]


def _short(result: Result) -> str:
    parameters = " ".join(
        str(value) if isinstance(value, str) else f"{name.removesuffix('_bytes')}={value}"
        for name, value in result.parameters.items()
        if name != "object"
    )
    over = f" -{result.baseline}" if result.baseline is not None else ""
    return one_line(f"{result.variant}{over} {parameters}".strip())


def _wrapped(text: str) -> list[str]:
    return textwrap.wrap(text, COMMIT_COLUMNS, break_on_hyphens=False)


def _notes(comparison: Comparison) -> list[str]:
    notes = list(comparison.notes)
    judged = [row for row in comparison.rows if not row.is_exact and row.verdict != TOO_FEW_LOADS]
    if any(_means_time(comparison, row) for row in comparison.rows):
        notes.append(
            f"At 100 Gbit/s there are {BUDGET_NS} ns from one packet of 64 bytes to the next."
        )
    if judged and comparison.is_judged:
        notes.append(
            f"Intervals are each row's own at 95 %; verdicts take all {len(judged)} rows together "
            "(Holm), and a change must exceed what the runs could tell apart."
        )
    if judged and 1 in {len(side.documents) for side in (comparison.before, comparison.after)}:
        notes.append(
            f"One run does not show what moves from run to run: {100 * ALLOWANCE:g} % of a figure "
            "is allowed for it, or what the other side's runs show. Several runs a side measure it."
        )
    for side, lone in zip((comparison.before, comparison.after), comparison.only, strict=True):
        results = [result for result in lone if result.metric not in PARTS]
        if results:
            named = "; ".join(result_name(result) for result in results[:_MOST_NAMED])
            more = f" and {len(results) - _MOST_NAMED} more" * (len(results) > _MOST_NAMED)
            notes.append(f"In {side.name} alone: {named}{more}.")
    return notes


def _side_json(side: Side) -> Json:
    return {"name": side.name, "runs": [document.run.id for document in side.documents]}


def _row_json(comparison: Comparison, row: Difference) -> dict[str, Any]:
    return {
        "what": result_name(row.result),
        "unit": _unit(comparison, row),
        "before": _estimate_json(row.before),
        "after": _estimate_json(row.after),
        "change": _estimate_json(row.change),
        "percent": None if row.percent is None else _estimate_json(row.percent),
        "resolution": row.resolution,
        "chance": row.chance,
        "verdict": row.verdict,
        "note": row.note,
        "worse": row.is_worse,
    }


def _estimate_json(estimate: Estimate) -> dict[str, float | None]:
    ends = {"point": estimate.point, "low": estimate.low, "high": estimate.high}
    return {name: value if math.isfinite(value) else None for name, value in ends.items()}
