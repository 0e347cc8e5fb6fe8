"""Laws of differences between runs."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from xdplab.records import Estimate
from xdplab.stats import differences
from xdplab.stats.estimates import estimate

_points = st.floats(-1e6, 1e6)
_half = st.floats(0, 1e3)
FIGURES = st.builds(
    lambda point, below, above, n: Estimate(point, point - below, point + above, 0.95, n),
    _points,
    _half,
    _half,
    st.integers(2, 50),
)
SIDES = st.builds(
    differences.side_figure, st.lists(FIGURES, min_size=1, max_size=4), st.floats(0, 10)
)


@given(SIDES, SIDES)
def test_a_difference_turned_round_is_its_negative(
    first: differences.SideFigure, second: differences.SideFigure
) -> None:
    there, chance = differences.difference(first, second)
    back, chance_back = differences.difference(second, first)
    assert back.point == -there.point
    assert back.low == pytest.approx(-there.high)
    assert back.high == pytest.approx(-there.low)
    assert chance == pytest.approx(chance_back)


@given(SIDES)
def test_a_side_does_not_differ_from_itself(side: differences.SideFigure) -> None:
    found, chance = differences.difference(side, side)
    assert found.low <= 0 <= found.high
    assert chance == 1.0


@given(FIGURES, st.floats(0.1, 10))
def test_an_allowance_never_narrows(figure: Estimate, allowance: float) -> None:
    bare = differences.side_figure([figure], 0.0).estimate()
    allowed = differences.side_figure([figure], allowance).estimate()
    assert allowed.low < bare.low
    assert bare.high < allowed.high


def test_runs_that_scatter_widen_the_side_and_runs_that_agree_do_not_narrow_it_to_nothing() -> None:
    tight = [Estimate(point, point - 0.01, point + 0.01, 0.95, 30) for point in (3.0, 4.0, 5.0)]
    scattered = differences.side_figure(tight, 0.0).estimate()
    assert scattered.point == 4.0
    # Student's 97.5 % quantile for two degrees of freedom, over the root of three runs.
    assert scattered.half_width == pytest.approx(4.3027 / math.sqrt(3), rel=1e-3)
    agreeing = differences.side_figure([tight[0]] * 3, 0.0).estimate()
    assert agreeing.half_width > 0


def test_without_an_interval_nothing_is_known() -> None:
    unknown = Estimate(3.0, -math.inf, math.inf, 0.95, 3)
    side = differences.side_figure([unknown], 0.0)
    found, chance = differences.difference(side, side)
    assert math.isinf(found.low)
    assert chance == 1.0
    known = Estimate(3.1, 3.0, 3.2, 0.95, 9)
    assert math.isfinite(differences.side_figure([unknown, known], 0.0).estimate().low)


@given(st.lists(st.floats(0, 1), max_size=20))
def test_holm_keeps_the_order_and_never_lowers_a_chance(chances: list[float]) -> None:
    adjusted = differences.holm(chances)
    assert all(after >= before for before, after in zip(chances, adjusted, strict=True))
    ranked = [after for _, after in sorted(zip(chances, adjusted, strict=True))]
    assert ranked == sorted(ranked)


def test_holm_by_hand() -> None:
    assert differences.holm([0.01, 0.04, 0.03]) == pytest.approx([0.03, 0.06, 0.06])


def test_false_alarms_of_equal_figures_are_as_rare_as_promised() -> None:
    """Two hundred pairs of runs of one thing: 5 % of the intervals leave out zero, not 15."""
    chance = np.random.default_rng(7)
    alarms = 0
    for _ in range(200):
        first, second = (
            differences.side_figure(
                [estimate(list(chance.normal(3.0, 0.3, 30)), quantum=0.001)], 0.0
            )
            for _ in range(2)
        )
        found, _ = differences.difference(first, second)
        alarms += not found.low <= 0 <= found.high
    assert alarms <= 20
