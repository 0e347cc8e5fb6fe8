"""Where a table's text goes on a page of so many columns. Pure; styles are roles, not colours.

Measured figures are never cut: a table that is too wide first wraps its headings, then
stacks each interval below its point, then narrows its texts as far as it must, and at last
becomes a list.
"""

from __future__ import annotations

import bisect
import textwrap
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

from xdplab.suites.table import Cell, Figure, Published, Row, Table
from xdplab.views.format import (
    cell_text,
    cell_texts,
    figure_text,
    heading_text,
    numeric_columns,
    one_line,
    published_columns,
    published_text,
)

Role = Literal["title", "heading", "rule", "plain", "noise", "published", "note"]

RULE = "─"
_GAP = 2
_NARROW_TEXT = 22
_LEAST_NOTE = 24


class Piece(NamedTuple):
    """Some text of one role; a line is a sequence of them."""

    text: str
    role: Role


Line = Sequence[Piece]


def arrange(table: Table, width: int) -> list[Line]:
    """The table's lines, at most `width` characters each where its words allow that."""
    lines: list[Line] = [[Piece(part, "title")] for part in _wrap(one_line(table.title), width)]
    for wrap_headings, stacked, text_width in (
        (False, False, width),
        (True, False, width),
        (True, True, width),
        (True, True, None),
    ):
        room = _text_width(table, width) if text_width is None else text_width
        grid = _Grid(table, wrap_headings, stacked, room)
        if grid.total <= width:
            lines += grid.lines(width)
            break
    else:
        lines += _listed(table, width)
    for note in table.notes:
        lines += [[Piece(part, "note")] for part in _wrap(one_line(note), width, "  ", "  ")]
    return lines


def _text_width(table: Table, width: int) -> int:
    """The widest that texts may be for a stacked grid to fit the page; _NARROW_TEXT at least."""
    # A cell of one long word is as wide as it is, whatever it may be: try, do not calculate.
    fits = range(_NARROW_TEXT, width)
    at = bisect.bisect_right(
        fits, width, key=lambda text_width: _Grid(table, True, True, text_width).total
    )
    return max(_NARROW_TEXT, fits[at - 1] if at else 0)


@dataclass(frozen=True, slots=True)
class _Block:
    """What one cell shows: its lines, all as wide as they need to be."""

    texts: Sequence[str]
    role: Role = "plain"

    @property
    def width(self) -> int:
        return max((len(text) for text in self.texts), default=0)


