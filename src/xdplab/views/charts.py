"""Plots as SVG of our own, for a page: they follow its width and its colours, light and dark.

Places across are percentages and places down are pixels, so that a plot is as wide as its page
and its letters are as large on a telephone as on a desk; docs/decisions/0008-report.md says why
these are not matplotlib's. Colours are classes of report.css.
"""

from __future__ import annotations

import itertools
import math
import textwrap
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from xml.etree import ElementTree as ET

from xdplab.records import Estimate
from xdplab.suites.picture import Bar, Bars, Curves, Series
from xdplab.suites.table import Figure
from xdplab.views.format import figure_text, heading_text, one_line
from xdplab.views.plot import gathered

COLOURS = 8
_LETTERS = 46
"""Letters of a line that fit the narrowest page, 390 px."""
_DESCRIBED = 900
"""Letters of a plot's text for those who do not see it: after them the table is better."""
_LINE = 15
_TRACK = 14
_GAP = 7
_AXIS = 34
_LEFT, _SPAN = 3.0, 94.0
_SMALLEST = 1e-100
_LARGEST = 1e150
"""Figures beyond it, which no clock gives, would make a scale overflow."""
_DASHES = ("", "6 3", "2 3", "8 3 2 3", "4 2", "1 3", "10 4", "3 1")


@dataclass(frozen=True, slots=True)
class Track:
    """A row of a plot: words above, and below them what lies where on the common scale.

    From `begins` a bar of `estimate` where `is_bar`, else a point with its interval; `dots` are
    single figures, `beyond` counts those left and right of the scale. `is_pale` what the run
    cannot tell from nothing. A heading has words alone.
    """

    label: str
    value: str = ""
    estimate: Estimate | None = None
    begins: float = 0.0
    is_bar: bool = True
    is_pale: bool = False
    colour: int = 0
    published: float | None = None
    dots: Sequence[float] = ()
    is_heading: bool = False


def bar_tracks(picture: Bars, *, is_bar: bool = True) -> list[Track]:
    """A picture's bars, or its figures as points with intervals, one a track."""
    tracks = []
    for group in picture.groups:
        if group.heading:
            tracks.append(Track(group.heading, is_heading=True))
        for number, bar in enumerate(group.bars):
            # A colour tells which is the same in every group, and nothing where there is but one.
            colour = number % COLOURS if len(picture.groups) > 1 else 0
            tracks.append(_bar_track(bar, colour, is_bar))
    return tracks


def _bar_track(bar: Bar, colour: int, is_bar: bool) -> Track:
    text = bar.note
    if bar.estimate is not None:
        figure = Figure(bar.estimate, bar.digits, signed=bar.signed, resolved=bar.resolved)
        text = str(figure_text(figure))
    if bar.published is not None:
        text = f"{text} published {bar.published:g}".strip()
    return Track(
        bar.label, text, bar.estimate, bar.begins, is_bar, not bar.resolved, colour, bar.published
    )


def tracks_svg(
    title: str, unit: str, tracks: Sequence[Track], span: tuple[float, float] | None = None
) -> ET.Element:
    """Rows on one scale, which holds zero and every figure, or just `span`."""
    scale = _Scale(*(_span(tracks) if span is None else span))
    heights = [_height(track) for track in tracks]
    height = sum(heights) + _AXIS
    svg = _svg(title, height, "; ".join(f"{t.label}: {t.value}" for t in tracks if t.value))
    for tick in scale.ticks():
        x = scale.percent(tick)
        _add(svg, "line", "zero" if tick == 0 else "grid", x1=x, x2=x, y1=0, y2=height - _AXIS + 6)
        _text(svg, x, height - _AXIS + 18, f"{tick:g}", "small", "middle")
    _text(svg, "50%", height - 2, unit, "small", "middle")
    top = 0
    for track, tall in zip(tracks, heights, strict=True):
        _draw(svg, track, top, scale)
        top += tall
    return svg


def _words(track: Track) -> tuple[list[str], list[str]]:
    """The lines of the label, and those of the value; one line holds both where it can."""
    label = _bounded(track.label)
    if len(label) + len(track.value) <= _LETTERS + 2:
        return [label], []
    label_lines, value_lines = (
        textwrap.wrap(text, _LETTERS, max_lines=3, placeholder=" ...")
        for text in (label, _bounded(track.value))
    )
    return label_lines, value_lines


