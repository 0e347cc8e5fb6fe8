"""Numbers become text here, and only here.

A printed interval contains the true one: its ends are rounded outwards, the point to the
nearest. So the printed point never lies outside the printed interval.
"""

from __future__ import annotations

import decimal
import math
from dataclasses import dataclass

from xdplab.records import WITHIN_NOISE, Result
from xdplab.suites.table import Cell, Column, Figure, Published, Table

TOO_FEW = "[too few loads]"
"""Stands for an interval that no method could give."""

# Wide enough for every float with any digits that a table may ask for.
_EXACT = decimal.Context(prec=700)
_MORE_DIGITS = 4


@dataclass(frozen=True, slots=True)
class FigureText:
    """A figure's parts, so that a view may stack them; `mark` is "" unless it is noise."""

    point: str
    interval: str
    mark: str = ""

    def __str__(self) -> str:
        return " ".join(part for part in (self.point, self.interval, self.mark) if part)


def figure_text(figure: Figure) -> FigureText:
    """Such as 3.23 [3.21, 3.26], or +0.01 [-0.02, +0.04] within noise."""
    estimate, digits = figure.estimate, figure.digits
    known = math.isfinite(estimate.low) and math.isfinite(estimate.high)
    if figure.resolved and known and estimate.point:
        # What was told from nothing must not be printed as nothing.
        while digits < figure.digits + _MORE_DIGITS and not _rounded(estimate.point, digits):
            digits += 1
    sign = "+" if figure.signed else ""

    def text(value: float, rounding: str) -> str:
        rounded = _rounded(value, digits, rounding)
        # A zero has no sign of its own: -0.0 would only puzzle.
        return f"{rounded or abs(rounded):{sign}f}"

    interval = "" if figure.bare else TOO_FEW
    if known and not figure.bare:
        low = text(estimate.low, decimal.ROUND_FLOOR)
        high = text(estimate.high, decimal.ROUND_CEILING)
        interval = f"[{low}, {high}]"
    point = text(estimate.point, decimal.ROUND_HALF_EVEN)
    # Without an interval it was not judged; saying so once is enough.
    return FigureText(point, interval, WITHIN_NOISE if known and not figure.resolved else "")


def _rounded(value: float, digits: int, rounding: str = decimal.ROUND_HALF_EVEN) -> decimal.Decimal:
    # repr is the shortest text that means this float: 3.21 stays 3.21 when rounded down.
    # Adding zero turns -0.0 into 0.0.
    exact = decimal.Decimal(repr(float(value) + 0.0))
    return exact.quantize(decimal.Decimal(1).scaleb(-digits), rounding, _EXACT)


def cell_text(cell: Cell) -> str:
    """A cell on one line; "" for None. Control characters become question marks."""
    if isinstance(cell, Figure):
        return str(figure_text(cell))
    text = cell.text if isinstance(cell, Published) else "" if cell is None else str(cell)
    return one_line(text)


def one_line(text: str) -> str:
    """`text` without line breaks and without characters that could steer a terminal."""
    spaced = text.replace("\n", " ").replace("\t", " ")
    return "".join(char if char.isprintable() else "?" for char in spaced)


def unit_of(metric: str) -> str:
    """A metric's unit, in which its name ends: ns of cost_ns."""
    return metric.rpartition("_")[2]


def result_name(result: Result) -> str:
    """All that tells a result from others of its run, such as
    `adjust-head kernel operation: helper over empty size_bytes=6`."""
    words = [f"{result.suite} {result.engine} {result.method}: {result.variant}"]
    words += [f"over {result.baseline}"] if result.baseline is not None else []
    words += [f"{name}={value}" for name, value in result.parameters.items()]
    # That it is a cost or a gross figure is told by what it is over.
    words += [result.metric] if result.metric not in {"cost_ns", "gross_ns"} else []
    return one_line(" ".join(words))


def published_columns(table: Table) -> frozenset[int]:
    """Columns whose every figure is somebody else's."""
    found = set()
    for index in range(len(table.columns)):
        cells = [row.cells[index] for row in table.rows]
        kinds = {type(cell) for cell in cells if cell is not None}
        if kinds == {Published}:
            found.add(index)
    return frozenset(found)


def numeric_columns(table: Table) -> list[bool]:
    """For each column, whether it holds figures: those are aligned to the right."""
    return [
        any(isinstance(row.cells[index], Figure | Published | int) for row in table.rows)
        for index in range(len(table.columns))
    ]


def heading_text(column: Column, published: bool) -> str:
    """Heading and unit; a published column says that it is one."""
    heading = one_line(column.heading)
    if published and "published" not in heading.lower():
        heading = f"{heading}, published" if heading else "published"
    return f"{heading} ({one_line(column.unit)})" if column.unit else heading


def cell_texts(table: Table) -> list[list[str]]:
    """Every row's cells on one line each, with the note in the first cell that is free.

    A published figure among measured ones says what it is in its own cell.
    """
    columns = published_columns(table)
    rows = []
    for row in table.rows:
        texts = [
            published_text(cell, index in columns)
            if isinstance(cell, Published)
            else cell_text(cell)
            for index, cell in enumerate(row.cells)
        ]
        if row.note:
            note = one_line(row.note)
            place = next((index for index, text in enumerate(texts) if not text), -1)
            texts[place] = f"{texts[place]} ({note})" if texts[place] else note
        rows.append(texts)
    return rows


def published_text(cell: Published, column_says_so: bool) -> str:
    """A published figure as it was printed, labelled unless its column's heading is."""
    text = one_line(cell.text)
    return text if column_says_so else f"{text} (published)"


def telling_digits(size: float) -> int:
    """Digits after the point that leave a figure of that size four that say something."""
    return max(0, min(3, 3 - math.floor(math.log10(abs(size))))) if size else 2


def duration(duration_s: float) -> str:
    """Such as 0.4 s, 12 s, 2 min 5 s, 1 h 3 min."""
    if duration_s < 9.95:
        return f"{duration_s:.1f} s"
    seconds = round(duration_s)
    if seconds < 60:
        return f"{seconds} s"
    minutes, seconds = divmod(seconds, 60)
    if minutes < 60:
        return f"{minutes} min {seconds} s"
    return f"{minutes // 60} h {minutes % 60} min"
