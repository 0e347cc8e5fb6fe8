"""What was measured of anybody's own programs as a table: of a run just made, or read back.

All that it needs stands in the results, so that a stored run shows what its command showed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from xdplab.records import RESOLVED, TOO_FEW_LOADS, TWIN, Result
from xdplab.stats import estimates
from xdplab.suites.base import Results
from xdplab.suites.table import Cell, Column, Figure, Row, Table

NAME = "bench"
"""The suite's name in documents."""

EMPTY = "empty"
"""Variant name of the program that does nothing: whole programs are net of it."""

PLAIN = "plain-"
"""What the variant name of a program that only returns its action begins with, on live paths: such
as plain-tx."""

PACKET, ACTION, SHARE, OPERATIONS = "packet", "action", "share", "operations"
"""Parameters of results: which frame, what the program returned, the frame's class as a part of the
capture in percent, as text ("75"; frames of captures alone have it), and operations a run (where
they were said)."""


def are_whole(results: Sequence[Result]) -> bool:
    """Whether each has what a table needs; documents that others made may not."""
    return all(
        result.variant == TWIN
        or ({PACKET, ACTION} <= result.parameters.keys() and _is_share(result.parameters))
        for result in results
    )


def _is_share(parameters: Mapping[str, object]) -> bool:
    try:
        return 0 <= float(str(parameters.get(SHARE, "0"))) <= 100
    except ValueError:
        return False


def tables(results: Results, notes: Sequence[str]) -> list[Table]:
    """Each program by packet: its cost, its difference from the first one, and all by share."""
    shown = [result for result in results.all() if result.variant != TWIN]
    if not shown:
        return []
    programs = list(dict.fromkeys(result.variant for result in shown))
    twins = (result.baseline for result in results.all() if result.variant == TWIN)
    first = next(twins, None) or programs[0]
    packets = list(dict.fromkeys(str(result.parameters[PACKET]) for result in shown))
    is_live = any(result.metric == "gross_ns" for result in shown)
    has_shares = any(SHARE in result.parameters for result in shown)
    has_operations = any(OPERATIONS in result.parameters for result in shown)
    unit = "ns/op" if has_operations else "ns"
    columns = [Column("program"), Column("packets")]
    columns += [Column("share", "%")] * has_shares + [Column("action")]
    columns += [Column("a packet's whole way", unit)] * is_live
    columns.append(Column(f"over {'a plain program' if is_live else 'the empty program'}", unit))
    columns += [Column(f"over {first}", unit)] * (len(programs) > 1)
    rows = []
    for packet in packets:
        of_packet = [result for result in shown if result.parameters[PACKET] == packet]
        begins = True
        for program in programs:
            found = [result for result in of_packet if result.variant == program]
            if not found:
                continue
            cells: list[Cell] = [program, packet]
            cells += [str(found[0].parameters.get(SHARE, ""))] * has_shares
            cells.append(str(found[0].parameters[ACTION]))
            if is_live:
                gross = next((one for one in found if one.metric == "gross_ns"), None)
                cells.append(Figure.of(gross, digits=1) if gross else None)
            cells += _costs(found, first, len(programs) > 1)
            note = next((one.note for one in found if one.note and not one.estimate), "")
            rows.append(Row(cells, note=note, begins_section=begins))
            begins = False
    if has_shares and len(packets) > 1:
        rows += _whole(programs, first, shown, len(columns))
    title = "an operation" if has_operations else "a packet each"
    return [
        Table(f"your programs, {title}", columns, rows, [*_verdicts(shown, first, unit), *notes])
    ]


def _costs(found: Sequence[Result], first: str, has_several: bool) -> list[Cell]:
    cost = next((one for one in found if one.baseline and one.baseline != first), None)
    cells: list[Cell] = [Figure.of(cost) if cost else None]
    if has_several:
        against = next((one for one in found if one.baseline == first), None)
        cells.append(Figure.of(against, signed=True) if against else None)
    return cells


def _whole(programs: Sequence[str], first: str, shown: Sequence[Result], width: int) -> list[Row]:
    """Each program over all classes, weighed by their shares; none where a class is missing."""
    classes = {result.parameters[PACKET] for result in shown}
    rows: list[Row] = []
    for program in programs:
        whole: list[Cell] = []
        for is_first in (False, True)[: min(2, len(programs))]:
            parts = [
                estimates.scaled(one.estimate, float(one.parameters[SHARE]) / 100)
                for one in shown
                if one.variant == program
                and one.baseline is not None
                and (one.baseline == first) == is_first
                and one.estimate is not None
            ]
            if len(parts) != len(classes):
                whole.append(None)
                continue
            total = parts[0]
            for part in parts[1:]:
                total = estimates.total(total, part)
            whole.append(Figure(total, signed=is_first))
        told: list[Cell] = [program, "all, by share", "100"]
        left: list[Cell] = [None] * (width - len(told) - len(whole))
        rows.append(Row([*told, *left, *whole], begins_section=not rows))
    return rows


def _verdicts(shown: Sequence[Result], first: str, unit: str) -> list[str]:
    found = []
    for result in shown:
        if result.baseline != first or result.estimate is None:
            continue
        size = abs(result.estimate.point)
        where = f"{result.variant} on {result.parameters[PACKET]}"
        if result.verdict == RESOLVED:
            word = "slower" if result.estimate.point > 0 else "faster"
            found.append(f"{where}: {size:.2f} {unit} {word} than {first}.")
        elif result.verdict == TOO_FEW_LOADS:
            found.append(f"{where}: too few loads to say whether it differs from {first}.")
        else:
            known = "" if result.resolution is None else f" of {result.resolution:.2f} {unit}"
            found.append(f"{where}: no difference from {first} beyond the noise{known}.")
    return found