def _height(track: Track) -> int:
    labels, values = _words(track)
    return _LINE * (len(labels) + len(values)) + (0 if track.is_heading else _TRACK) + _GAP


def _draw(svg: ET.Element, track: Track, top: int, scale: _Scale) -> None:
    labels, values = _words(track)
    y = top
    for line in labels:
        y += _LINE
        _text(svg, "0", y - 3, line, "head" if track.is_heading else "")
    if track.value and not values:
        _text(svg, "100%", y - 3, one_line(track.value), "small", "end")
    for line in values:
        y += _LINE
        _text(svg, "100%", y - 3, line, "small", "end")
    if not track.is_heading:
        _draw_track(svg, track, y, scale)


def _draw_track(svg: ET.Element, track: Track, y: int, scale: _Scale) -> None:
    middle = y + _TRACK / 2
    pale = " pale" if track.is_pale else ""
    colour = f"f{track.colour}{pale}"
    for dot in track.dots:
        _add(svg, "circle", f"dot {colour}", cx=scale.percent(dot), cy=middle, r=2.5)
    one = track.estimate
    if one is not None and abs(one.point) < _LARGEST:
        start, end = sorted((track.begins, track.begins + one.point))
        if track.is_bar:
            wide = f"{max(scale.at(end) - scale.at(start), 0.15):.2f}%"
            x = scale.percent(start)
            _add(svg, "rect", colour, x=x, y=y + 1, width=wide, height=_TRACK - 2)
        if math.isfinite(one.low) and math.isfinite(one.high):
            low, high = (scale.percent(track.begins + end) for end in (one.low, one.high))
            _add(svg, "line", "whisker", x1=low, x2=high, y1=middle, y2=middle)
            for end_x in (low, high):
                _add(svg, "line", "whisker", x1=end_x, x2=end_x, y1=middle - 3, y2=middle + 3)
        if not track.is_bar:
            # Hollow where it is noise: paler alone says little on paper.
            look = "hollow" if track.is_pale else colour
            x = scale.percent(track.begins + one.point)
            _add(svg, "circle", look, cx=x, cy=middle, r=4.5)
    if track.published is not None and abs(track.published) < _LARGEST:
        x = scale.percent(track.published)
        _add(svg, "circle", "published", cx=x, cy=middle, r=4)


def _span(tracks: Sequence[Track]) -> tuple[float, float]:
    ends = [0.0]
    for track in tracks:
        if track.estimate is not None:
            one = track.estimate
            ends += [track.begins, *(track.begins + end for end in (one.point, one.low, one.high))]
        ends += [] if track.published is None else [track.published]
        ends += track.dots
    known = [end for end in ends if abs(end) < _LARGEST]
    return min(known), max(known)


class _Scale:
    """From `low` to `high`, whose places are percentages of the width."""

    def __init__(self, low: float, high: float) -> None:
        self.low = low
        # Figures that small are zeros, and have no logarithm to be divided by.
        self.high = high if high - low > _SMALLEST else low + 1.0

    def at(self, value: float) -> float:
        inside = min(max(value, self.low), self.high)
        return _LEFT + _SPAN * (inside - self.low) / (self.high - self.low)

    def percent(self, value: float) -> str:
        return f"{self.at(value):.2f}%"

    def ticks(self) -> list[float]:
        """Round numbers, three to ten of them: fewer would leave the scale to be guessed."""
        rough = (self.high - self.low) / 4
        power = 10.0 ** math.floor(math.log10(rough))
        steps = [factor * power for factor in (10, 5, 2, 1) if factor * power < rough * 2.5]
        for step in (*steps, power / 2, power / 5):
            first, last = math.ceil(self.low / step), math.floor(self.high / step)
            if last - first >= 2:
                break
        return [number * step for number in range(first, min(last, first + 9) + 1)]


# --- curves


