"""Tables as text to be pasted: Markdown for pull requests, org for notes and mail."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

from xdplab.suites.table import Table
from xdplab.views.format import (
    cell_texts,
    heading_text,
    numeric_columns,
    one_line,
    published_columns,
)


def markdown(table: Table) -> str:
    """The table with its title and notes, in GitHub's flavour; ends with a line feed."""
    headings, rows = _cells(table, _escape_markdown)
    widths = _widths(table, headings, rows)
    numeric = numeric_columns(table)
    rule = [
        "-" * (width - 1) + (":" if right else "-")
        for width, right in zip(widths, numeric, strict=True)
    ]
    lines = [f"**{_escape_markdown(table.title)}**", ""]
    lines += [_line(row, widths, numeric) for row in (headings, rule, *rows)]
    if table.notes:
        lines += ["", *(f"- {_escape_markdown(note)}" for note in table.notes)]
    return "\n".join(lines) + "\n"


def org(table: Table) -> str:
    """The table with its title as caption and its notes as a list; ends with a line feed."""
    headings, rows = _cells(table, _escape_org)
    widths = _widths(table, headings, rows)
    numeric = numeric_columns(table)
    rule = "|" + "+".join("-" * (width + 2) for width in widths) + "|"
    lines = [f"#+CAPTION: {one_line(table.title)}", _line(headings, widths, numeric), rule]
    for number, (row, texts) in enumerate(zip(table.rows, rows, strict=True)):
        if row.begins_section and number:
            lines.append(rule)
        lines.append(_line(texts, widths, numeric))
    if table.notes:
        lines += ["", *(f"- {one_line(note)}" for note in table.notes)]
    return "\n".join(lines) + "\n"


def _cells(table: Table, escape: Callable[[str], str]) -> tuple[list[str], list[list[str]]]:
    published = published_columns(table)
    headings = [
        escape(heading_text(column, index in published))
        for index, column in enumerate(table.columns)
    ]
    return headings, [[escape(text) for text in row] for row in cell_texts(table)]


def _widths(table: Table, headings: Sequence[str], rows: Sequence[Sequence[str]]) -> list[int]:
    # A note may be long and stands in one row: it must not push every other row apart.
    figures = [texts for row, texts in zip(table.rows, rows, strict=True) if not row.note]
    return [max(3, *map(len, column)) for column in zip(headings, *figures, strict=True)]


def _line(texts: Sequence[str], widths: Sequence[int], numeric: Sequence[bool]) -> str:
    padded = (
        text.rjust(width) if right else text.ljust(width)
        for text, width, right in zip(texts, widths, numeric, strict=True)
    )
    return f"| {' | '.join(padded)} |"


def _escape_markdown(text: str) -> str:
    # Underscores within words are no markup in this flavour; names stay readable in mail.
    return re.sub(r"([\\|*<`])", r"\\\1", one_line(text))


def _escape_org(text: str) -> str:
    # Org has no escape for the bar, only an entity.
    return one_line(text).replace("|", r"\vert{}")
