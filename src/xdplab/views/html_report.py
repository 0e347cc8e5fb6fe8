"""Reports as one page: of a run, of two runs compared, of several side by side.

What is drawn and written is the suites' and the comparison's; here is its order on the page, and
how much of it. A page beyond LARGEST_BYTES is made anew with less of everything, which it says.
It is long because each part of the page has a function, and they share one budget of bytes.
"""

from __future__ import annotations

import itertools
import math
import shlex
import statistics
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar
from xml.etree import ElementTree as ET

from xdplab.comparison import Comparison, Difference, Side, in_columns
from xdplab.environments import unlike
from xdplab.records import RESOLVED, Document, Result
from xdplab.store.history import Past
from xdplab.suites.base import TWIN
from xdplab.suites.picture import Bar, BarGroup, Bars, Curves, Picture
from xdplab.suites.table import Figure, Table
from xdplab.views.charts import Moment, Track, bar_tracks, curves_svg, history_svg, tracks_svg
from xdplab.views.comparison import columns_table, comparison_tables, row_digits, unlike_tables
from xdplab.views.environment import lines, machine_lines, warning_line
from xdplab.views.format import duration, figure_text, result_name, telling_digits, unit_of
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
from xdplab.views.report import ENGINE_TITLES
from xdplab.views.stored import Part, document_parts, heading

LARGEST_BYTES = 2_000_000
"""A page is smaller than this."""

RATE_MPPS = 10.0
"""The packet rate that a comparison's share of a CPU is for, as in `xdplab compare`."""

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
class _Building:
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


def run_page(document: Document, past: Sequence[Sequence[Past]], notes: Sequence[str] = ()) -> Page:
    """The report of one run. `past` has for each result its figures in earlier runs, or is empty.

    `notes` say what a reader must know of how the run was chosen.
    """
    return _fitted(lambda limits: _run(document, past, notes, limits))


def comparison_page(comparison: Comparison) -> Page:
    """The report of two sides, with a plot of the differences for each table."""
    return _fitted(lambda limits: _comparison(comparison, limits))


def columns_page(sides: Sequence[Side]) -> Page:
    """The report of several sides: their figures side by side, without verdicts."""
    return _fitted(lambda limits: _columns(sides, limits))


def _fitted(make: Callable[[Limits], Page]) -> Page:
    limits = Limits()
    page = make(limits)
    for _ in range(12):
        if len(page.text.encode()) < LARGEST_BYTES:
            break
        limits = limits.halved()
        page = make(limits)
    return page


# --- one run


def _run(
    document: Document,
    past: Sequence[Sequence[Past]],
    notes: Sequence[str],
    limits: Limits,
) -> Page:
    building = _Building(limits)
    title = heading(document.run)
    sections = []
    if document.warnings:
        sections.append(building.section("Warnings", _warnings([document])))
    history = {id(r): p for r, p in zip(document.results, past, strict=bool(past))}
    sections += [_part(building, part, document, history) for part in document_parts(document)]
    sections += [
        building.section("Environment", *_environment(document)),
        building.section("How it was measured", *_how([document])),
    ]
    lead = [*notes, lines(document)[-1 - len(document.warnings)]]
    return _page(building, f"xdplab: {title}", lead, sections)


def _part(
    building: _Building,
    part: Part,
    document: Document,
    history: Mapping[int, Sequence[Past]],
) -> ET.Element:
    choices = [f"{name}={value}" for name, value in part.chosen.items()]
    where = " with ".join(filter(None, (ENGINE_TITLES.get(part.engine, part.engine), *choices)))
    made = building.section(f"{part.name} {where}".strip())
    if any("model" in result.parameters for result in part.results):
        made.append(
            element(
                "p", "A model: measured on a copy of the driver's way, not on it.", class_="lead"
            )
        )
    for picture in part.pictures():
        made.append(_picture(building, picture, where))
    made.extend(list(building.tables(part.tables)))
    name = f"{part.name} {where}".strip()
    made.extend(list(_distribution(building, name, part.results, len(document.results))))
    made.extend(list(_history(building, name, part.results, history)))
    return made


def _picture(building: _Building, picture: Picture, where: str) -> ET.Element:
    title = f"{picture.title}, {where}" if where else picture.title
    if isinstance(picture, Curves):
        marks = [mark.text for mark in picture.marks]
        return building.plot(title, curves_svg(picture), picture, marks)
    tracks, notes = building.fitting(bar_tracks(picture))
    return building.plot(title, tracks_svg(title, picture.unit, tracks), picture, notes)