def curves_svg(picture: Curves) -> ET.Element:
    """Lines over sizes, both scales logarithmic; marks have the numbers of their list."""
    shown = [_above_zero(series) for series in picture.series]
    xs = sorted({x for series in shown for x, _ in series.points}) or [1.0, 2.0]
    ys = [one.point for series in shown for _, one in series.points] or [1.0]
    down, height = 300, 330 + _LINE * len(shown)
    across = _Scale(math.log2(xs[0]), math.log2(xs[-1]))
    upward = _Scale(math.log10(min(ys)) - 0.05, math.log10(max(ys)) + 0.05)

    def y_of(value: float) -> float:
        inside = min(max(math.log10(value), upward.low), upward.high)
        return round(down - (down - 20) * (inside - upward.low) / (upward.high - upward.low), 1)

    svg = _svg(picture.title, height, f"Lines of {', '.join(one.label for one in shown)}.")
    _text(svg, "0", 11, heading_text(picture.y, published=False), "small")
    for tick in _decades(upward):
        y = y_of(tick)
        _add(svg, "line", "grid", x1=f"{_LEFT}%", x2=f"{_LEFT + _SPAN}%", y1=y, y2=y)
        _text(svg, "0", y - 2, f"{tick:g}", "small")
    powers = [x for x in xs if math.log2(x).is_integer()] or xs
    every = math.ceil(len(powers) / 7)
    for tick in powers[::every]:
        x = across.percent(math.log2(tick))
        _add(svg, "line", "grid", x1=x, x2=x, y1=20, y2=down)
        _text(svg, x, down + 13, f"{tick:g}", "small", "middle")
    _text(svg, "50%", down + 27, heading_text(picture.x, published=False), "small", "middle")
    for number, series in enumerate(shown):
        places = [(across.percent(math.log2(x)), y_of(one.point)) for x, one in series.points]
        _polyline(svg, places, number)
        for (x, y), (_, one) in zip(places, series.points, strict=True):
            if one.low > 0 and math.isfinite(one.high):
                _add(svg, "line", "whisker", x1=x, x2=x, y1=y_of(one.low), y2=y_of(one.high))
            _add(svg, "circle", f"f{number % COLOURS}", cx=x, cy=y, r=3)
        key = down + 30 + _LINE * (number + 1)
        _polyline(svg, [("0.5%", key - 4), ("8%", key - 4)], number)
        _text(svg, "10%", key, one_line(series.label))
    for marks in gathered([mark for mark in picture.marks if mark.x > 0 and mark.y > 0]):
        first = next(iter(marks.values()))
        text = " ".join(map(str, marks))
        x, y = across.percent(math.log2(first.x)), y_of(first.y)
        _text(svg, x, y + 4, text, "mark", "middle")
    return svg


def _above_zero(series: Series) -> Series:
    # What is not above zero has no place on a logarithmic scale; the table has it.
    return replace(
        series, points=[(x, one) for x, one in series.points if x > 0 and 0 < one.point < _LARGEST]
    )


def _decades(scale: _Scale) -> Iterator[float]:
    for power in range(math.floor(scale.low), math.ceil(scale.high) + 1):
        for factor in (1, 2, 5):
            if scale.low <= math.log10(factor * 10.0**power) <= scale.high:
                yield factor * 10.0**power


def _polyline(svg: ET.Element, places: Sequence[tuple[str, float]], number: int) -> None:
    # SVG's own polyline knows no percentages.
    for (x1, y1), (x2, y2) in itertools.pairwise(places):
        look = f"line s{number % COLOURS}"
        line = _add(svg, "line", look, x1=x1, x2=x2, y1=y1, y2=y2)
        if _DASHES[number % COLOURS]:
            line.set("stroke-dasharray", _DASHES[number % COLOURS])


# --- a figure over runs


@dataclass(frozen=True, slots=True)
class Moment:
    """A figure of one run, in words `when`; `is_like` False if its environment was another."""

    when: str
    estimate: Estimate
    is_like: bool = True


