"""The report of two sides, with what changed and how sure that is, and of several side by side."""

from __future__ import annotations

from collections.abc import Sequence
from xml.etree import ElementTree as ET

from xdplab.comparison import Comparison, Difference, Side, in_columns
from xdplab.environments import unlike
from xdplab.records import RESOLVED
from xdplab.suites.picture import Bar, BarGroup, Bars
from xdplab.suites.table import Figure
from xdplab.views.charts import Track, tracks_svg
from xdplab.views.comparison import columns_table, comparison_tables, row_digits, unlike_tables
from xdplab.views.format import figure_text, unit_of
from xdplab.views.html_building import (
    Building,
    Limits,
    Page,
    environment_elements,
    finished,
    fitted,
    grouped_by,
    how_measured,
    short_name,
    warning_list,
)
from xdplab.views.page import element

RATE_MPPS = 10.0
"""The packet rate that a comparison's share of a CPU is for, as in `xdplab compare`."""


def comparison_page(comparison: Comparison) -> Page:
    """The report of two sides, with a plot of the differences for each table."""
    return fitted(lambda limits: _comparison(comparison, limits))


def columns_page(sides: Sequence[Side]) -> Page:
    """The report of several sides: their figures side by side, without verdicts."""
    return fitted(lambda limits: _columns(sides, limits))


def _comparison(comparison: Comparison, limits: Limits) -> Page:
    building = Building(limits)
    before, after = comparison.before, comparison.after
    documents = [*before.documents, *after.documents]
    tables = comparison_tables(comparison, RATE_MPPS)

    def unit_in(row: Difference) -> str:
        return comparison.unit or unit_of(row.result.metric)

    grouped = grouped_by(
        comparison.rows, lambda row: (row.result.suite, row.result.engine, row.result.method)
    )
    # What the environments differ in comes first, then a table a group.
    first = len(tables) - max(len(grouped), 1)
    sections = []
    if first:
        differing = building.tables(tables[:first])
        sections.append(building.section("What differs around the programs", *differing))
    if any(document.warnings for document in documents):
        sections.append(building.section("Warnings", warning_list(documents)))
    for number, table in enumerate(tables[first:]):
        made = building.section(table.title.partition(":")[0])
        for unit, rows in grouped_by(grouped[number][1] if grouped else [], unit_in):
            made.append(_forest(building, table.title, unit, rows))
        made.extend(list(building.tables([table])))
        sections.append(made)
    for side in (before, after):
        title = f"Environment of {side.name}"
        sections.append(building.section(title, *environment_elements(side.documents[-1])))
    sections.append(building.section("How it was measured", *how_measured(documents)))
    lead = [_verdict(comparison), *comparison.notes]
    return finished(building, f"xdplab: {after.name} against {before.name}", lead, sections)


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


def _forest(building: Building, title: str, unit: str, rows: Sequence[Difference]) -> ET.Element:
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
        short_name(row.result),
        f"{text}{percent} {verdict}",
        row.change,
        is_bar=False,
        is_pale=not is_sure,
        colour=1 if row.is_worse else 2,
    )


def _difference_bar(row: Difference) -> Bar:
    digits = row_digits(row)
    is_sure = row.verdict == RESOLVED
    return Bar(short_name(row.result), row.change, is_sure, digits=digits, signed=True)


def _columns(sides: Sequence[Side], limits: Limits) -> Page:
    building = Building(limits)
    differences = unlike([side.documents for side in sides])
    tables = unlike_tables(sides, differences, True)
    tables.append(columns_table(sides, in_columns(sides), ""))
    documents = [document for side in sides for document in side.documents]
    sections = [building.section("Figures", *building.tables(tables))]
    if any(document.warnings for document in documents):
        sections.append(building.section("Warnings", warning_list(documents)))
    sections.append(building.section("How it was measured", *how_measured(documents)))
    names = ", ".join(side.name for side in sides)
    return finished(building, f"xdplab: {names}", ["Side by side, without verdicts."], sections)
