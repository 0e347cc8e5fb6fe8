"""A suite's pictures as data: what is to be seen, not how it looks. views/plot.py draws them.

A suite without pictures of its own has the first table's first column of figures as bars.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from xdplab.records import Estimate
from xdplab.suites.table import Cell, Column, Figure, Published, Row, Table


@dataclass(frozen=True, slots=True)
class Series:
    """A line: points of (x, figure), in order of x."""

    label: str
    points: Sequence[tuple[float, Estimate]]


@dataclass(frozen=True, slots=True)
class Mark:
    """Something between two values of x, at (x, y), in words that need no picture."""

    x: float
    y: float
    low_x: float
    high_x: float
    text: str


@dataclass(frozen=True, slots=True)
class Curves:
    """Figures over sizes, both on logarithmic scales, and what was found where (`marks`)."""

    title: str
    x: Column
    y: Column
    series: Sequence[Series]
    marks: Sequence[Mark] = field(default=())


@dataclass(frozen=True, slots=True)
class Bar:
    """One figure; without one, `note` may say why. `published` is somebody else's, in its unit.

    `resolved` False: the run cannot tell it from nothing. `digits` are those after the point.
    `begins` is where the bar starts on the scale: in a waterfall, where what it adds to ends.
    `signed` shows a plus.
    """

    label: str
    estimate: Estimate | None
    resolved: bool = True
    published: float | None = None
    note: str = ""
    digits: int = 2
    begins: float = 0.0
    signed: bool = False


@dataclass(frozen=True, slots=True)
class BarGroup:
    """Bars that belong together, below a heading ("" for none)."""

    heading: str
    bars: Sequence[Bar]


@dataclass(frozen=True, slots=True)
class Bars:
    """Figures of one unit on one scale that begins at zero."""

    title: str
    unit: str
    groups: Sequence[BarGroup]


Picture = Curves | Bars


def has_figures(table: Table) -> bool:
    """Whether `bars` finds a column of figures in it."""
    return any(_is_drawn(cell) for row in table.rows for cell in row.cells)


def bars(table: Table, heading: str | None = None, published: str | None = None) -> Bars:
    """A column of a table as bars: the one below `heading`, or the first that has figures.

    Words and numbers left of it name the bars. Where rows leave the first of several such columns
    to the row above, it groups them.
    `published` is the heading of others' figures in the same unit. ValueError where the table
    has no such column.
    """
    index = _column(table, heading)
    others = None if published is None else _column(table, published)
    naming = [place for place in range(index) if _names(table, place)]
    is_grouped = len(naming) > 1 and any(not row.cells[naming[0]] for row in table.rows)
    groups: list[tuple[str, list[Bar]]] = []
    for row in table.rows:
        names = [_name(row, table, place) for place in naming]
        grouped = names.pop(0) if is_grouped else ""
        if not groups or (grouped and grouped != groups[-1][0]):
            groups.append((grouped, []))
        groups[-1][1].append(_bar(row, ", ".join(filter(None, names)), index, others))
    title = f"{table.title}: {table.columns[index].heading}"
    return Bars(title, table.columns[index].unit, [BarGroup(*group) for group in groups])


def _column(table: Table, heading: str | None) -> int:
    for index, column in enumerate(table.columns):
        cells = [row.cells[index] for row in table.rows]
        if heading is not None:
            if column.heading == heading:
                return index
        elif any(_is_drawn(cell) for cell in cells):
            return index
    raise ValueError(f"{table.title!r} has no column {heading or 'of figures'!r}")


def _is_drawn(cell: Cell) -> bool:
    return isinstance(cell, Figure) and not cell.bare


def _names(table: Table, place: int) -> bool:
    return not any(isinstance(row.cells[place], Figure | Published) for row in table.rows)


def _name(row: Row, table: Table, place: int) -> str:
    cell = row.cells[place]
    unit = table.columns[place].unit
    return f"{cell} {unit}".strip() if isinstance(cell, int) else str(cell or "")


def _bar(row: Row, label: str, index: int, others: int | None) -> Bar:
    cell = row.cells[index]
    other = None if others is None else row.cells[others]
    known = float(other.text.strip("~*+")) if isinstance(other, Published) else None
    if not isinstance(cell, Figure):
        return Bar(label, None, published=known, note=row.note)
    return Bar(label, cell.estimate, cell.resolved, known, digits=cell.digits)