def history_svg(label: str, moments: Sequence[Moment], digits: int) -> ET.Element:
    """One figure from run to run, oldest at the left, on a scale of its own."""
    ends = [end for m in moments for end in (m.estimate.point, m.estimate.low, m.estimate.high)]
    known = [end for end in ends if abs(end) < _LARGEST]
    scale = _Scale(min(known), max(known)) if known else _Scale(0.0, 1.0)
    labels = textwrap.wrap(_bounded(label), _LETTERS, max_lines=2, placeholder=" ...")
    top, tall = _LINE * len(labels) + 16, 56
    texts = [figure_text(Figure(moment.estimate, digits)).point for moment in moments]
    svg = _svg(label, top + tall + 24, f"{len(moments)} runs: {', '.join(texts)}")
    for number, line in enumerate(labels, start=1):
        _text(svg, "0", _LINE * number - 3, line)

    def y_of(value: float) -> float:
        inside = min(max(value, scale.low), scale.high)
        return round(top + tall - tall * (inside - scale.low) / (scale.high - scale.low), 1)

    for value in (scale.low, scale.high):
        _add(svg, "line", "grid", x1="0%", x2="100%", y1=y_of(value), y2=y_of(value))
        shown = f"{value:.{max(digits, 0)}f}"
        _text(svg, "0", y_of(value) + (11 if value == scale.low else -3), shown, "small")
    step = 84.0 / max(len(moments) - 1, 1)
    places = [
        (f"{12 + step * number:.2f}%", y_of(moment.estimate.point))
        for number, moment in enumerate(moments)
    ]
    _polyline(svg, places, 0)
    for (x, y), moment in zip(places, moments, strict=True):
        one = moment.estimate
        if math.isfinite(one.low) and math.isfinite(one.high):
            _add(svg, "line", "whisker", x1=x, x2=x, y1=y_of(one.low), y2=y_of(one.high))
        _add(svg, "circle", "f0" if moment.is_like else "hollow", cx=x, cy=y, r=3)
    _text(svg, "12%", top + tall + 20, moments[0].when, "small")
    _text(svg, "100%", top + tall + 20, moments[-1].when, "small", "end")
    return svg


# --- elements


def _svg(title: str, height: float, description: str) -> ET.Element:
    svg = ET.Element("svg", {"class": "plot", "role": "img", "height": f"{height:g}"})
    ET.SubElement(svg, "title").text = _bounded(title)
    words = textwrap.shorten(_bounded(description), _DESCRIBED, placeholder=" ...")
    ET.SubElement(svg, "desc").text = words
    svg.set("aria-label", f"{_bounded(title)}. {words}")
    return svg


def _bounded(text: str) -> str:
    # Names of foreign documents may be of any length, and wrapping takes its time with each letter.
    return one_line(text[: 2 * _DESCRIBED])


def _add(svg: ET.Element, tag: str, look: str, **places: float | str) -> ET.Element:
    return ET.SubElement(
        svg, tag, {"class": look, **{name: f"{place}" for name, place in places.items()}}
    )


def _text(
    svg: ET.Element, x: str, y: float, text: str, look: str = "", anchor: str = "start"
) -> None:
    element = ET.SubElement(svg, "text", {"x": x, "y": f"{y:g}"})
    if look:
        element.set("class", look)
    if anchor != "start":
        element.set("text-anchor", anchor)
    element.text = text


def standalone(svg: ET.Element, title: str, sheet: str) -> str:
    """A plot as a file of its own, 720 pixels wide, with its title above and its style within."""
    height = float(svg.get("height", "0")) + 52
    whole = ET.Element(
        "svg",
        {
            "xmlns": "http://www.w3.org/2000/svg",
            "class": "plot",
            "width": "720",
            "height": f"{height:g}",
            "role": "img",
        },
    )
    ET.SubElement(whole, "title").text = one_line(title)
    ET.SubElement(whole, "style").text = sheet
    ET.SubElement(whole, "rect", {"width": "100%", "height": "100%", "fill": "var(--ground)"})
    lines = textwrap.wrap(_bounded(title), 100, max_lines=2, placeholder=" ...")
    for number, line in enumerate(lines):
        _text(whole, "16", 18 + 14 * number, line, "head")
    within = ET.SubElement(
        whole, "svg", {"x": "16", "y": "40", "width": "688", "height": svg.get("height", "0")}
    )
    within.extend(list(svg))
    return ET.tostring(whole, encoding="unicode")
