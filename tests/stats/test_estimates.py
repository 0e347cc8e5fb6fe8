"""Laws of estimates and verdicts, and by seeded simulation how often they hold what they say."""

from __future__ import annotations

import math
import random
from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from xdplab.records import RESOLVED, TOO_FEW_LOADS, WITHIN_NOISE, Estimate
from xdplab.stats import estimates
from xdplab.stats.estimates import (
    MINIMUM_TRIALS,
    estimate,
    ratio,
    resolution,
    spread,
    total,
    verdict,
)

_finite = st.floats(-1e6, 1e6, allow_nan=False).map(lambda value: round(value, 3))
_points = st.lists(_finite, min_size=MINIMUM_TRIALS, max_size=40)
_quantum = st.sampled_from([0.0, 0.001, 1.0])
# An estimate takes milliseconds to bootstrap; the laws need no more examples than this.
_few = settings(max_examples=40, deadline=None)


def _known(low: float, point: float, high: float) -> Estimate:
    return Estimate(point, low, high, level=0.95, n=8)


@st.composite
def _figures(draw: st.DrawFn, least: float = -1e3) -> Estimate:
    numbers = st.floats(least, 1e3, allow_nan=False)
    low, point, high = sorted(draw(st.tuples(numbers, numbers, numbers)))
    return _known(low, point, high)


# --- estimate


@_few
@given(_points, _quantum)
def test_the_point_is_the_median_and_lies_inside(points: list[float], quantum: float) -> None:
    figure = estimate(points, quantum)
    assert figure.point == float(np.median(points))
    assert figure.low <= figure.point <= figure.high
    assert figure.n == len(points)
    assert figure.level == 0.95


@_few
@given(_points, _quantum)
def test_an_interval_is_never_narrower_than_the_clocks_step(
    points: list[float], quantum: float
) -> None:
    figure = estimate(points, quantum)
    assert figure.low <= figure.point - quantum / 2
    assert figure.high >= figure.point + quantum / 2


@_few
@given(_points)
def test_an_interval_lies_within_what_was_seen(points: list[float]) -> None:
    figure = estimate(points, quantum=0.0)
    # Percentiles are interpolated, which rounds in the last binary digit.
    assert min(points) <= figure.low + 1e-9
    assert figure.high - 1e-9 <= max(points)


@_few
@given(_points)
def test_equal_samples_give_equal_figures(points: list[float]) -> None:
    assert estimate(points, 0.001) == estimate(list(points), 0.001)


@_few
@given(_points, st.randoms(use_true_random=False))
def test_the_order_of_trials_changes_nothing(points: list[float], rng: random.Random) -> None:
    shuffled = list(points)
    rng.shuffle(shuffled)
    assert estimate(shuffled, 0.001) == estimate(points, 0.001)


@given(st.lists(_finite, min_size=1, max_size=MINIMUM_TRIALS - 1))
def test_too_few_trials_give_a_point_and_no_interval(points: list[float]) -> None:
    figure = estimate(points, quantum=0.001)
    assert (figure.low, figure.high) == (-math.inf, math.inf)
    assert figure.point == float(np.median(points))
    assert figure.n == len(points)


def test_no_trials_are_no_estimate() -> None:
    with pytest.raises(ValueError, match="at least one trial"):
        estimate([], quantum=0.001)


@given(_finite, st.integers(MINIMUM_TRIALS, 30))
def test_trials_that_agree_give_the_quantum_as_interval(value: float, count: int) -> None:
    figure = estimate([value] * count, quantum=0.001)
    assert (figure.point, figure.low, figure.high) == (value, value - 0.0005, value + 0.0005)


def test_ties_with_a_median_absolute_deviation_of_zero_still_have_an_interval() -> None:
    points = [3.0] * 12 + [3.001, 2.999, 4.0]
    assert float(np.median(np.abs(np.array(points) - 3.0))) == 0.0
    figure = estimate(points, quantum=0.001)
    assert figure.point == 3.0
    assert 0.0005 <= figure.half_width < 1.0


@_few
@given(_points)
def test_one_wild_trial_cannot_move_the_point_past_its_neighbours(points: list[float]) -> None:
    ordered = sorted([*points, 0.0, 0.0])
    middle = len(ordered) // 2
    wild = estimate([*points, 0.0, 1e12], quantum=0.0).point
    assert ordered[middle - 1] <= wild <= ordered[min(middle + 1, len(ordered) - 1)]


# --- how often the interval holds the truth


def _normal(rng: random.Random) -> float:
    return rng.gauss(3.0, 0.2)


def _bimodal(rng: random.Random) -> float:
    # Some loads are slow for as long as they live: the shape that whole packets have.
    return rng.gauss(3.0, 0.05) if rng.random() < 0.7 else rng.gauss(3.5, 0.05)


