"""Pictures drawn with matplotlib, which is imported when something is to be drawn.

Sizes are in inches and placed by hand, since only that gives every label the room that it needs.
What a picture shows and the words in it come from the suite; figures are written as in the tables.
"""

from __future__ import annotations

import io
import logging
import math
import textwrap
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from xdplab.errors import NotPossibleError
from xdplab.records import Document
from xdplab.suites.picture import Bar, BarGroup, Bars, Curves, Mark, Picture, Series
from xdplab.suites.table import Figure
from xdplab.views import environment
from xdplab.views.format import figure_text, heading_text

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure as Canvas

FORMATS = ("svg", "png")

_WIDTH = 10.0
_MARGIN = 0.3
_TITLE = 0.45
_CURVES = 4.6
_LEGEND = 2.1
_LINE = 0.14
_BAR = 0.26
_CHARACTER = 0.078
"""Width of a letter of the labels' size: generous, so that no label is cut."""
_COLUMNS = 2
_NEAR = 0.3
"""Logarithm of what two marks differ by where they can still be told apart."""
_DPI = 150

# Colours that are told apart by those who see fewer of them, too (Okabe and Ito, 2008), without
# the yellow that vanishes on white; a marker each, for paper.
_COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#000000", "#E69F00", "#56B4E9", "#777777")
_MARKERS = ("o", "s", "^", "D", "v", "P", "X", "*")
_FAINT = 0.35


@dataclass(frozen=True, slots=True)
class Panel:
    """A picture, and on which engine its figures were measured ("in this kernel")."""

    picture: Picture
    where: str


def require() -> None:
    """NotPossibleError where nothing can be drawn, with what to do. Ask before measuring."""
    # It tells on standard error where it keeps its fonts, which nobody asked.
    logging.getLogger("matplotlib").setLevel(logging.ERROR)
    try:
        import matplotlib.figure  # noqa: F401
    except ImportError as error:
        raise NotPossibleError(
            f"drawing a picture needs matplotlib, which cannot be imported here ({error}). "
            "Run `pip install matplotlib` in xdplab's environment, or leave --plot out"
        ) from None


def draw(panels: Sequence[Panel], document: Document, picture_format: str) -> bytes:
    """One file with the panels below each other and the run beneath; `picture_format` of FORMATS.

    The same figures give the same bytes with one release of matplotlib.
    """
    import matplotlib as mpl
    from matplotlib.figure import Figure as Canvas

    with mpl.rc_context({"svg.fonttype": "none", "svg.hashsalt": "xdplab", "font.size": 9}):
        lines = _footer(document)
        footer = _LINE * (len(lines) + 1)
        height = sum(_height(panel.picture) for panel in panels) + footer + _MARGIN
        canvas = Canvas(figsize=(_WIDTH, height))
        top = height
        for panel in panels:
            page = _Page(canvas, height, top)
            page.title(f"{panel.picture.title}, {panel.where}")
            if isinstance(panel.picture, Curves):
                _draw_curves(page, panel.picture)
            else:
                _draw_bars(page, panel.picture)
            top -= _height(panel.picture)
        _Page(canvas, height, footer).text("\n".join(lines), 0.0, size=6.5, colour="#444444")
        target = io.BytesIO()
        metadata = {"Date": None} if picture_format == "svg" else None
        canvas.savefig(target, format=picture_format, dpi=_DPI, metadata=metadata)
        return target.getvalue()


def _footer(document: Document) -> list[str]:
    # The machine, the kernel and the run; warnings are beside the tables.
    return [
        part for line in environment.lines(document)[:3] for part in textwrap.wrap(line, width=165)
    ]


def _height(picture: Picture) -> float:
    if isinstance(picture, Curves):
        return _TITLE + _CURVES + _LINE * (_lines_of(picture.marks) + 1)
    rows = sum(len(group.bars) + bool(group.heading) for group in picture.groups)
    return _TITLE + _BAR * rows + 0.75


