"""A report while it is built: how much of it there may be, and what every report has.

A page beyond LARGEST_BYTES is made anew with less of everything, which it says.
"""

from __future__ import annotations

import itertools
import shlex
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar
from xml.etree import ElementTree as ET

from xdplab.records import Document, Result
from xdplab.suites.picture import Picture
from xdplab.suites.table import Table
from xdplab.views.charts import Track
from xdplab.views.environment import lines, machine_lines, warning_line
from xdplab.views.format import duration, result_name
from xdplab.views.page import (
    anchor,
    document_text,
    element,
    facts,
    figure,
    folded,
    plain,
    table_elements,
)

LARGEST_BYTES = 2_000_000
"""A page is smaller than this."""

_MOST_WARNINGS = 60

_METHODS = {
    "operation": "operation: the operation is repeated in a loop within the program, one test run "
    "a call; the cost is net of a loop that does nothing.",
    "packet": "packet: a program handles one packet a run, thousands of runs a call, timed around "
    "the system call; a cost is the difference of two programs in turns.",
    "live": "live: a generator sends packets down a way of interfaces; timed until the last one "
    "was counted at its end.",
    "counted": "counted: instructions that were executed, exactly; nothing was timed.",
}

_Item = TypeVar("_Item")


@dataclass(frozen=True, slots=True)
class Limits:
    """At most so many table rows, rows of plots, dots of single loads and points of history."""

    rows: int = 1500
    tracks: int = 600
    dots: int = 8000
    past: int = 2400

    def halved(self) -> Limits:
        return Limits(*(max(number // 2, 1) for number in (
            self.rows, self.tracks, self.dots, self.past)))  # fmt: skip


@dataclass(slots=True)
class Plot:
    """A plot of the page: a name for a file, and what to draw it from where that is data."""

    name: str
    title: str
    svg: ET.Element
    picture: Picture | None = None


@dataclass(slots=True)
class Page:
    """A report: its text, and its plots in the order of the page."""

    text: str
    plots: Sequence[Plot]


@dataclass(slots=True)
class Building:
    """What a page has so far, and what may still come."""

    limits: Limits
    rows: int = 0
    tracks: int = 0
    taken: set[str] = field(default_factory=set)
    names: set[str] = field(default_factory=set)
    contents: list[tuple[str, str]] = field(default_factory=list)
    plots: list[Plot] = field(default_factory=list)

    def section(self, title: str, *children: ET.Element) -> ET.Element:
        name = anchor(title, self.taken)
        self.contents.append((title, name))
        return element("section", element("h2", title, id=name), *children)

    def tables(self, tables: Sequence[Table]) -> Iterator[ET.Element]:
        for table in tables:
            left = max(self.limits.rows - self.rows, 1)
            self.rows += min(len(table.rows), left)
            yield from table_elements(table, left)

    def plot(
        self, title: str, svg: ET.Element, picture: Picture | None = None, notes: Sequence[str] = ()
    ) -> ET.Element:
        self.plots.append(Plot(anchor(title, self.names), title, svg, picture))
        return figure(svg, title, notes)

    def fitting(self, tracks: Sequence[Track]) -> tuple[Sequence[Track], Sequence[str]]:
        """As many rows as the page still takes, and what must be said of the others."""
        left = max(self.limits.tracks - self.tracks, 1)
        self.tracks += min(len(tracks), left)
        cut = len(tracks) - left
        return tracks[:left], [f"{cut} more rows are in the table alone."] if cut > 0 else []

    def contents_element(self) -> ET.Element:
        items = [
            element("li", element("a", title, href=f"#{name}")) for title, name in self.contents
        ]
        return element("nav", element("ul", *items), **{"aria-label": "contents"})


def fitted(make: Callable[[Limits], Page]) -> Page:
    limits = Limits()
    page = make(limits)
    for _ in range(12):
        if len(page.text.encode()) < LARGEST_BYTES:
            break
        limits = limits.halved()
        page = make(limits)
    return page