def _true_median(draw: Callable[[random.Random], float]) -> float:
    rng = random.Random(0)
    return float(np.median([draw(rng) for _ in range(200_000)]))


@pytest.mark.parametrize("draw", [_normal, _bimodal])
def test_the_interval_holds_the_true_median_about_as_often_as_it_says(
    draw: Callable[[random.Random], float],
) -> None:
    truth = _true_median(draw)
    rng = random.Random(2)
    runs = 300
    inside = 0
    width = 0.0
    for _ in range(runs):
        figure = estimate([draw(rng) for _ in range(rng.randint(15, 40))], quantum=0.0)
        inside += figure.low <= truth <= figure.high
        width += (figure.high - figure.low) / runs
    assert inside / runs >= 0.88
    # Trivially wide intervals would hold it as well: the spread of all trials is 0.8 wide.
    assert width < 0.4


# --- verdicts


def test_resolution_is_how_far_the_twin_reaches_on_either_side() -> None:
    assert resolution(_known(-0.3, 0.0, 0.1)) == 0.3
    assert resolution(_known(-0.1, 0.0, 0.2)) == 0.2
    assert resolution(_known(0.1, 0.2, 0.4)) == 0.4
    assert resolution(_known(-0.4, -0.2, -0.1)) == 0.4
    assert resolution(Estimate(0.0, -math.inf, math.inf, 0.95, 2)) == math.inf


@pytest.mark.parametrize(
    ("figure", "limit", "expected"),
    [
        (_known(0.5, 1.0, 1.5), 0.9, RESOLVED),
        (_known(-1.5, -1.0, -0.5), 0.9, RESOLVED),
        (_known(0.5, 1.0, 1.5), None, RESOLVED),
        # Only one of the two conditions.
        (_known(-0.1, 1.0, 1.5), 0.9, WITHIN_NOISE),
        (_known(-0.1, 1.0, 1.5), None, WITHIN_NOISE),
        (_known(0.5, 1.0, 1.5), 1.0, WITHIN_NOISE),
        (_known(-1.5, -1.0, -0.5), 1.0, WITHIN_NOISE),
        # Neither.
        (_known(-0.1, 0.0, 0.1), 0.2, WITHIN_NOISE),
        # An end on zero does not leave zero out.
        (_known(0.0, 1.0, 1.5), 0.1, WITHIN_NOISE),
        (_known(-1.5, -1.0, 0.0), 0.1, WITHIN_NOISE),
        # Without an interval there is nothing to judge by, whatever else is known.
        (Estimate(9.0, -math.inf, math.inf, 0.95, 2), 0.1, TOO_FEW_LOADS),
        (Estimate(9.0, -math.inf, math.inf, 0.95, 2), None, TOO_FEW_LOADS),
        (Estimate(0.0, -math.inf, math.inf, 0.95, 4), 0.1, TOO_FEW_LOADS),
    ],
)
def test_a_verdict_needs_both_conditions(
    figure: Estimate, limit: float | None, expected: str
) -> None:
    assert verdict(figure, limit) == expected


@given(_figures(), st.one_of(st.none(), st.floats(0, 1e3)))
def test_a_verdict_does_not_depend_on_the_sign(figure: Estimate, limit: float | None) -> None:
    mirrored = _known(-figure.high, -figure.point, -figure.low)
    assert verdict(mirrored, limit) == verdict(figure, limit)


@_few
@given(st.lists(_finite, min_size=1, max_size=2 * MINIMUM_TRIALS), _quantum)
def test_a_figure_is_judged_from_the_fifth_load_on(points: list[float], quantum: float) -> None:
    judged = verdict(estimate(points, quantum), None) != TOO_FEW_LOADS
    assert judged == (len(points) >= MINIMUM_TRIALS)


def test_what_makes_no_difference_is_seldom_called_one() -> None:
    """A null comparison beside a twin: false alarms, and the same run's power for contrast."""
    rng = random.Random(3)
    runs = 300
    alarms = found = 0
    for _ in range(runs):
        count = rng.randint(15, 40)
        twin = estimate([_bimodal(rng) - _bimodal(rng) for _ in range(count)], quantum=0.001)
        points = [_bimodal(rng) - _bimodal(rng) for _ in range(count)]
        limit = resolution(twin)
        alarms += verdict(estimate(points, quantum=0.001), limit) == RESOLVED
        found += verdict(estimate([x + 1 for x in points], quantum=0.001), limit) == RESOLVED
    # The interval alone would let about one in twenty pass; the twin's part makes it fewer.
    assert alarms / runs <= 0.03
    assert found / runs >= 0.99


# --- sums and ratios


