"""The table of a patch: each row before and after, the difference, and what others published."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

from xdplab.before_after.results import is_told, is_whole_run, moved
from xdplab.before_after.why_tables import functions_of, why_picture, why_table
from xdplab.engines.base import Method
from xdplab.records import PARTS, TWIN, Document, Estimate, Result, Warning
from xdplab.suites.base import find_suites
from xdplab.suites.picture import Bars
from xdplab.suites.table import Cell, Column, Figure, Row, Table

_Name = tuple[str, tuple[tuple[str, int | str], ...]]
"""A variant and its parameters: what is the same row in both kernels."""

_METHODS = {
    Method.PACKET.value: "whole runs",
    Method.OPERATION.value: "per operation, net of the loop without it",
}


def tables(before: Document, after: Document | None = None) -> list[Table]:
    """A table a suite and method. Without `after` it is of one kernel alone."""
    found = []
    others = after.results if after else ()
    for suite in dict.fromkeys(result.suite for result in before.results):
        for method in _METHODS:
            rows = _rows_of(before.results, suite, method)
            by_name = {_name(result): result for result in _rows_of(others, suite, method)}
            if rows:
                notes = (*_reading(rows), *_told(suite, before, after))
                found.append(_table(suite, method, rows, by_name, notes))
    return [*found, *_why(before, after)]


def pictures(before: Document, after: Document | None, suite: str) -> list[Bars]:
    """Which functions pay and which save, as bars; none where the kernels were not profiled."""
    found = []
    for method, words in _METHODS.items():
        labels = _labels(before.results, suite, method)
        title = f"{suite}, {words}: by function{', B less A' if after else ''}"
        one = functions_of(before.results, suite, method)
        other = functions_of(after.results, suite, method) if after else None
        if one and (picture := why_picture(title, labels, one, other)):
            found.append(picture)
    return found


def _why(before: Document, after: Document | None) -> Iterator[Table]:
    for suite in dict.fromkeys(result.suite for result in before.results):
        for method, words in _METHODS.items():
            one = functions_of(before.results, suite, method)
            other = functions_of(after.results, suite, method) if after else None
            if not one or (other is None and method != Method.PACKET.value):
                continue
            moves = {}
            if after is not None:
                others = {_name(row): row for row in _rows_of(after.results, suite, method)}
                for row in _rows_of(before.results, suite, method):
                    there = others.get(_name(row))
                    difference = moved(row, there) if there else None
                    if difference is not None:
                        moves[_name(row)] = difference.point
            title = f"{suite}, {words}"
            table = why_table(title, _labels(before.results, suite, method), one, other, moves)
            if table is not None:
                yield table


def _labels(results: Sequence[Result], suite: str, method: str) -> dict[_Name, str]:
    return {_name(row): _label(row) for row in _rows_of(results, suite, method)}


def _told(suite: str, before: Document, after: Document | None) -> Iterator[str]:
    """What the suite found out about the kernels; once where it is the same of both."""
    of_both = [[f.text for f in one.findings if f.suite == suite] for one in (before, after) if one]
    for text in of_both[0]:
        yield text if all(text in of_one for of_one in of_both) else f"A: {text}"
    for text in of_both[1] if len(of_both) > 1 else ():
        if text not in of_both[0]:
            yield f"B: {text}"


def controls_moved(before: Sequence[Result], after: Sequence[Result]) -> Iterator[Warning]:
    """Controls that a patch of something else cannot move, and that differ all the same."""
    for suite in dict.fromkeys(result.suite for result in before):
        for method in _METHODS:
            controls = _controls(before, suite, method)
            others = {_name(result): result for result in _controls(after, suite, method)}
            for one in controls:
                other = others.get(_name(one))
                if other is not None and is_told(one, other):
                    yield Warning(
                        "control-moved",
                        f"{suite}: {one.variant}, which does nothing, differs between the kernels: "
                        "they differ in more than what is measured here",
                        "build both of one tree with one configuration and one compiler",
                    )


def _of(results: Sequence[Result], suite: str, method: str) -> list[Result]:
    return [
        result
        for result in results
        if result.suite == suite
        and result.method == method
        and result.variant != TWIN
        # What figures are made of has tables of its own.
        and result.metric not in PARTS
    ]


def _control_names(results: Sequence[Result], suite: str, method: str) -> set[str]:
    counted = Counter(
        r.baseline for r in results if r.suite == suite and r.method == method and r.baseline
    )
    return {name for name, _ in counted.most_common(1)}


def _controls(results: Sequence[Result], suite: str, method: str) -> list[Result]:
    names = _control_names(results, suite, method)
    return [
        result
        for result in _of(results, suite, method)
        if result.baseline is None and result.variant in names
    ]


def _rows_of(results: Sequence[Result], suite: str, method: str) -> list[Result]:
    """The controls, then a row for each variant and its parameters."""
    controls = _controls(results, suite, method)
    seen = {_name(result) for result in controls}
    rows = list(controls)
    for result in _of(results, suite, method):
        # Of a loop's operation its whole run says little; of a packet's program it is the figure.
        if (result.baseline is None) != (method == Method.PACKET.value) or _name(result) in seen:
            continue
        seen.add(_name(result))
        rows.append(result)
    return rows


def _name(result: Result) -> _Name:
    return result.variant, tuple(sorted(result.parameters.items()))


def _table(
    suite: str,
    method: str,
    rows: Sequence[Result],
    others: Mapping[_Name, Result],
    notes: Sequence[str],
) -> Table:
    counts = rows[0].metric == "insns"
    unit = "insns" if counts else "ns"
    is_pair = bool(others)
    heads = ["A", "B"] if is_pair else ["per run" if method == Method.PACKET.value else "cost"]
    columns = [Column("program"), *(Column(head, unit) for head in heads)]
    if is_pair:
        columns += [Column("difference", unit), Column("change", "%")]
    published = find_suites()[suite].published if suite in find_suites() else None
    cited = [published(row) if published else None for row in rows]
    if any(cited):
        columns.append(Column("published"))
    controls = _control_names(rows, suite, method) or {rows[0].variant}
    made = []
    for row, cite in zip(rows, cited, strict=True):
        other = others.get(_name(row))
        is_control = row.baseline is None and row.variant in controls
        cells: list[Cell] = [f"{_label(row)}{' (control)' if is_control else ''}"]
        cells += _figures(row, other if is_pair else None, is_pair)
        if any(cited):
            cells.append(cite)
        why = [row.note if not row.estimate else "", _after_note(other)]
        made.append(Row(cells, note="; ".join(dict.fromkeys(filter(None, why)))))
    what = "instructions" if counts else "nanoseconds"
    return Table(f"{suite}, {_METHODS[method]}: {what}", columns, made, tuple(notes))


def _after_note(other: Result | None) -> str:
    return other.note if other is not None and other.estimate is None else ""


def _figures(row: Result, other: Result | None, is_pair: bool) -> Iterator[Cell]:
    bare = row.metric == "insns"
    digits = 0 if is_whole_run(row) and bare else 1 if is_whole_run(row) else 2
    yield Figure(row.estimate, digits, bare=bare) if row.estimate else None
    if not is_pair:
        return
    yield Figure(other.estimate, digits, bare=bare) if other and other.estimate else None
    difference = moved(row, other) if other else None
    if other is None or difference is None or row.estimate is None:
        yield from (None, None)
        return
    told = is_told(row, other)
    if bare and not told:
        # Within rounding two counts are equal; a sign would make something of nothing.
        yield from ("equal", None)
        return
    yield Figure(difference, digits, signed=True, resolved=told, bare=bare)
    yield _percent(difference, row.estimate) if told else None


def _percent(difference: Estimate, before: Estimate) -> Figure | None:
    if before.point <= 0:
        return None
    part = 100 * difference.point / before.point
    return Figure(Estimate(part, part, part, 1.0, difference.n), 1, signed=True, bare=True)


def _label(result: Result) -> str:
    units = {"size_bytes": "{} B", "frame_bytes": "{} B", "linear_bytes": "linear {} B"}
    words = [units.get(name, "{}").format(value) for name, value in result.parameters.items()]
    return ", ".join([result.variant, *words])


def _reading(rows: Sequence[Result]) -> Iterator[str]:
    if rows[0].metric == "insns":
        boots = max((row.estimate.n for row in rows if row.estimate), default=0)
        exact = "Exact: every boot said the same." if boots > 1 else "Of one boot alone."
        yield (
            "Instructions, not time: caches, branches that are mispredicted and how many "
            "instructions a cycle takes are not in them, and a `rep` counts each turn. "
            f"{exact} Differences within {rows[0].resolution or 1:g} are equal."
        )
    else:
        yield "Nanoseconds by the guest's own clock under KVM; an interval over boots."
