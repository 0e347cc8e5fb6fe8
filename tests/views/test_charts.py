"""Plots as SVG: what is on them, and where."""

from __future__ import annotations

import math
from xml.etree import ElementTree as ET

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from xdplab.records import Estimate
from xdplab.suites.picture import Bar, BarGroup, Bars, Curves, Mark, Series
from xdplab.suites.table import Column
from xdplab.views.charts import (
    Moment,
    Track,
    bar_tracks,
    curves_svg,
    history_svg,
    standalone,
    tracks_svg,
)
from xdplab.views.page import style_sheet


def figure(point: float, half: float = 0.5) -> Estimate:
    return Estimate(point, point - half, point + half, 0.95, 9)


def percents(svg: ET.Element, tag: str, look: str, place: str) -> list[float]:
    found = [one for one in svg.iter(tag) if look in one.get("class", "").split()]
    return [float(one.get(place, "").rstrip("%")) for one in found]


def texts(svg: ET.Element) -> list[str]:
    return [one.text or "" for one in svg.iter("text")]


def test_bars_are_as_long_as_their_figures_and_begin_where_they_should() -> None:
    bars = [Bar("a", figure(10.0)), Bar("b", figure(5.0), begins=10.0)]
    svg = tracks_svg("t", "ns", bar_tracks(Bars("t", "ns", [BarGroup("", bars)])))
    (x1, x2), (w1, w2) = percents(svg, "rect", "f0", "x"), percents(svg, "rect", "f0", "width")
    assert w1 == pytest.approx(2 * w2, abs=0.02)
    assert x2 == pytest.approx(x1 + w1, abs=0.02)


def test_a_difference_below_zero_lies_left_of_it() -> None:
    tracks = [Track("less", estimate=figure(-3.0), is_bar=False, colour=2)]
    svg = tracks_svg("t", "ns", [*tracks, Track("more", estimate=figure(3.0), is_bar=False)])
    (zero,) = percents(svg, "line", "zero", "x1")
    (less,) = percents(svg, "circle", "f2", "cx")
    (more,) = percents(svg, "circle", "f0", "cx")
    assert less < zero < more
    assert zero - less == pytest.approx(more - zero, abs=0.02)


def test_noise_is_hollow_and_published_figures_say_that_they_are() -> None:
    noise = Track("n", estimate=figure(0.1), is_bar=False, is_pale=True)
    assert len(percents(tracks_svg("t", "ns", [noise]), "circle", "hollow", "cx")) == 1
    bars = bar_tracks(Bars("t", "ns", [BarGroup("", [Bar("a", figure(3.0), published=56.0)])]))
    svg = tracks_svg("t", "ns", bars)
    assert len(percents(svg, "circle", "published", "cx")) == 1
    assert any("published 56" in text for text in texts(svg))


@given(st.lists(st.floats(allow_nan=False, allow_infinity=False), min_size=1, max_size=5))
@example([5e-324])
@example([-1e-300, 1e-310])
def test_whatever_the_figures_are_all_lies_on_the_plot(points: list[float]) -> None:
    tracks = [
        Track(f"{point}", estimate=Estimate(point, -math.inf, math.inf, 0.95, 2), dots=[point])
        for point in points
        if abs(point) < 1e150
    ]
    svg = tracks_svg("t", "ns", [Track("none"), *tracks])
    for one in svg.iter():
        for place in ("x", "x1", "x2", "cx", "width"):
            value = one.get(place, "0").rstrip("%")
            assert 0 <= float(value) <= 100


def test_words_too_long_for_a_narrow_page_are_broken_into_lines() -> None:
    label = "one two three four five six " * 3
    svg = tracks_svg("t", "ns", [Track(label, "1.00 [0.90, 1.10]", figure(1.0))])
    assert max(map(len, texts(svg))) <= 50
    assert "1.00 [0.90, 1.10]" in texts(svg)


def test_curves_leave_out_what_a_logarithm_has_not_and_number_their_marks() -> None:
    series = Series("way", [(16, figure(-1.0)), (32, figure(1.0)), (64, figure(2.0, 0.1))])
    marks = [Mark(40, 1.5, 32, 64, "one from 64 on")]
    svg = curves_svg(Curves("t", Column("size", "B"), Column("cost", "ns"), [series], marks))
    assert len(percents(svg, "circle", "f0", "cx")) == 2
    assert "1" in texts(svg)
    assert curves_svg(Curves("t", Column("x"), Column("y"), [])) is not None


def test_a_history_goes_from_left_to_right_and_up_with_its_figures() -> None:
    moments = [Moment("a", figure(1.0)), Moment("b", figure(3.0), is_like=False)]
    svg = history_svg("row", moments, 2)
    (before,) = percents(svg, "circle", "f0", "cx")
    (after,) = percents(svg, "circle", "hollow", "cx")
    assert before < after
    (low,) = percents(svg, "circle", "f0", "cy")
    (high,) = percents(svg, "circle", "hollow", "cy")
    assert high < low


def test_a_plot_alone_is_whole_xml_with_its_title_and_its_style() -> None:
    svg = tracks_svg("a & b < c", "ns", [Track("<script>", "x", figure(1.0))])
    text = standalone(svg, "a & b < c", style_sheet())
    whole = ET.fromstring(text)
    assert whole.find("{*}title").text == "a & b < c"  # type: ignore[union-attr]
    assert "<script>" not in text