class _Page:
    """The part of a canvas below `top`; places are inches from its upper left corner."""

    def __init__(self, canvas: Canvas, height: float, top: float) -> None:
        self._canvas = canvas
        self._height = height
        self._top = top

    def title(self, text: str) -> None:
        self.text(text, 0.18, size=11, weight="bold")

    def text(
        self,
        text: str,
        down: float,
        left: float = _MARGIN,
        *,
        size: float = 8,
        weight: str = "normal",
        colour: str = "black",
    ) -> None:
        x, y = left / _WIDTH, (self._top - down) / self._height
        self._canvas.text(
            x, y, text, va="top", fontsize=size, fontweight=weight, color=colour, linespacing=1.35
        )

    def axes(self, left: float, down: float, width: float, height: float) -> Axes:
        bottom = (self._top - down - height) / self._height
        area = (left / _WIDTH, bottom, width / _WIDTH, height / self._height)
        axes = self._canvas.add_axes(area)
        axes.spines[["top", "right"]].set_visible(False)
        axes.set_axisbelow(True)
        return axes


# --- curves


def _draw_curves(page: _Page, picture: Curves) -> None:
    left = _MARGIN + 0.6
    axes = page.axes(left, _TITLE, _WIDTH - left - _LEGEND - _MARGIN, _CURVES - 0.55)
    axes.set_xscale("log", base=2)
    axes.set_yscale("log")
    axes.grid(which="major", color="#dddddd", linewidth=0.6)
    axes.set_xlabel(heading_text(picture.x, published=False))
    axes.set_ylabel(heading_text(picture.y, published=False))
    for number, series in enumerate(picture.series):
        _draw_series(axes, series, number)
    _plain_ticks(axes, picture.series)
    for marks in gathered(picture.marks):
        _draw_marks(axes, marks)
    axes.legend(loc="upper left", bbox_to_anchor=(1.02, 1.0), frameon=False, fontsize=8.5)
    rows = _lines_of(picture.marks)
    texts = [f"{number}  {mark.text}" for number, mark in enumerate(picture.marks, start=1)]
    for column in range(_COLUMNS):
        part = "\n".join(texts[column * rows : (column + 1) * rows])
        page.text(part, _TITLE + _CURVES, _MARGIN + column * _WIDTH / _COLUMNS, size=7)


def _lines_of(marks: Sequence[Mark]) -> int:
    return math.ceil(len(marks) / _COLUMNS)


def _draw_series(axes: Axes, series: Series, number: int) -> None:
    # What is not above zero has no place on a logarithmic scale; the table has it.
    shown = [(x, one) for x, one in series.points if one.point > 0]
    points = [one.point for _, one in shown]
    below = [one.point - max(one.low, one.point / 1000) for _, one in shown]
    above = [one.high - one.point if math.isfinite(one.high) else 0.0 for _, one in shown]
    axes.errorbar(
        [x for x, _ in shown],
        points,
        yerr=[below, above],
        label=series.label,
        color=_COLOURS[number % len(_COLOURS)],
        marker=_MARKERS[number % len(_MARKERS)],
        markersize=4.5,
        linewidth=1.3,
        elinewidth=1.0,
        capsize=2.5,
    )


def _plain_ticks(axes: Axes, series: Sequence[Series]) -> None:
    """Sizes and nanoseconds as people write them, instead of powers."""
    from matplotlib.ticker import FuncFormatter, LogLocator, NullLocator

    sizes = {x for one in series for x, _ in one.points}
    powers = sorted(x for x in sizes if math.log2(x).is_integer())
    axes.set_xticks(powers or sorted(sizes))
    axes.xaxis.set_minor_locator(NullLocator())
    plain = FuncFormatter(lambda value, _position: f"{value:g}")
    axes.xaxis.set_major_formatter(plain)
    axes.yaxis.set_major_locator(LogLocator(base=10, subs=(1, 2, 5)))
    axes.yaxis.set_minor_locator(NullLocator())
    axes.yaxis.set_major_formatter(plain)


def gathered(marks: Sequence[Mark]) -> list[dict[int, Mark]]:
    """Marks by their numbers, those together that would cover one another."""
    groups: list[dict[int, Mark]] = []
    for number, mark in enumerate(marks, start=1):
        for group in groups:
            first = next(iter(group.values()))
            if abs(math.log(mark.x / first.x)) < _NEAR and abs(math.log(mark.y / first.y)) < _NEAR:
                group[number] = mark
                break
        else:
            groups.append({number: mark})
    return groups