class _Grid:
    """A table in columns of fixed widths."""

    def __init__(self, table: Table, wrap_headings: bool, stacked: bool, text_width: int) -> None:
        self._table = table
        self._published = published_columns(table)
        self._stacked = stacked
        self._text_width = text_width
        self._numeric = numeric_columns(table)
        by_column = [
            self._column([row.cells[index] for row in table.rows], index)
            for index in range(len(table.columns))
        ]
        self._rows = [list(blocks) for blocks in zip(*by_column, strict=True)]
        contents = [max((block.width for block in blocks), default=0) for blocks in by_column]
        self._contents = contents
        self._headings = []
        for index, column in enumerate(table.columns):
            text = heading_text(column, index in self._published)
            room = max([contents[index], *map(len, text.split())]) if wrap_headings else len(text)
            self._headings.append(_Block(_wrap(text, room), "heading"))
        self._widths = [
            max(content, heading.width)
            for content, heading in zip(contents, self._headings, strict=True)
        ]

    @property
    def total(self) -> int:
        return sum(self._widths) + _GAP * (len(self._widths) - 1)

    def _column(self, cells: Sequence[Cell], index: int) -> list[_Block]:
        texts = [figure_text(cell) for cell in cells if isinstance(cell, Figure)]
        points = [text.point for text in texts]
        points += [self._plain(cell, index) for cell in cells if isinstance(cell, Published | int)]
        point_width = max(map(len, points), default=0)
        interval_width = max((len(text.interval) for text in texts), default=0)
        blocks = []
        for cell in cells:
            if not isinstance(cell, Figure):
                text = self._plain(cell, index)
                role: Role = "published" if isinstance(cell, Published) else "plain"
                if isinstance(cell, str):
                    blocks.append(_Block(_wrap(text, self._text_width), role))
                else:
                    blocks.append(_Block([text.rjust(point_width)], role))
                continue
            parts = figure_text(cell)
            role = "plain" if cell.resolved else "noise"
            if self._stacked:
                shown = [part for part in (parts.point, parts.interval, parts.mark) if part]
            else:
                interval = parts.interval.ljust(interval_width)
                shown = [f"{parts.point.rjust(point_width)} {interval} {parts.mark}".rstrip()]
            blocks.append(_Block(shown, role))
        return blocks

    def _plain(self, cell: Cell, index: int) -> str:
        if isinstance(cell, Published):
            return published_text(cell, index in self._published)
        return cell_text(cell)

    def lines(self, width: int) -> Iterator[Line]:
        yield from self._row(self._headings, align_bottom=True)
        yield [Piece(RULE * self.total, "rule")]
        for number, (row, blocks) in enumerate(zip(self._table.rows, self._rows, strict=True)):
            if row.begins_section and number:
                yield []
            yield from self._with_note(row, blocks, width) if row.note else self._row(blocks)

    def _row(self, blocks: Sequence[_Block], align_bottom: bool = False) -> Iterator[Line]:
        height = max((len(block.texts) for block in blocks), default=0)
        for number in range(height):
            line = []
            for index, block in enumerate(blocks):
                at = number - (height - len(block.texts)) if align_bottom else number
                text = block.texts[at] if 0 <= at < len(block.texts) else ""
                line.append(Piece(self._padded(text, index, block), block.role))
                line.append(Piece(" " * _GAP, "plain"))
            yield _trimmed(line)

    def _padded(self, text: str, index: int, block: _Block) -> str:
        width = self._widths[index]
        if not self._numeric[index]:
            return text.ljust(width)
        if self._stacked or block.role == "heading":
            return text.rjust(width)
        # Points stand below each other: what follows them is as wide in every row.
        return text.ljust(self._contents[index]).rjust(width)

    def _with_note(self, row: Row, blocks: Sequence[_Block], width: int) -> Iterator[Line]:
        """The note begins where the row's figures would, and may run to the page's edge."""
        shown = [index for index, cell in enumerate(row.cells) if cell is not None]
        kept = shown[-1] + 1 if shown else 0
        start = sum(self._widths[:kept]) + _GAP * kept
        first = list(self._row(blocks[:kept]))
        if width - start < _LEAST_NOTE:
            yield from first
            for part in _wrap(one_line(row.note), width, "  ", "  "):
                yield [Piece(part, "note")]
            return
        parts = _wrap(one_line(row.note), width - start)
        for number in range(max(len(first), len(parts))):
            line = list(first[number]) if number < len(first) else []
            if number < len(parts):
                used = sum(len(piece.text) for piece in line)
                line += [Piece(" " * (start - used), "plain"), Piece(parts[number], "note")]
            yield line


def _trimmed(line: list[Piece]) -> Line:
    """Without the blanks at its end, which a mailer would keep."""
    while line and not line[-1].text.strip():
        line.pop()
    if line:
        line[-1] = Piece(line[-1].text.rstrip(), line[-1].role)
    return line


def _wrap(text: str, width: int, first: str = "", others: str = "") -> list[str]:
    """Broken at blanks only: half a name or half a number is worse than a long line."""
    return textwrap.wrap(
        text,
        max(width, 1),
        initial_indent=first,
        subsequent_indent=others,
        break_long_words=False,
        break_on_hyphens=False,
    )


def _listed(table: Table, width: int) -> Iterator[Line]:
    """One line a figure, for pages on which no grid has room."""
    published = published_columns(table)
    headings = [
        heading_text(column, index in published) for index, column in enumerate(table.columns)
    ]
    for row, texts in zip(table.rows, cell_texts(table), strict=True):
        yield []
        for heading, text, cell in zip(headings, texts, row.cells, strict=True):
            if not text:
                continue
            role: Role = "published" if isinstance(cell, Published) else "plain"
            if isinstance(cell, Figure) and not cell.resolved:
                role = "noise"
            for part in _wrap(f"{heading}: {text}" if heading else text, width, others="  "):
                yield [Piece(part, role)]