@given(_figures(), _figures())
def test_a_total_adds_points_and_squares_of_half_widths(first: Estimate, second: Estimate) -> None:
    both = total(first, second)
    assert both.point == first.point + second.point
    below = math.hypot(first.point - first.low, second.point - second.low)
    above = math.hypot(first.high - first.point, second.high - second.point)
    assert both.point - both.low == pytest.approx(below, abs=1e-9)
    assert both.high - both.point == pytest.approx(above, abs=1e-9)
    # No wider than if both erred the same way, no narrower than either.
    slack = 1e-9
    assert both.low >= first.low + second.low - slack
    assert both.high <= first.high + second.high + slack


@given(_figures(), _figures())
def test_a_total_does_not_depend_on_the_order(first: Estimate, second: Estimate) -> None:
    one, other = total(first, second), total(second, first)
    assert (one.point, one.low, one.high) == (other.point, other.low, other.high)


def test_a_total_of_an_unknown_is_unknown() -> None:
    unknown = Estimate(1.0, -math.inf, math.inf, 0.95, 2)
    both = total(unknown, _known(1, 2, 3))
    assert (both.low, both.point, both.high, both.n) == (-math.inf, 3.0, math.inf, 2)


@given(_figures(), _figures(least=0.1))
def test_a_ratio_holds_its_point(numerator: Estimate, denominator: Estimate) -> None:
    found = ratio(numerator, denominator)
    assert found is not None
    assert found.point == numerator.point / denominator.point
    assert found.low <= found.point <= found.high


@given(_figures(least=1.0), _figures(least=1.0), st.floats(0.1, 100))
def test_a_ratio_has_no_unit(numerator: Estimate, denominator: Estimate, factor: float) -> None:
    def scaled(figure: Estimate) -> Estimate:
        return _known(figure.low * factor, figure.point * factor, figure.high * factor)

    plain, again = ratio(numerator, denominator), ratio(scaled(numerator), scaled(denominator))
    assert plain is not None
    assert again is not None
    assert again.point == pytest.approx(plain.point)
    assert again.low == pytest.approx(plain.low, abs=1e-6)
    assert again.high == pytest.approx(plain.high, abs=1e-6)


def test_a_ratio_is_as_wide_as_both_relative_errors_make_it() -> None:
    found = ratio(_known(17.0, 20.0, 23.0), _known(9.0, 10.0, 12.0))
    assert found is not None
    assert found.point == 2.0
    # The ratio is low where the denominator is high: 3/10 with 2 * 2/10, then 3/10 with 2 * 1/10.
    assert 2.0 - found.low == pytest.approx(math.hypot(0.3, 0.4))
    assert found.high - 2.0 == pytest.approx(math.hypot(0.3, 0.2))


@pytest.mark.parametrize("low", [0.0, -0.1, -math.inf])
def test_there_is_no_ratio_to_what_may_be_nothing(low: float) -> None:
    assert ratio(_known(1, 2, 3), Estimate(1.0, low, 2.0, 0.95, 8)) is None


# --- spread


@_few
@given(_points, st.integers(-1000, 1000), st.integers(1, 100))
def test_spread_follows_scale_and_not_place(points: list[float], shift: int, scale: int) -> None:
    moved = spread([scale * value + shift for value in points])
    assert moved == pytest.approx(scale * spread(points), rel=1e-6, abs=1e-6)


def test_spread_of_ties_is_nothing_and_of_too_few_infinite() -> None:
    assert spread([4.0] * MINIMUM_TRIALS) == 0.0
    assert spread([4.0] * (MINIMUM_TRIALS - 1)) == math.inf
    assert spread([]) == math.inf


def test_spread_halves_with_four_times_the_trials() -> None:
    points = [float(value) for value in range(101)]
    assert spread(points * 4) == pytest.approx(spread(points) / 2, rel=0.01)


def test_spread_stands_in_for_the_intervals_half_width() -> None:
    rng = random.Random(4)
    points = [rng.gauss(0, 1) for _ in range(200)]
    assert spread(points) == pytest.approx(estimate(points, 0.0).half_width, rel=0.5)


def test_five_trials_are_the_fewest_whose_extremes_hold_the_median_often_enough() -> None:
    def chance(count: int) -> float:
        # The median lies outside the extremes only if all trials fall on one side of it.
        return 1 - 2 * 0.5**count

    assert chance(MINIMUM_TRIALS) > 0.93 > chance(MINIMUM_TRIALS - 1)
    assert estimates.LEVEL == 0.95


@pytest.mark.parametrize(
    ("count", "rank"), [(5, 0), (6, 0), (7, 0), (8, 0), (9, 1), (10, 1), (11, 1)]
)
def test_few_trials_have_the_interval_that_order_statistics_give(count: int, rank: int) -> None:
    """The binomial ranks of the tables (Conover 1999, table A3), and no narrower."""
    values = [float(2**number) for number in range(count)]
    found = estimate(values, 0.0)
    assert found.low <= values[rank]
    assert found.high >= values[count - 1 - rank]
