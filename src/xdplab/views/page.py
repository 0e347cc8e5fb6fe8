"""A page of HTML that needs nothing else: headings, tables, plots, lists; every text escaped.

Built of elements, never of strings, so that a document's words cannot become markup.
"""

from __future__ import annotations

import itertools
import re
import textwrap
from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path
from xml.etree import ElementTree as ET

from xdplab.suites.table import Figure, Published, Table
from xdplab.views.format import (
    cell_text,
    heading_text,
    numeric_columns,
    one_line,
    published_columns,
    published_text,
)

_LONGEST = 400
"""Characters of a text, beyond which names and notes are cut: no measured figure is as long."""

_PAPER = 800
"""Pixels of a plot that fit a sheet of paper, A4 or letter, below its title."""
_SMALLEST_PRINTED = 0.4
"""Smaller letters cannot be read; what is taller still is cut into pages."""


@cache
def style_sheet() -> str:
    """report.css, which lies beside this file."""
    return (Path(__file__).parent / "report.css").read_text(encoding="utf-8")


def element(tag: str, *children: ET.Element | str, **attributes: str) -> ET.Element:
    """An element; `class_` stands for class, and texts among the children become its text."""
    made = ET.Element(tag, {name.rstrip("_"): text for name, text in attributes.items()})
    for child in children:
        if isinstance(child, ET.Element):
            made.append(child)
        elif len(made):
            made[-1].tail = (made[-1].tail or "") + plain(child)
        else:
            made.text = (made.text or "") + plain(child)
    return made


def plain(text: str) -> str:
    """Text on one line, without what steers a reader (bidirectional marks too), cut if endless."""
    line = one_line(text[: _LONGEST + 1])
    return line if len(line) <= _LONGEST else f"{line[: _LONGEST - 4]} ..."


def anchor(text: str, taken: set[str]) -> str:
    """A name for a place of the page, not one of `taken`, to which it is added."""
    name = re.sub(r"[^a-z0-9]+", "-", text.lower()).strip("-")[:60] or "part"
    numbered = (f"{name}-{number}" for number in range(2, len(taken) + 3))
    found = next(one for one in itertools.chain([name], numbered) if one not in taken)
    taken.add(found)
    return found


def table_elements(table: Table, rows: int) -> Iterator[ET.Element]:
    """A table with its title and notes, of at most `rows` rows; it says how many it leaves out."""
    published, numeric = published_columns(table), numeric_columns(table)
    head = [
        element(
            "th",
            heading_text(column, index in published),
            scope="col",
            class_="number" if numeric[index] else "words",
        )
        for index, column in enumerate(table.columns)
    ]
    body = element("tbody", *_rows(table, rows, published, numeric))
    title = element("h3", table.title)
    yield title
    if head:
        grid = element("table", element("thead", element("tr", *head)), body)
        # What scrolls must be reached by keyboards as well.
        yield element(
            "div", grid, class_="scroll", tabindex="0", role="region",
            **{"aria-label": plain(table.title)},
        )  # fmt: skip
    notes = list(table.notes)
    if len(table.rows) > rows:
        notes.append(
            f"The first {rows} of {len(table.rows)} rows; xdplab export --format csv has all."
        )
    if notes:
        yield element("ul", *(element("li", note) for note in notes), class_="notes")


def _rows(
    table: Table, rows: int, published: frozenset[int], numeric: Sequence[bool]
) -> Iterator[ET.Element]:
    for number, row in enumerate(table.rows[:rows]):
        last = max((index for index, cell in enumerate(row.cells) if cell is not None), default=-1)
        made = element("tr")
        if row.begins_section and number:
            made.set("class", "begins")
        for index, cell in enumerate(row.cells):
            if row.note and index > last:
                # The note stands where the figures would.
                span = str(len(row.cells) - index)
                made.append(element("td", row.note, class_="note", colspan=span))
                break
            text = (
                published_text(cell, index in published)
                if isinstance(cell, Published)
                else cell_text(cell)
            )
            looks = ["number" if numeric[index] else "words"]
            looks += ["noise"] if isinstance(cell, Figure) and not cell.resolved else []
            looks += ["published"] if isinstance(cell, Published) else []
            one = element("td" if index else "th", text)
            if not index:
                one.set("scope", "row")
            one.set("class", " ".join(looks))
            made.append(one)
        else:
            if row.note and len(made):
                made[-1].text = f"{made[-1].text or ''} ({plain(row.note)})"
        yield made


def figure(svg: ET.Element, title: str, notes: Sequence[str] = ()) -> ET.Element:
    """A plot below its title; `notes` explain the numbers in it."""
    height = float(svg.get("height", "0"))
    if height > _PAPER:
        svg.set("style", f"--printed: {max(_PAPER / height, _SMALLEST_PRINTED):.2f}")
    made = element("figure", element("figcaption", title), svg)
    if notes:
        made.append(element("ol", *(element("li", note) for note in notes), class_="marks"))
    return made


def folded(summary: str, *children: ET.Element) -> ET.Element:
    """What opens on demand."""
    return element("details", element("summary", summary), *children)


def facts(rows: Sequence[tuple[str, str]], label: str) -> ET.Element:
    """Names and values, as a table."""
    body = element(
        "tbody",
        *(element("tr", element("th", n, scope="row"), element("td", v)) for n, v in rows),
    )
    grid = element("table", body, class_="facts")
    return element(
        "div", grid, class_="scroll", tabindex="0", role="region", **{"aria-label": plain(label)}
    )


def document_text(title: str, children: Sequence[ET.Element]) -> str:
    """The whole page as text."""
    head = element(
        "head",
        element("meta", charset="utf-8"),
        element("meta", name="viewport", content="width=device-width, initial-scale=1"),
        # Nothing is fetched and nothing runs, whatever a document holds.
        element(
            "meta",
            content="default-src 'none'; style-src 'unsafe-inline'; img-src data:",
            **{"http-equiv": "Content-Security-Policy"},
        ),
        element("link", rel="icon", href="data:,"),
        element("title", textwrap.shorten(plain(title), 120)),
    )
    sheet = ET.SubElement(head, "style")
    sheet.text = style_sheet()
    page = element("html", head, element("body", *children), lang="en")
    return f"<!DOCTYPE html>\n{ET.tostring(page, encoding='unicode', method='html')}\n"
