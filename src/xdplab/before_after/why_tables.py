"""Where a patch's instructions are, and where one kernel's are: by function."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from xdplab.before_after.why import FUNCTION
from xdplab.records import FUNCTION_INSNS, Estimate, Result
from xdplab.suites.picture import Bar, BarGroup, Bars
from xdplab.suites.table import Cell, Column, Figure, Row, Table

Program = tuple[str, tuple[tuple[str, int | str], ...]]
"""A variant and its parameters but the function: one row of the tables of whole figures."""

_LEAST = 0.5
"""Instructions: a function that moved by less is among the others, of rounding and of ticks."""

_MOST = 8
"""Functions of a program that are named."""

_OTHERS = "all others"

_READ = (
    "From a boot of its own under QEMU's plugin: how often each instruction ran, by function. "
    "[BPF program] is what the JIT made."
)


def functions_of(
    results: Sequence[Result], suite: str, method: str
) -> dict[Program, dict[str, float]]:
    """Program -> function -> instructions, of one suite and method."""
    found: dict[Program, dict[str, float]] = {}
    for result in results:
        if (result.metric, result.suite, result.method) != (FUNCTION_INSNS, suite, method):
            continue
        if result.estimate is None or FUNCTION not in result.parameters:
            continue
        parameters = sorted((n, v) for n, v in result.parameters.items() if n != FUNCTION)
        of_program = found.setdefault((result.variant, tuple(parameters)), {})
        of_program[str(result.parameters[FUNCTION])] = result.estimate.point
    return found


def why_table(
    title: str,
    labels: Mapping[Program, str],
    before: Mapping[Program, Mapping[str, float]],
    after: Mapping[Program, Mapping[str, float]] | None,
    moved: Mapping[Program, float],
) -> Table | None:
    """The functions of each program of one suite and method, None where there is nothing to tell.

    `moved` are the differences of whole figures, beside which the functions' sums are held.
    """
    if after is None:
        return _of_one(title, labels, before)
    rows: list[Row] = []
    notes = [_READ]
    for program, label in labels.items():
        changes = _changes(before.get(program), after.get(program))
        named, others = _split(changes)
        if not named:
            continue
        begins = True
        for name in named:
            cells = (before[program].get(name, 0.0), after[program].get(name, 0.0))
            rows.append(_row(label if begins else "", name, *cells, begins))
            begins = False
        if abs(others) >= _LEAST:
            rows.append(_row("", _OTHERS, None, None, False, others))
        total = sum(changes.values())
        if program in moved and abs(total - moved[program]) > max(1.0, 0.02 * abs(total)):
            notes.append(
                f"{label}: its functions add up to {total:+.1f}, its figure moved by "
                f"{moved[program]:+.1f}."
            )
    if not rows:
        return None
    columns = (
        *(Column("program"), Column("function")),
        *(Column(head, "insns") for head in ("A", "B", "difference")),
    )
    return Table(f"{title}: which functions pay (+) and which save (-)", columns, rows, notes)


def why_picture(
    title: str,
    labels: Mapping[Program, str],
    before: Mapping[Program, Mapping[str, float]],
    after: Mapping[Program, Mapping[str, float]] | None,
) -> Bars | None:
    """The same as bars: a group a program, a bar a function."""
    groups = []
    for program, label in labels.items():
        if after is None:
            values: Mapping[str, float] = before.get(program, {})
        else:
            values = _changes(before.get(program), after.get(program))
        named, _ = _split(values)
        bars = [
            Bar(name, _exact(values[name]), digits=1, signed=after is not None) for name in named
        ]
        if bars:
            groups.append(BarGroup(label, bars))
    return Bars(title, "insns", groups) if groups else None


def _of_one(
    title: str, labels: Mapping[Program, str], before: Mapping[Program, Mapping[str, float]]
) -> Table | None:
    rows = []
    for program, label in labels.items():
        of_program = before.get(program, {})
        named, others = _split(of_program)
        total = sum(of_program.values())
        for place, name in enumerate(named):
            rows.append(
                _share(label if place == 0 else "", name, of_program[name], total, not place)
            )
        if named and abs(others) >= _LEAST:
            rows.append(_share("", _OTHERS, others, total, False))
    columns = (
        Column("program"),
        Column("function"),
        Column("in it", "insns"),
        Column("share", "%"),
    )
    return Table(f"{title}: where its instructions are", columns, rows, [_READ]) if rows else None


def _changes(
    before: Mapping[str, float] | None, after: Mapping[str, float] | None
) -> dict[str, float]:
    if before is None or after is None:
        return {}
    names = dict.fromkeys((*before, *after))
    return {name: after.get(name, 0.0) - before.get(name, 0.0) for name in names}


def _split(values: Mapping[str, float]) -> tuple[list[str], float]:
    """The functions that count most, largest first, and the sum of all others."""
    ranked = sorted(values, key=lambda name: (-abs(values[name]), name))
    named = [name for name in ranked[:_MOST] if abs(values[name]) >= _LEAST]
    return named, sum(values[name] for name in ranked if name not in named)


def _exact(value: float) -> Estimate:
    return Estimate(value, value, value, 1.0, 1)


def _figure(value: float, *, signed: bool = False) -> Figure:
    return Figure(_exact(value), 1, signed=signed, bare=True)


def _row(
    label: str,
    name: str,
    one: float | None,
    other: float | None,
    begins: bool,
    change: float | None = None,
) -> Row:
    moved = change if one is None or other is None else other - one
    cells: Iterator[Cell] = (
        value if value is None or isinstance(value, str) else _figure(value)
        for value in (label, name, one, other)
    )
    return Row(
        [*cells, None if moved is None else _figure(moved, signed=True)], begins_section=begins
    )


def _share(label: str, name: str, value: float, total: float, begins: bool) -> Row:
    part = f"{100 * value / total:.1f}" if total > 0 else ""
    return Row([label, name, _figure(value), part], begins_section=begins)
