"""The report of one run: its pictures, tables, single loads and history, part by part."""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterator, Mapping, Sequence
from xml.etree import ElementTree as ET

from xdplab.records import TWIN, Document, Result
from xdplab.store.history import Past
from xdplab.suites.picture import Curves, Picture
from xdplab.views.charts import Moment, Track, bar_tracks, curves_svg, history_svg, tracks_svg
from xdplab.views.environment import lines
from xdplab.views.format import telling_digits, unit_of
from xdplab.views.html_building import (
    Building,
    Limits,
    Page,
    Plot,
    environment_elements,
    finished,
    fitted,
    grouped_by,
    how_measured,
    short_name,
    warning_list,
)
from xdplab.views.page import anchor, element, folded
from xdplab.views.report import ENGINE_TITLES
from xdplab.views.stored import Part, document_parts, heading


def run_page(document: Document, past: Sequence[Sequence[Past]], notes: Sequence[str] = ()) -> Page:
    """The report of one run. `past` has for each result its figures in earlier runs, or is empty.

    `notes` say what a reader must know of how the run was chosen.
    """
    return fitted(lambda limits: _run(document, past, notes, limits))


def _run(
    document: Document,
    past: Sequence[Sequence[Past]],
    notes: Sequence[str],
    limits: Limits,
) -> Page:
    building = Building(limits)
    title = heading(document.run)
    sections = []
    if document.warnings:
        sections.append(building.section("Warnings", warning_list([document])))
    history = {id(r): p for r, p in zip(document.results, past, strict=bool(past))}
    sections += [_part(building, part, document, history) for part in document_parts(document)]
    sections += [
        building.section("Environment", *environment_elements(document)),
        building.section("How it was measured", *how_measured([document])),
    ]
    lead = [*notes, lines(document)[-1 - len(document.warnings)]]
    return finished(building, f"xdplab: {title}", lead, sections)


def _part(
    building: Building,
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


def _picture(building: Building, picture: Picture, where: str) -> ET.Element:
    title = f"{picture.title}, {where}" if where else picture.title
    if isinstance(picture, Curves):
        marks = [mark.text for mark in picture.marks]
        return building.plot(title, curves_svg(picture), picture, marks)
    tracks, notes = building.fitting(bar_tracks(picture))
    return building.plot(title, tracks_svg(title, picture.unit, tracks), picture, notes)


def _distribution(
    building: Building, name: str, results: Sequence[Result], all_results: int
) -> Iterator[ET.Element]:
    """How far each load's figure lies from the row's, on one scale for a unit."""
    timed = [r for r in results if r.estimate is not None and len(r.trials) > 2]
    if not timed:
        return
    room = max(building.limits.dots // max(all_results, 1), 5)
    for metric_unit, of_unit in grouped_by(timed, lambda result: unit_of(result.metric)):
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
    return Track(short_name(result), text, dots=inside)


def _history(
    building: Building,
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
        title = f"{short_name(result)}, {unit_of(result.metric)}"
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
