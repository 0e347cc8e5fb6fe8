from __future__ import annotations

import math
import re
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.views.tables import EXAMPLE, estimate, figures
from xdplab.suites.table import Column, Figure, Published, Row, Table
from xdplab.views import format as text


@pytest.mark.parametrize(
    ("figure", "expected"),
    [
        (Figure(estimate(3.2313, 3.2113, 3.2589)), "3.23 [3.21, 3.26]"),
        (Figure(estimate(3.21, 3.21, 3.21)), "3.21 [3.21, 3.21]"),
        (Figure(estimate(0.92, 0.9, 0.95), signed=True), "+0.92 [+0.90, +0.95]"),
        (Figure(estimate(-0.92, -0.95, -0.9), signed=True), "-0.92 [-0.95, -0.90]"),
        (Figure(estimate(3.2, -math.inf, math.inf), digits=1), "3.2 [too few loads]"),
        (
            Figure(estimate(0.01, -0.02, 0.03), signed=True, resolved=False),
            "+0.01 [-0.02, +0.03] within noise",
        ),
        (Figure(estimate(-0.0, -0.0, 0.0), digits=1), "0.0 [0.0, 0.0]"),
        # What rounds to zero has a sign no more than zero has.
        (
            Figure(estimate(-0.04, -0.2, -0.01), digits=1, resolved=False),
            "0.0 [-0.2, 0.0] within noise",
        ),
        (
            Figure(estimate(-0.004, -0.04, -0.001), signed=True, resolved=False),
            "+0.00 [-0.04, +0.00] within noise",
        ),
        (Figure(estimate(-0.04, -math.inf, math.inf), digits=1), "0.0 [too few loads]"),
        (Figure(estimate(13.14, 13.1, 13.2), digits=1, bare=True), "13.1"),
        (Figure(estimate(13.14, -math.inf, math.inf), digits=1, bare=True), "13.1"),
        (Figure(estimate(-0.04, -0.2, 0.1), digits=1, bare=True), "-0.04"),
        (Figure(estimate(0.0032, 0.0021, 0.0042), signed=True), "+0.003 [+0.002, +0.005]"),
        (Figure(estimate(2.5e6, 2.4e6, 2.6e6), digits=0), "2500000 [2400000, 2600000]"),
        (
            Figure(estimate(1e300, 1e300, 1e300), digits=0),
            f"1{'0' * 300} [1{'0' * 300}, 1{'0' * 300}]",
        ),
    ],
)
def test_figures(figure: Figure, expected: str) -> None:
    assert text.cell_text(figure) == expected


_INTERVAL = re.compile(r"\[([-+]?[\d.]+), ([-+]?[\d.]+)\]")


@given(figures)
def test_a_figure_keeps_its_sign_and_its_interval(figure: Figure) -> None:
    parts = text.figure_text(figure)
    point = float(parts.point)
    original = figure.estimate
    # The sign is the figure's own, but what rounds to zero has none; a plus is asked for.
    if point:
        assert (point < 0) == (original.point < 0)
        assert parts.point.startswith("-") == (original.point < 0)
    assert parts.point.startswith("+") == (figure.signed and not parts.point.startswith("-"))
    assert parts.point.lstrip("+-")[0].isdigit()
    assert abs(point - original.point) <= 0.5 * 10.0**-figure.digits * (1 + 1e-9)
    found = _INTERVAL.fullmatch(parts.interval)
    if figure.bare:
        assert parts.interval == ""
    elif found is None:
        assert math.isinf(original.low)
        assert parts.interval == text.TOO_FEW
    else:
        low, high = map(float, found.groups())
        assert low <= point <= high
        assert low <= original.low
        assert original.high <= high
    assert (parts.mark == "") is (figure.resolved or math.isinf(original.low))


@given(figures)
def test_a_printed_zero_has_no_minus(figure: Figure) -> None:
    assert not re.search(r"-0(\.0*)?(?![.\d])", text.cell_text(figure))


@given(figures)
def test_a_bare_figure_is_the_point_that_stands_before_an_interval(figure: Figure) -> None:
    whole = text.figure_text(replace(figure, bare=False))
    assert text.figure_text(replace(figure, bare=True)) == replace(whole, interval="")
    assert whole.interval


@given(st.text())
def test_text_cannot_steer_a_terminal(words: str) -> None:
    shown = text.cell_text(words)
    assert shown.isprintable()
    assert len(shown) == len(words)


def test_published_figures_are_always_labelled() -> None:
    assert text.published_columns(EXAMPLE) == {4}
    assert text.heading_text(EXAMPLE.columns[4], published=True) == "cost, published (ns)"
    assert text.heading_text(Column("Published"), published=True) == "Published"
    assert text.heading_text(Column("", "ns"), published=True) == "published (ns)"
    mixed = Table(
        "t", [Column("cost")], [Row([Published("56")]), Row([Figure(estimate(1.0, 1.0, 1.0))])]
    )
    assert text.cell_texts(mixed) == [["56 (published)"], ["1.00 [1.00, 1.00]"]]


def test_a_note_never_replaces_what_is_there() -> None:
    full = Table("t", [Column("a"), Column("b")], [Row(["x", 1], note="why")])
    assert text.cell_texts(full) == [["x", "1 (why)"]]
    assert text.cell_texts(EXAMPLE)[3][:3] == ["pull", "40", "this kernel lacks bpf_xdp_pull_data"]


@pytest.mark.parametrize(
    ("duration_s", "expected"),
    [
        (0.04, "0.0 s"),
        (9.94, "9.9 s"),
        (9.96, "10 s"),
        (59.4, "59 s"),
        (59.6, "1 min 0 s"),
        (125, "2 min 5 s"),
        (3785, "1 h 3 min"),
    ],
)
def test_durations(duration_s: float, expected: str) -> None:
    assert text.duration(duration_s) == expected