def _distribution(
    building: _Building, name: str, results: Sequence[Result], all_results: int
) -> Iterator[ET.Element]:
    """How far each load's figure lies from the row's, on one scale for a unit."""
    timed = [r for r in results if r.estimate is not None and len(r.trials) > 2]
    if not timed:
        return
    room = max(building.limits.dots // max(all_results, 1), 5)
    for metric_unit, of_unit in _by(timed, lambda result: unit_of(result.metric)):
        deviations = {id(result): _deviations(result) for result in of_unit}
        sizes = sorted(abs(value) for values in deviations.values() for value in values)
        # A few far ones would press all others into a line; they are counted instead.
        edge = sizes[math.floor(0.95 * (len(sizes) - 1))] or sizes[-1] or 1.0
        tracks = [_loads_track(r, deviations[id(r)], edge, room) for r in of_unit]
        fitting, notes = building.fitting(tracks)
        title = f"single loads around each figure, {name}"
        axis = f"{metric_unit} from the row's figure"
        plot = building.plot(title, tracks_svg(title, axis, fitting, (-edge, edge)), None, notes)
        text = (
            f"A dot is one load's figure (at most {room} a row, evenly picked among them in order "
            "of size). Left and right of the scale: counted beside the name."
        )
        summary = f"Distribution of samples: {len(of_unit)} rows in {metric_unit}"
        yield folded(summary, element("p", text, class_="caption"), plot)


def _deviations(result: Result) -> list[float]:
    # Without numpy's small arrays, of which ten thousand would take a second.
    assert result.estimate is not None
    point = result.estimate.point
    found = []
    for trial in result.trials:
        if not trial.variant_ns:
            continue
        differences = [v - b for b, v in zip(trial.baseline_ns, trial.variant_ns, strict=False)]
        pairs = [sum(pair) / 2 for pair in zip(differences[::2], differences[1::2], strict=False)]
        if pairs:
            found.append(statistics.median(pairs) / result.operations_per_call - point)
    return sorted(found)


def _loads_track(result: Result, values: Sequence[float], edge: float, room: int) -> Track:
    inside = [value for value in values if abs(value) <= edge]
    beyond = len(values) - len(inside)
    text = f"{len(values)} loads{f', {beyond} beyond' if beyond else ''}"
    if len(inside) > room:
        inside = [inside[i * (len(inside) - 1) // (room - 1)] for i in range(room)]
    return Track(_short_name(result), text, dots=inside)


def _history(
    building: _Building,
    name: str,
    results: Sequence[Result],
    history: Mapping[int, Sequence[Past]],
) -> Iterator[ET.Element]:
    shown = [(r, history.get(id(r), ())) for r in results if r.variant != TWIN]
    shown = [(result, past) for result, past in shown if len(past) > 1]
    plots = []
    left = building.limits.past
    for result, past in shown:
        if len(past) > left:
            break
        left -= len(past)
        moments = [Moment(p.started_at[:16].replace("T", " "), p.estimate, p.is_like) for p in past]
        digits = telling_digits(past[-1].estimate.point)
        title = f"{_short_name(result)}, {unit_of(result.metric)}"
        svg = history_svg(title, moments, digits)
        plots.append(svg)
        building.plots.append(Plot(anchor(f"history {name} {title}", building.names), title, svg))
    if plots:
        text = (
            "Each figure over stored runs, oldest left, on a scale of its own. Hollow: measured in "
            "another environment (machine, kernel, mitigations, versions)."
        )
        if len(plots) < len(shown):
            text += f" {len(shown) - len(plots)} more rows have no room on this page."
        figures = [element("figure", plot) for plot in plots]
        summary = f"History: {len(plots)} figures over up to {max(len(p) for _, p in shown)} runs"
        yield folded(summary, element("p", text, class_="caption"), *figures)


# --- two runs and several


def _comparison(comparison: Comparison, limits: Limits) -> Page:
    building = _Building(limits)
    before, after = comparison.before, comparison.after
    documents = [*before.documents, *after.documents]
    tables = comparison_tables(comparison, RATE_MPPS)

    def unit_in(row: Difference) -> str:
        return comparison.unit or unit_of(row.result.metric)

    grouped = _by(
        comparison.rows, lambda row: (row.result.suite, row.result.engine, row.result.method)
    )
    # What the environments differ in comes first, then a table a group.
    first = len(tables) - max(len(grouped), 1)
    sections = []
    if first:
        differing = building.tables(tables[:first])
        sections.append(building.section("What differs around the programs", *differing))
    if any(document.warnings for document in documents):
        sections.append(building.section("Warnings", _warnings(documents)))
    for number, table in enumerate(tables[first:]):
        made = building.section(table.title.partition(":")[0])
        for unit, rows in _by(grouped[number][1] if grouped else [], unit_in):
            made.append(_forest(building, table.title, unit, rows))
        made.extend(list(building.tables([table])))
        sections.append(made)
    for side in (before, after):
        title = f"Environment of {side.name}"
        sections.append(building.section(title, *_environment(side.documents[-1])))
    sections.append(building.section("How it was measured", *_how(documents)))
    lead = [_verdict(comparison), *comparison.notes]
    return _page(building, f"xdplab: {after.name} against {before.name}", lead, sections)


def _verdict(comparison: Comparison) -> str:
    if not comparison.is_judged:
        return "No verdicts: the environments differ. Figures are shown side by side all the same."
    moved = [row for row in comparison.rows if row.verdict == RESOLVED and row.change.point]
    worse = sum(row.is_worse for row in moved)
    rest = len(comparison.rows) - len(moved)
    return (
        f"Of {len(comparison.rows)} figures {worse} are worse, {len(moved) - worse} better, and "
        f"{rest} differ by no more than noise, if at all."
    )


def _forest(building: _Building, title: str, unit: str, rows: Sequence[Difference]) -> ET.Element:
    tracks = [_difference_track(row) for row in rows]
    fitting, notes = building.fitting(tracks)
    title = f"differences in {unit}, {title}"
    picture = Bars(title, unit, [BarGroup("", [_difference_bar(row) for row in rows])])
    notes = [
        *notes,
        "Right of zero the figure became larger. Filled: resolved; hollow: within noise, equal or "
        "not judged. Lines are 95 % intervals.",
    ]
    made = building.plot(title, tracks_svg(title, unit, fitting), picture)
    made.append(element("p", " ".join(reversed(notes)), class_="caption"))
    return made


def _difference_track(row: Difference) -> Track:
    digits = row_digits(row)
    is_sure = row.verdict == RESOLVED and bool(row.change.point)
    text = str(figure_text(Figure(row.change, digits, signed=True, bare=row.is_exact)))
    percent = "" if row.percent is None else f" ({row.percent.point:+.1f} %)"
    verdict = ("worse" if row.is_worse else "better") if is_sure else row.verdict
    return Track(
        _short_name(row.result),
        f"{text}{percent} {verdict}",
        row.change,
        is_bar=False,
        is_pale=not is_sure,
        colour=1 if row.is_worse else 2,
    )


def _difference_bar(row: Difference) -> Bar:
    digits = row_digits(row)
    is_sure = row.verdict == RESOLVED
    return Bar(_short_name(row.result), row.change, is_sure, digits=digits, signed=True)


def _columns(sides: Sequence[Side], limits: Limits) -> Page:
    building = _Building(limits)
    differences = unlike([side.documents for side in sides])
    tables = unlike_tables(sides, differences, True)
    tables.append(columns_table(sides, in_columns(sides), ""))
    documents = [document for side in sides for document in side.documents]
    sections = [building.section("Figures", *building.tables(tables))]
    if any(document.warnings for document in documents):
        sections.append(building.section("Warnings", _warnings(documents)))
    sections.append(building.section("How it was measured", *_how(documents)))
    names = ", ".join(side.name for side in sides)
    return _page(building, f"xdplab: {names}", ["Side by side, without verdicts."], sections)


# --- what all have


def _page(
    building: _Building, title: str, lead: Sequence[str], sections: Sequence[ET.Element]
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


def _warnings(documents: Sequence[Document]) -> ET.Element:
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


def _environment(document: Document) -> Iterator[ET.Element]:
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


def _how(documents: Sequence[Document]) -> Iterator[ET.Element]:
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


def _short_name(result: Result) -> str:
    # The suite and the engine stand above.
    return plain(result_name(result).partition(": ")[2])


def _by(items: Iterable[_Item], key: Callable[[_Item], Any]) -> list[tuple[Any, list[_Item]]]:
    """Items by a key, in the order in which keys come first."""
    found: dict[Any, list[_Item]] = {}
    for item in items:
        found.setdefault(key(item), []).append(item)
    return list(found.items())