def finished(
    building: Building, title: str, lead: Sequence[str], sections: Sequence[ET.Element]
) -> Page:
    children = [
        element("header", element("h1", title), *(element("p", t, class_="lead") for t in lead)),
        building.contents_element(),
        element("main", *sections),
        element(
            "footer",
            element(
                "p",
                "Made by xdplab. Every figure was measured by the runs named here, or says that it "
                "is published or a model. Figures have 95 % intervals in brackets unless told "
                "otherwise; what is within noise cannot be told from nothing.",
                class_="caption",
            ),
        ),
    ]
    return Page(document_text(title, children), building.plots)


def warning_list(documents: Sequence[Document]) -> ET.Element:
    several = len(documents) > 1
    found = [(d.run.id if several else "", w) for d in documents for w in d.warnings]
    items = []
    for run_id, warning in found[:_MOST_WARNINGS]:
        text = warning_line(warning).partition(": ")[2]
        message, _, remedy = text.partition(" -> ")
        item = element("li", f"{run_id}: {message}" if run_id else message)
        if remedy:
            item.append(element("span", f". What to do: {remedy}.", class_="remedy"))
        items.append(item)
    if len(found) > _MOST_WARNINGS:
        items.append(element("li", f"and {len(found) - _MOST_WARNINGS} more"))
    return element("ul", *items, class_="warnings")


def environment_elements(document: Document) -> Iterator[ET.Element]:
    if not document.environment:
        yield element("p", "Counts are the same on every machine: none is named.", class_="lead")
        return
    if document.environment.keys() & {"cpu", "kernel"}:
        # Counts know their compiler at the most, and no machine.
        for line in machine_lines(document.environment):
            yield element("p", line)
    rows = list(itertools.islice(_flat("", document.environment), 200))
    yield folded("All that is known of it", facts(rows, "environment"))


def _flat(prefix: str, value: Any) -> Iterator[tuple[str, str]]:
    if isinstance(value, Mapping) and value and prefix.count(".") < 4:
        for name, part in value.items():
            yield from _flat(f"{prefix}.{name}" if prefix else str(name), part)
    else:
        text = "unknown" if value is None else str(value)
        yield prefix, " ".join(map(str, value)) if isinstance(value, list) else text


def how_measured(documents: Sequence[Document]) -> Iterator[ET.Element]:
    for document in documents[:20]:
        run = document.run
        yield element("p", lines(document)[-1 - len(document.warnings)])
        yield element("p", "Again: ", element("code", shlex.join(run.command)), class_="lead")
    if len(documents) > 20:
        yield element("p", f"and {len(documents) - 20} more runs", class_="lead")
    methods = dict.fromkeys(r.method for document in documents for r in document.results)
    known = [_METHODS[method] for method in methods if method in _METHODS]
    text = (
        "A figure is the median over loads of a program, each load's the median of calls in turns "
        "(A B B A); its interval is what other loads of this run would have given. A difference is "
        "resolved where its interval excludes zero and it exceeds what two copies of one program "
        "differed by in the same run."
    )
    took = sum(document.run.duration_s for document in documents)
    if any(method != "counted" for method in methods):
        known += [text, f"All runs took {duration(took)}."]
    yield element("ul", *(element("li", item) for item in known), class_="notes")


def short_name(result: Result) -> str:
    # The suite and the engine stand above, and so does what is counted.
    name = result_name(result).partition(": ")[2]
    return plain(name.removesuffix(" insns") if result.metric == "insns" else name)


def grouped_by(
    items: Iterable[_Item], key: Callable[[_Item], Any]
) -> list[tuple[Any, list[_Item]]]:
    """Items by a key, in the order in which keys come first."""
    found: dict[Any, list[_Item]] = {}
    for item in items:
        found.setdefault(key(item), []).append(item)
    return list(found.items())