def _draw_marks(axes: Axes, marks: Mapping[int, Mark]) -> None:
    # How far a crossing may lie to either side, and its number, which the list below explains.
    for mark in marks.values():
        axes.plot([mark.low_x, mark.high_x], [mark.y, mark.y], color="#999999", linewidth=0.8)
    first = next(iter(marks.values()))
    axes.annotate(
        " ".join(str(number) for number in marks),
        (first.x, first.y),
        ha="center",
        va="center",
        fontsize=6.5,
        bbox={"boxstyle": "round,pad=0.25", "facecolor": "white", "edgecolor": "#444444"},
        zorder=10,
    )


# --- bars


def _draw_bars(page: _Page, picture: Bars) -> None:
    labels = [bar.label for group in picture.groups for bar in group.bars]
    headings = [group.heading for group in picture.groups]
    left = _MARGIN + _CHARACTER * max(map(len, [*labels, *headings])) + 0.1
    values = [_value(bar) for group in picture.groups for bar in group.bars]
    right = _MARGIN + _CHARACTER * max(map(len, values))
    rows = sum(len(group.bars) + bool(group.heading) for group in picture.groups)
    # Long words to either side leave the bars a third of the width at the least.
    width = max(_WIDTH - left - right, _WIDTH / 3)
    axes = page.axes(left, _TITLE, width, _BAR * rows)
    axes.set_ylim(rows - 0.5, -0.5)
    axes.set_yticks([])
    axes.grid(axis="x", color="#dddddd", linewidth=0.6)
    axes.set_xlabel(picture.unit)
    axes.axvline(0, color="black", linewidth=0.8)
    axes.set_xlim(*_span(picture.groups))
    row = 0
    for group in picture.groups:
        if group.heading:
            _beside(axes, row, 0.0, -4, group.heading, weight="bold", align="right")
            row += 1
        for number, bar in enumerate(group.bars):
            # A colour tells which is the same in every group, and nothing where there is but one.
            colour = number % len(_COLOURS) if len(picture.groups) > 1 else 0
            _draw_bar(axes, row, bar, _COLOURS[colour])
            row += 1


def _span(groups: Sequence[BarGroup]) -> tuple[float, float]:
    ends = [0.0]
    for group in groups:
        for bar in group.bars:
            if bar.estimate is not None:
                known = (bar.estimate.point, bar.estimate.low, bar.estimate.high)
                ends += [bar.begins + end for end in known if math.isfinite(end)]
            if bar.published is not None:
                ends.append(bar.published)
    low, high = min(ends), max(ends)
    room = 0.02 * (high - low or 1.0)
    return (low - room if low < 0 else 0.0), high + room


def _value(bar: Bar) -> str:
    text = bar.note
    if bar.estimate is not None:
        figure = Figure(bar.estimate, bar.digits, signed=bar.signed, resolved=bar.resolved)
        text = str(figure_text(figure))
    return text if bar.published is None else f"{text}  published {bar.published:g}".strip()


def _draw_bar(axes: Axes, row: int, bar: Bar, colour: str) -> None:
    _beside(axes, row, 0.0, -4, bar.label, align="right")
    _beside(axes, row, 1.0, 6, _value(bar), align="left")
    if bar.estimate is not None:
        one = bar.estimate
        alpha = 0.85 if bar.resolved else _FAINT
        axes.barh(row, one.point, 0.66, left=bar.begins, color=colour, alpha=alpha)
        if math.isfinite(one.low) and math.isfinite(one.high):
            width = [[one.point - one.low], [one.high - one.point]]
            end = bar.begins + one.point
            axes.errorbar(end, row, xerr=width, color="black", capsize=2.5, elinewidth=1.0)
    if bar.published is not None:
        axes.plot(
            bar.published, row, marker="D", markersize=5, markerfacecolor="white", color="#444444"
        )


def _beside(
    axes: Axes, row: int, edge: float, points: float, text: str, *, align: str, weight: str = ""
) -> None:
    """Text beside the axes: at their left (`edge` 0) or right (1), so many points away."""
    axes.annotate(
        text,
        (edge, row),
        xycoords=("axes fraction", "data"),
        xytext=(points, 0),
        textcoords="offset points",
        ha="right" if align == "right" else "left",
        va="center",
        fontsize=8,
        fontweight=weight or "normal",
        annotation_clip=False,
    )
